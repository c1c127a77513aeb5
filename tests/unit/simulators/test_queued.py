"""Calls in the queue of an accelerator: what other engines may not touch, and when they run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from penstock.errors import InternalError
from penstock.ir.tensor import Array, DType, TensorType
from penstock.program.program import Buffer, Driver, Kind, Memory, Program, View
from penstock.simulators.machine import Queued, ReadyCall
from penstock.simulators.memories import POISON, ConcreteOperand, Memories

TYPE = TensorType((4,), DType.INT8)


def nothing(_: object) -> None:
    """The functional model of a driver function."""


WAIT = Driver("npu_wait", "npu", nothing, object)
NAMES = ("x", "y", "z")


def operand(name: str) -> ConcreteOperand:
    """A whole tensor; each has a buffer of its own."""
    return ConcreteOperand.whole(View.whole(name, TYPE, name))


def memories() -> Memories:
    buffers = tuple(Buffer(name, Kind.ARENA, "ram", 4 * k, 4) for k, name in enumerate(NAMES))
    found = Memories(
        Program("net", (Memory("ram", 12, writable=True),), buffers, (), (), (), (), (WAIT,))
    )
    for k, name in enumerate(NAMES):
        found.write(operand(name), elements(k))
    return found


def elements(k: int) -> Array:
    return np.full(4, k, np.int8)


def submitted(ram: Memories) -> Queued:
    """A queue with a call that copies x to y."""
    queued = Queued(ram, (WAIT,))

    def run() -> None:
        ram.write(operand("y"), ram.read(operand("x")))

    queued.submit(ReadyCall("npu", run, [operand("x")], [operand("y")]))
    return queued


@pytest.mark.parametrize(
    ("reads", "writes", "refused"),
    [("x", "z", False), ("z", "z", False), ("y", "z", True), ("z", "y", True), ("z", "x", True)],
)
def test_other_engines_may_only_read_what_queued_calls_read(
    reads: str, writes: str, refused: bool
) -> None:
    queued = submitted(memories())
    ends = [operand(reads)], [operand(writes)]
    queued.check("npu", *ends)
    if refused:
        with pytest.raises(InternalError, match="before the program waits") as caught:
            queued.check("cpu", *ends)
        assert caught.value.code == "machine-012"
    queued.complete(WAIT)
    queued.check("cpu", *ends)


def contents(ram: Memories, names: Sequence[str] = NAMES) -> list[int]:
    return [int(ram.bytes_from(name, 0)[0]) for name in names]


def test_calls_run_and_buffers_are_freed_when_the_program_waits() -> None:
    ram = memories()
    queued = submitted(ram)
    queued.free("x")
    assert contents(ram) == [0, 1, 2]
    with pytest.raises(InternalError, match="never waited for on npu"):
        queued.check_empty()
    queued.complete(Driver("npu_select", "npu", nothing, object))
    assert contents(ram) == [0, 1, 2]
    queued.complete(WAIT)
    assert contents(ram) == [POISON, 0, 2]
    queued.check_empty()


def test_calls_of_an_engine_without_a_queue_run_at_once() -> None:
    ram = memories()
    queued = Queued(ram, ())
    queued.submit(ReadyCall("npu", lambda: ram.write(operand("y"), elements(7)), [], []))
    assert contents(ram) == [0, 7, 2]
    queued.free("y")
    assert contents(ram) == [0, POISON, 2]
