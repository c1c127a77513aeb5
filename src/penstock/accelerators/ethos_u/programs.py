"""programs: commands of a call as a stream that can be moved, and its driver function.

A call says what it computes (`begin`, an Operation), where its constants, its working memory and
what was fetched of its constants lie (`places`), how its constants are cut (`segment`), what it
puts together (`piece`), where each row that it reads or writes lies (`row`), and which rows it
computes (`run`); and before all that, which constants it fetches for calls to come (`fetch`), while
it computes.
The encoder makes operations of that: of as many rows at a time as two tiles hold, in rings as in
whole tensors.  Rows of one window that lie in more pieces are first copied, one under the other.

Every base of a submission is a region of the NPU, so a stream holds offsets alone, and is right
wherever the bases lie.  What is submitted is what Arm's driver takes: a header and the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from penstock.accelerators.ethos_u.emission import (
    Maps,
    Part,
    constants_copy,
    copy,
    emitted,
    table_copy,
)
from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.interpreter import driver_payload as words_of
from penstock.accelerators.ethos_u.interpreter import execute
from penstock.accelerators.ethos_u.operation import NAMES, Function, Operation
from penstock.accelerators.ethos_u.schedule import copied_before
from penstock.accelerators.ethos_u.tiles import Tiles, tiles_of
from penstock.accelerators.ethos_u.vela import (
    command_words,
    copies_done,
    driver_payload,
    payload_configuration,
)
from penstock.uma import Array, Driver, Place, RowCall, StreamCommand

FIRST, SECOND, RESULT, PIECES = range(4)
"""Tensors of a call, by number; those that are put together from PIECES on."""


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


class Piece(NamedTuple):
    """Channels of a tensor that is put together with others, and whether it lies in bricks."""

    channels: int
    packed: int


@dataclass(frozen=True, slots=True)
class _Run:
    """A call: what it computes, where its constants, its working memory and what was fetched lie,
    what is put together, and the rows of each tensor."""

    op: Operation
    places: tuple[Place, ...]
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    rows: Mapping[int, Mapping[int, Place]]

    def operations(self, first: int, end: int) -> Iterator[Any]:
        """The NPU's operations for rows [first, end) of the output."""
        if self.pieces:
            yield from self._put_together(first, end)
            return
        if self.op.function == Function.LOOKUP:
            yield table_copy(self.op, self.places[0])
        parts = self._parts()
        for k, part in enumerate(parts):
            for other in self.op.buffered:
                if copied_before(self.op, other) == k:
                    yield self._copied(parts[other])
            yield from self._rows(first, end, self._near(part))

    def _put_together(self, first: int, end: int) -> Iterator[Any]:
        """Piece by piece, what copies its rows to its channels of the output."""
        channel = 0
        for k, (channels, packed) in enumerate(self.pieces):
            op = replace(self.op, in_c=channels, slice_channels=channels, packed_in=packed)
            rows = {FIRST: self.rows[PIECES + k], RESULT: self.rows[RESULT]}
            part = Part(0, channel, channels, None, 0, 0)
            yield from replace(self, op=op, rows=rows)._rows(first, end, part)
            channel += channels

    def _parts(self) -> list[Part]:
        """The channels of each segment, and where its constants lie."""
        if not self.segments:
            return [Part(0, 0, self.op.out_c, None, 0, 0)]
        found: list[Part] = []
        channel, place = 0, self.places[0]
        for k, segment in enumerate(self.segments):
            found.append(Part(k, channel, segment.channels, place, *segment[1:]))
            channel += segment.channels
            place = replace(place, offset_bytes=place.offset_bytes + segment.size_bytes)
        return found

    def _copied(self, part: Part) -> Any:
        """What copies the constants of a part into their buffer."""
        target = self._near(part).place
        assert part.place is not None
        assert target is not None
        return constants_copy(part.place, target, part.bias_bytes + part.weight_bytes)

    @property
    def _scratch(self) -> Place:
        return self.places[-2 if self.op.fetched else -1]

    def _near(self, part: Part) -> Part:
        """The part with its constants where they are used."""
        op = self.op
        if op.biases_ahead:
            return part._replace(biases=self.places[-1])
        if not op.near(part.segment):
            return part
        if part.segment < op.ahead:
            assert part.place is not None
            at = self.places[-1], part.place.offset_bytes - self.places[0].offset_bytes
        else:
            buffers = op.scratch_bytes - op.buffers * op.buffer_bytes
            at = self._scratch, buffers + part.segment % op.buffers * op.buffer_bytes
        place, offset = at
        return part._replace(place=replace(place, offset_bytes=place.offset_bytes + offset))

    def _rows(self, first: int, end: int, part: Part) -> Iterator[Any]:
        """Of one part, as many rows at a time as lie in two pieces."""
        while first < end:
            until = self._until(first, end)
            if until == first:
                until = first + 1
                yield from self._gathered(first, part)
            else:
                yield emitted(self.op, (first, until), self._maps(first, until), part)
            first = until

    def _until(self, first: int, end: int) -> int:
        """Up to which row all that rows from `first` on touch lies in two pieces each."""
        if self._possible(first, end):
            return end
        until = first
        while self._possible(first, until + 1):
            until += 1
        return until

    def _possible(self, first: int, end: int) -> bool:
        return all(self._tiles(k, first, end) is not None for k in self.rows)

    def _tiles(self, tensor: int, first: int, end: int) -> tuple[int, Tiles] | None:
        """The base and the pieces of what rows [first, end) of the output touch of a tensor."""
        lower, upper = self._touched(tensor, first, end)
        places = [self.rows[tensor][row] for row in range(lower, upper)]
        offsets = [place.offset_bytes for place in places]
        alone = tensor == FIRST and end - first == 1  # more rows could be cut
        found = tiles_of(offsets, self._row_bytes(tensor), backwards=alone)
        return None if found is None else (places[0].base, found)

    def _touched(self, tensor: int, first: int, end: int) -> tuple[int, int]:
        """Rows of a tensor that rows [first, end) of the output touch."""
        if tensor == FIRST:
            return self.op.reads(first, end)
        return self.op.second_rows(first, end) if tensor == SECOND else (first, end)

    def _row_bytes(self, tensor: int) -> int:
        op = self.op
        return (op.in_row_bytes, op.second_row_bytes, op.out_row_bytes)[tensor]

    def _maps(self, first: int, end: int) -> Maps:
        found = [self._tiles(k, first, end) for k in (FIRST, SECOND, RESULT) if k in self.rows]
        source, *second, result = (tiles for tiles in found if tiles is not None)
        return Maps(source, second[0] if second else None, result)

    def _gathered(self, row: int, part: Part) -> Iterator[Any]:
        """The operations of one row whose window's rows are copied to the working memory before."""
        lower, upper = self.op.reads(row, row + 1)
        size, scratch = self.op.in_row_bytes, self._scratch
        for k in range(lower, upper):
            source = self.rows[FIRST][k]
            at = scratch.offset_bytes + (k - lower) * size
            yield copy(
                self.op,
                (source.base, Tiles(size, 1, source.offset_bytes, 0)),
                (scratch.base, Tiles(size, 1, at, 0)),
            )
        result = self._tiles(RESULT, row, row + 1)
        assert result is not None
        window = (scratch.base, Tiles(size, upper - lower, scratch.offset_bytes, 0))
        yield emitted(self.op, (row, row + 1), Maps(window, None, result), part)


