"""Cost: the estimated cost of execution, used by search and reports.  CostModel: computes cycles.

Bytes moved are the bytes of the tensor regions that kernel calls access, not load instructions.
Multiply-accumulates include taps in the padding.  Kernels skip output channels whose result is
constant; the multiply-accumulates of these channels are counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part

Bytes = tuple[tuple[str, int], ...]
"""(memory region, bytes) pairs, sorted; regions with zero bytes are left out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated cost of a set of kernel calls.

    cycles, calls: cycles of all calls together, and their number.
    macs: multiply-accumulates, without those of skipped channels.
    read_bytes, written_bytes: bytes of the tensor regions that the calls read and write, by memory
        region.
    constant_macs: multiply-accumulates of skipped channels, whose results are constant.
    """

    cycles: int = 0
    calls: int = 0
    macs: int = 0
    read_bytes: Bytes = ()
    written_bytes: Bytes = ()
    constant_macs: int = 0

    @property
    def nominal_macs(self) -> int:
        """Multiply-accumulates of all channels, skipped ones included."""
        return self.macs + self.constant_macs

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
    """Estimates the cycles of calls, on any engine.

    memory: the memory regions of the part's operands (`MemoryAssignment.for_part`); None: all
        operands are in the default region.
    """

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of the work on the part's whole output, without call overhead."""
        ...

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the overhead of each call of the part, in cycles."""
        ...

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the total cycles of a sequence of calls, including call overhead.

        stripes: the number of output rows that each call computes.  They must add up to all rows
            of the output, unless the kernel has a cost function of its own (`Kernel.cycles`).
        """
        ...


def added(one: Bytes, other: Bytes) -> Bytes:
    """Return the sum of two byte counts, memory region by memory region."""
    if not one or not other:
        return one or other
    found = dict(one)
    for memory, size in other:
        found[memory] = found.get(memory, 0) + size
    return tuple(sorted(found.items()))


def total(sizes: Bytes) -> int:
    """Return the sum of the byte counts of all memory regions."""
    return sum(size for _, size in sizes)
