"""programs: commands of a call as a stream that can be moved, and its driver function.

A call says what it computes (`begin`, an Operation), where its constants, its working memory and
what was fetched of its constants lie (`places`), how its constants are cut (`segment`), what it
puts together (`piece`), where each row that it reads or writes lies (`row`), and which rows it
computes (`run`); and before all that, which constants it fetches for calls to come (`fetch`), while
it computes.
The encoder makes operations and copies of that (`call`), and words of these (`emission`).

Every base of a submission is a region of the NPU, so a stream holds offsets alone, and is right
wherever the bases lie.  What is submitted is what Arm's driver takes: a header and the words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from penstock.accelerators.ethos_u.call import Call, ConstantsCopy, Piece, RowsAt
from penstock.accelerators.ethos_u.emission import emitted
from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.interpreter import driver_payload as words_of
from penstock.accelerators.ethos_u.interpreter import execute
from penstock.accelerators.ethos_u.operation import NAMES, Operation
from penstock.accelerators.ethos_u.vela import (
    command_words,
    copies_done,
    driver_payload,
    payload_configuration,
)
from penstock.uma import Array, Driver, Place, RowCall, StreamCommand


@dataclass(frozen=True, slots=True)
class Drivers:
    """Functions of the driver of one accelerator; all but `submit` are encoded."""

    submit: Driver
    begin: Driver
    places: Driver
    segment: Driver
    piece: Driver
    row: Driver
    run: Driver
    fetch: Driver


@cache
def drivers(engine: str) -> Drivers:
    """Of an accelerator's name."""
    encoded = (
        Driver(f"ethosu_{name}", engine, _in_streams_only, object)
        for name in ("begin", "places", "segment", "piece", "row", "run", "fetch")
    )
    return Drivers(Driver("ethosu_submit", engine, submit, object), *encoded)


def encode(commands: Sequence[StreamCommand]) -> bytes:
    """What the driver is handed for a call's commands."""
    said = RowCall.of(commands)
    op = Operation(*said.numbers)
    call = Call(
        op,
        said.places,
        tuple(Segment(*c.numbers) for c in commands if c.name == "ethosu_segment"),
        tuple(Piece(*c.numbers) for c in commands if c.name == "ethosu_piece"),
        {tensor: _rows_at(rows) for tensor, rows in said.rows.items()},
        tuple(_fetched(c) for c in commands if c.name == "ethosu_fetch"),
    )
    name = NAMES[op.chip]
    words = command_words([*map(emitted, call.actions(said.first, said.end))], name)
    return driver_payload(copies_done(words) if call.fetches else words, name)


def _rows_at(rows: Mapping[int, Place]) -> RowsAt:
    """Rows of a tensor, each of which lies in the same region."""
    lower = min(rows)
    places = [rows[lower + k] for k in range(len(rows))]
    return RowsAt(places[0].base, lower, [place.offset_bytes for place in places])


def _fetched(command: StreamCommand) -> ConstantsCopy:
    """What copies the constants of a call to come."""
    (source, target), (size,) = command.places, command.numbers
    return ConstantsCopy(source, target, size)


def submit(device: object, payload: Array, size: int, *bases: Array) -> None:
    """Runs a payload: every base is a region.  Calls to come may need what it copies."""
    del device
    raw = payload[:size].tobytes()
    execute(words_of(raw), dict(enumerate(bases)), payload_configuration(raw), waited=True)


def _in_streams_only(device: object, *arguments: object) -> None:
    raise AssertionError("commands of a call are encoded, not done one by one")
