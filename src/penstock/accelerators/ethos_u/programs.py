"""programs: the command stream of a call: its encoder and its functional model.

A call issues one `EncodedOperation`, after transfers that copy constants for this call and later
ones.  The encoder turns them into operations and copies (`call`), and these into words
(`emission`).

Every base of a submission is a region of the NPU.  Streams contain only offsets into regions, and
so are independent of the addresses of the bases.  A submission passes the payload that Arm's driver
expects: a header and the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from penstock.accelerators.ethos_u.call import EncodedOperation, NpuCall
from penstock.accelerators.ethos_u.emission import emitted
from penstock.accelerators.ethos_u.interpreter import driver_payload as words_of
from penstock.accelerators.ethos_u.interpreter import execute
from penstock.accelerators.ethos_u.vela import (
    command_words,
    copies_done,
    driver_payload,
    payload_configuration,
)
from penstock.uma import Array, Driver, StreamOperation, StreamTransfer


@cache
def submission(engine: str) -> Driver:
    """The driver function that submits a stream, of the accelerator named `engine`."""
    return Driver("ethosu_submit", engine, submit, object)


def encode(commands: Sequence[StreamOperation[EncodedOperation] | StreamTransfer]) -> bytes:
    """The driver payload of a call."""
    transfers = tuple(c for c in commands if isinstance(c, StreamTransfer))
    (issued,) = (c for c in commands if isinstance(c, StreamOperation))
    call = NpuCall(
        issued.operation,
        issued.inputs,
        issued.result,
        issued.tables[0] if issued.tables else None,
        issued.scratch,
        issued.prefetched,
        transfers,
    )
    name = call.op.configuration.name
    words = command_words([*map(emitted, call.actions(issued.first, issued.end))], name)
    return driver_payload(copies_done(words) if transfers else words, name)


def submit(device: object, payload: Array, size: int, *bases: Array) -> None:
    """Functional model of `ethosu_submit`: executes a payload, with every base as a region.

    Copies must be complete at the end, since later calls may read what they write."""
    del device
    raw = payload[:size].tobytes()
    execute(words_of(raw), dict(enumerate(bases)), payload_configuration(raw), waited=True)
