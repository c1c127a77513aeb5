"""MemorySystem: the memory regions that the search knows, and the cost of accessing them.

The cycle figures of an engine assume memory of a nominal bandwidth.  A slower memory adds, for each
tensor region that a call accesses, its latency and the difference in time per byte.  Access times
are integers in units of 1/1024 cycle (`FINE`), so that sums in the search are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.hardware.target import Copier, Engine, MemoryRegion
from penstock.ir.graph import Value
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part

FINE = 1024
"""Fine time units per cycle."""
FILL = 0.9
"""Share of a secondary memory that live bytes may occupy; the rest is slack for placement."""


@dataclass(frozen=True, slots=True)
class MemorySystem:
    """Memory regions of a target, as seen by the search.

    tensors: regions for tensors; the first one, the default, holds network inputs and outputs.
    constants: the region of constants.
    engine: the processor, whose nominal bandwidth the cycle figures assume.
    copier: the copy engine, if there is one.
    """

    tensors: tuple[MemoryRegion, ...]
    constants: MemoryRegion
    engine: Engine
    copier: Copier | None

    @property
    def every(self) -> tuple[MemoryRegion, ...]:
        """The regions of tensors, then the region of constants."""
        return (*self.tensors, self.constants)

    @property
    def uniform(self) -> bool:
        """Whether access times do not depend on the memory assignment."""
        return len(self.tensors) == 1 and not any(
            time for memory in self.every for time in self.access_times(memory)
        )

    @property
    def default_assignment(self) -> MemoryAssignment:
        """The assignment of all tensors to the default region."""
        return MemoryAssignment(self.tensors[0].name, self.constants.name)

    def access_times(self, memory: MemoryRegion) -> tuple[int, int]:
        """Return the additional time per tensor region and per byte of it, in fine units."""
        slower = 1 / memory.bandwidth_bytes_per_cycle - 1 / self.engine.bandwidth_bytes_per_cycle
        return FINE * memory.latency_cycles, round(FINE * max(0.0, slower))

    def access(self, memory: str, size_bytes: int) -> int:
        """Return the additional time of one access to `size_bytes`, in fine units."""
        return self.accesses(memory, int(size_bytes > 0), size_bytes)

    def accesses(self, memory: str, regions: int, size_bytes: int) -> int:
        """Return the additional time of accesses to `regions` tensor regions, in fine units.

        size_bytes: total size of the regions.
        """
        latency, per_byte = self.access_times(self.named(memory))
        return regions * latency + size_bytes * per_byte

    def constant_reads(self, memory: str, part: Part, constant: Value) -> tuple[int, int]:
        """Return the additional time of a part for reading a constant in `memory`, in fine units.

        The first number is for the part's first call, the second one for each later call.
        """
        first = self.access(memory, constant.type.size_bytes)
        return first, self.accesses(memory, *part.constant_reads_of_later_calls(constant))

    def copy_cycles(self, source: str, target: str, size_bytes: int) -> int:
        """Return the duration of a copy of `size_bytes` by the copy engine, without its setup."""
        ends = self.named(source), self.named(target)
        slowest = min(memory.bandwidth_bytes_per_cycle for memory in ends)
        return sum(memory.latency_cycles for memory in ends) + -int(-size_bytes // slowest)

    def named(self, name: str) -> MemoryRegion:
        """Return the region of that name."""
        return next(memory for memory in self.every if memory.name == name)
