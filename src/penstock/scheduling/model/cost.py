"""Cost: the estimated cost of execution, shared by search and reports.  CostModel: its source.

Bytes moved are the bytes of the tensor regions that kernel calls access, not load instructions.
Multiply-accumulates are nominal: they include padding taps, but not the channels that a kernel
skips because their result is constant.
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
    """Estimated cost of some kernel calls.

    cycles, calls: processor cycles and number of kernel calls.
    macs: nominal multiply-accumulates, without those of skipped channels.
    read_bytes, written_bytes: bytes of regions accessed, by memory region.
    constant_macs: multiply-accumulates that are skipped because their results are constant.
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
    """Cycle estimates of the engines.

    `memory` maps the part's operands to memory regions (`MemoryAssignment.for_part`); None stands
    for an assignment of all operands to the default region.
    """

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of the part's whole output, without the overhead of calls."""
        ...

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the overhead of each call, in cycles."""
        ...

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the cycles of the calls that compute `stripes[i]` rows each.

        Together the calls compute the part's whole output.
        """
        ...


def added(one: Bytes, other: Bytes) -> Bytes:
    """Return the sum of two byte counts, region by region."""
    if not one or not other:
        return one or other
    found = dict(one)
    for memory, size in other:
        found[memory] = found.get(memory, 0) + size
    return tuple(sorted(found.items()))


def total(sizes: Bytes) -> int:
    """Return the bytes of all memory regions together."""
    return sum(size for _, size in sizes)
