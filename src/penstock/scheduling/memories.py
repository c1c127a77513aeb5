"""memories: what the search knows of the memories in which tensors and constants live.

The figures of an engine hold for memories of a bandwidth of its own; a slower one adds the
difference for each byte of a region that a call moves, and its latency for each region.
Times of accesses are counted in 1/1024 cycles, so that searches add whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.hardware.target import Copier, Engine, MemoryRegion

FINE = 1024
"""Fine units of time in a cycle."""


@dataclass(frozen=True, slots=True)
class Memories:
    """`tensors`: memories for tensors, the first of them for the network's inputs and outputs, too;
    `constants`: the memory of constants; `copier`: what copies between them, if anything does."""

    tensors: tuple[MemoryRegion, ...]
    constants: MemoryRegion
    engine: Engine
    copier: Copier | None

    @property
    def every(self) -> tuple[MemoryRegion, ...]:
        """The memories of tensors, then that of constants."""
        return (*self.tensors, self.constants)

    @property
    def uniform(self) -> bool:
        """Whether it does not matter to time where anything lives."""
        return len(self.tensors) == 1 and not any(
            wait for memory in self.every for wait in self.waits(memory)
        )

    def waits(self, memory: MemoryRegion) -> tuple[int, int]:
        """What a region adds to a call that moves it, and each of its bytes, in fine units."""
        slower = 1 / memory.bandwidth_bytes_per_cycle - 1 / self.engine.bandwidth_bytes_per_cycle
        return FINE * memory.latency_cycles, round(FINE * max(0.0, slower))

    def access(self, memory: str, size_bytes: int) -> int:
        """What moving a region of so many bytes adds to a call, in fine units."""
        return self.accesses(memory, int(size_bytes > 0), size_bytes)

    def accesses(self, memory: str, regions: int, size_bytes: int) -> int:
        """What moving so many regions of so many bytes in all adds to calls, in fine units."""
        latency, per_byte = self.waits(self.named(memory))
        return regions * latency + size_bytes * per_byte

    def copy_cycles(self, source: str, target: str, size_bytes: int) -> int:
        """How long the copier copies so many bytes, once it has begun."""
        ends = self.named(source), self.named(target)
        slowest = min(memory.bandwidth_bytes_per_cycle for memory in ends)
        return sum(memory.latency_cycles for memory in ends) + -int(-size_bytes // slowest)

    def named(self, name: str) -> MemoryRegion:
        """The memory of that name."""
        return next(memory for memory in self.every if memory.name == name)
