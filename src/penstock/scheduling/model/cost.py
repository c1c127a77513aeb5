"""Cost: the estimated cost of kernel calls, for search and reports.  CostModel: computes cycles.

The bytes that a call reads and writes are the sizes of the tensor regions that it accesses, however
many load and store instructions its kernel executes.  Multiply-accumulates include those with
padding.  Kernels skip output channels proved to be constant; the multiply-accumulates of these
channels are counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part

Bytes = tuple[tuple[str, int], ...]
"""(memory region, bytes) pairs, sorted; regions with zero bytes are left out."""


@frozen
class Cost:
    """Estimated cost of a set of kernel calls.

    cycles: cycles of all calls together.
    calls: number of calls.
    macs: multiply-accumulates that the kernels execute.
    read_bytes, written_bytes: sizes of the tensor regions that the calls read and write, as sorted
        pairs (name of a memory region, bytes).
    constant_macs: multiply-accumulates that the kernels skip, because the result of the output
        channel is constant.
    """

    cycles: int = 0
    calls: int = 0
    macs: int = 0
    read_bytes: Bytes = ()
    written_bytes: Bytes = ()
    constant_macs: int = 0

    @property
    def nominal_macs(self) -> int:
        """Multiply-accumulates, including those of constant output channels, which are skipped."""
        return self.macs + self.constant_macs

    def external_bytes(self, stated: Breakdown | None, memory: str) -> float:
        """Return the bytes that the calls move to and from main memory.

        If the accelerator states them, these are the bytes through its port of main memory, with
        weights; otherwise, those of the parts of tensors in main memory that the calls access.
        stated: what the accelerator states of the calls, if any.
        memory: the name of main memory, the region of inputs and outputs.
        """
        if stated is not None and stated.memory_bytes:
            return stated.memory_bytes
        moved = (dict(self.read_bytes), dict(self.written_bytes))
        return sum(bytes_in.get(memory, 0) for bytes_in in moved)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.cycles + other.cycles,
            self.calls + other.calls,
            self.macs + other.macs,
            added(self.read_bytes, other.read_bytes),
            added(self.written_bytes, other.written_bytes),
            self.constant_macs + other.constant_macs,
        )


NOTHING = Cost()
"""The zero cost."""


class CostModel(Protocol):
    """Estimates the cycles of kernel calls, on any engine.

    All methods take the memory regions of the operands (`memory`, see `MemoryAssignment.for_part`);
    None means that all operands are in the default region.
    """

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of computing the part's whole output, without the overhead of calls.

        memory: memory regions of the part's operands; None: the default region for all.
        """
        ...

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the overhead of each call of the part, in cycles, without the computation.

        memory: memory regions of the part's operands; None: the default region for all.
        """
        ...

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the total cycles of a sequence of calls of a part, including the overhead of each.

        stripes: the number of output rows that each call computes.  They add up to more than all
            rows of the output if some rows are recomputed.
        memory: memory regions of the part's operands; None: the default region for all.
        """
        ...

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        """Return how many more cycles a call takes if another engine ran the command before it.

        rows: number of output rows that the call computes.
        memory: memory regions of the part's operands; None: the default region for all.
        """
        ...


def added(one: Bytes, other: Bytes) -> Bytes:
    """Return the sum, for each memory region, of two lists of (region name, bytes) pairs."""
    if not one or not other:
        return one or other
    found = dict(one)
    for memory, size in other:
        found[memory] = found.get(memory, 0) + size
    return tuple(sorted(found.items()))


def total(sizes: Bytes) -> int:
    """Return the sum of the byte counts of all memory regions."""
    return sum(size for _, size in sizes)
