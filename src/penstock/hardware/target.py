"""Target: facts about a chip, with units and, where they are figures, their source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from penstock.brief import Brief


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A memory.  `holds`: kinds of buffers that may live there: arena, constant.  The first that
    holds an arena has inputs and outputs, too.

    Bandwidth in bytes per cycle, latency in cycles; `budget`: whether its bytes are to be saved,
    and count where a budget is given.
    """

    name: str
    size_bytes: int
    holds: tuple[str, ...]
    bandwidth_bytes_per_cycle: float
    latency_cycles: int
    budget: bool


def resized(
    memories: Iterable[MemoryRegion], sizes_bytes: Mapping[str, int]
) -> tuple[MemoryRegion, ...]:
    """The memories, those that are named with another size."""
    return tuple(replace(m, size_bytes=sizes_bytes.get(m.name, m.size_bytes)) for m in memories)


@dataclass(frozen=True, slots=True)
class Engine:
    """What computes: a processor with the kernels of `kernels`.

    The figures are a linear model of the cycles of its portable kernels, on memories of the given
    bandwidth; `penstock profile` shows the estimate beside the simulated count."""

    name: str
    kernels: str
    bandwidth_bytes_per_cycle: float
    cycles_per_mac: float
    cycles_per_element: float
    cycles_per_loop: float
    cycles_per_call: float


@dataclass(frozen=True, slots=True)
class Copier:
    """An engine that copies between memories while others compute; each copy takes `setup_cycles`
    of a processor to begin, then as long as the slower of the two memories needs."""

    name: str
    setup_cycles: int


@dataclass(frozen=True, slots=True, repr=False)
class Compiler(Brief):
    """How C for the target is compiled: flags of the two compilers, the same for every figure."""

    zig: tuple[str, ...]
    gcc: tuple[str, ...]
    optimise: Literal["speed", "size"]


@dataclass(frozen=True, slots=True, repr=False)
class Target(Brief):
    """A chip.  `core`: the simulated core that runs its code; None where the host itself does."""

    name: str
    description: str
    core: str | None
    compiler: Compiler
    memories: tuple[MemoryRegion, ...]
    engines: tuple[Engine, ...]
    copier: Copier | None = None

    def resized(self, sizes_bytes: Mapping[str, int]) -> Target:
        """The chip with other sizes of those of its memories that are named."""
        return replace(self, memories=resized(self.memories, sizes_bytes))

    def optimised_for(self, optimise: Literal["speed", "size"]) -> Target:
        """The chip with its C compiled for speed or size."""
        return replace(self, compiler=replace(self.compiler, optimise=optimise))

    def beside(self, memories: Iterable[MemoryRegion]) -> Target:
        """The chip with more memories."""
        return replace(self, memories=(*self.memories, *memories))

    def memories_for(self, kind: str) -> tuple[MemoryRegion, ...]:
        """The memories that may hold buffers of `kind`."""
        return tuple(memory for memory in self.memories if kind in memory.holds)

    def memory_for(self, kind: str) -> MemoryRegion:
        """The first memory that may hold buffers of `kind`."""
        return next(memory for memory in self.memories if kind in memory.holds)