def encode(commands: Sequence[StreamCommand]) -> bytes:
    """What the driver is handed for a call's commands."""
    call = RowCall.of(commands)
    op = Operation(*call.numbers)
    segments = tuple(Segment(*c.numbers) for c in commands if c.name == "ethosu_segment")
    pieces = tuple(Piece(*c.numbers) for c in commands if c.name == "ethosu_piece")
    run = _Run(op, call.places, segments, pieces, call.rows)
    name = NAMES[op.chip]
    fetches = [_fetched(c) for c in commands if c.name == "ethosu_fetch"]
    words = command_words([*fetches, *run.operations(call.first, call.end)], name)
    return driver_payload(copies_done(words) if fetches else words, name)


def _fetched(command: StreamCommand) -> Any:
    """What copies the constants of a call to come."""
    (source, target), (size,) = command.places, command.numbers
    return constants_copy(source, target, size)


def submit(device: object, payload: Array, size: int, *bases: Array) -> None:
    """Runs a payload: every base is a region.  Calls to come may need what it copies."""
    del device
    raw = payload[:size].tobytes()
    execute(words_of(raw), dict(enumerate(bases)), payload_configuration(raw), waited=True)


def _in_streams_only(device: object, *arguments: object) -> None:
    raise AssertionError("commands of a call are encoded, not done one by one")
