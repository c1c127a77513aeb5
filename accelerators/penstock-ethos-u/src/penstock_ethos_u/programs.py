"""programs: the encoder of command streams, and the functional model that executes them.

A kernel call issues one `EncodedOperation`, preceded by copies of constants for this call and later
ones. The encoder converts these commands to NPU operations and copies (`call`), and then to
register commands (`emission`).

Streams are relocatable: an address consists of the number of a memory region and an offset. A
submission passes the base address of each region, and a payload in the format of Arm's driver: a
header and the register commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from penstock.uma import Array, Driver, StreamOperation, StreamTransfer
from penstock_ethos_u.call import EncodedOperation, NpuCall
from penstock_ethos_u.emission import vela_operation
from penstock_ethos_u.interpreter import driver_payload as words_of
from penstock_ethos_u.interpreter import execute
from penstock_ethos_u.vela import (
    command_words,
    driver_payload,
    payload_configuration,
    with_copy_wait,
)


@cache
def submission(engine: str) -> Driver:
    """Return the driver function that submits a stream to `engine`, the name of the accelerator."""
    return Driver("ethosu_submit", engine, submit, object)


def encode(commands: Sequence[StreamOperation[EncodedOperation] | StreamTransfer]) -> bytes:
    """Return the driver payload of a call.

    commands: exactly one operation, and zero or more copies of constants, issued before it."""
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
    words = command_words([*map(vela_operation, call.actions(issued.first, issued.end))], name)
    return driver_payload(with_copy_wait(words) if transfers else words, name)


def submit(device: object, payload: Array, size: int, *bases: Array) -> None:
    """Execute a payload on the functional model of the NPU, in the role of the C function
    `ethosu_submit`.

    device: ignored.
    payload: array that contains the payload in its first `size` bytes.
    bases: the memory regions as arrays, in the order of their numbers.

    Raises BackendError if a copy may be unfinished at the end, because later calls may read its
    target."""
    del device
    raw = payload[:size].tobytes()
    execute(words_of(raw), dict(enumerate(bases)), payload_configuration(raw), waited=True)
