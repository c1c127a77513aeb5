"""Target: the description of a chip or board that the compiler generates code for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from penstock.brief import Brief
from penstock.frozen import frozen

# Name of the pseudo-engine that stands for the code calling the network; no engine may have it.
CALLER = "caller"


@frozen
class MemoryRegion:
    """A memory of the chip.

    `holds` lists the kinds of buffers placed there: "arena" (activations) and "constant" (weights).
    The first memory that holds an arena also holds the network's inputs and outputs.  Bandwidth and
    latency are those of an access by the processor.  `budget`: whether the search minimises the use
    of this memory, and a user's memory budget includes it.  `bank_bytes`: the size of a bank, if
    the memory has banks of which tensors must not share one; else 0.  `burst_bytes`: the memory
    transfers whole aligned blocks of so many bytes; 1 if it transfers single bytes.
    """

    name: str
    size_bytes: int
    holds: tuple[str, ...]
    bandwidth_bytes_per_cycle: float
    latency_cycles: int
    budget: bool
    bank_bytes: int = 0
    burst_bytes: int = 1


def resized(
    memories: Iterable[MemoryRegion], sizes_bytes: Mapping[str, int]
) -> tuple[MemoryRegion, ...]:
    """The memories, with new sizes for those that `sizes_bytes` names."""
    return tuple(replace(m, size_bytes=sizes_bytes.get(m.name, m.size_bytes)) for m in memories)


@frozen
class Engine:
    """A processor; `kernels` names the core family whose kernels it runs.

    The cycles are a linear model of portable kernels, for memories of the given bandwidth:

        cycles = MACs * cycles_per_mac + output elements * cycles_per_element
                 + innermost loops * cycles_per_loop + calls * cycles_per_call
    """

    name: str
    kernels: str
    bandwidth_bytes_per_cycle: float
    cycles_per_mac: float
    cycles_per_element: float
    cycles_per_loop: float
    cycles_per_call: float


@frozen(repr=False)
class CompilerFlags(Brief):
    """Flags of the two supported C compilers, and whether to optimise for speed or size."""

    zig: tuple[str, ...]
    gcc: tuple[str, ...]
    optimise: Literal["speed", "size"]


@frozen(repr=False)
class Target(Brief):
    """A chip or board.

    core: the simulated core that executes its code, if there is one.
    clock_hz: the clock of the processor; None if the target does not state one.
    instances: (name, number of instances) of the accelerators that the target file lists."""

    name: str
    description: str
    core: str | None
    compiler: CompilerFlags
    memories: tuple[MemoryRegion, ...]
    engines: tuple[Engine, ...]
    clock_hz: int | None = None
    instances: tuple[tuple[str, int], ...] = ()

    def resized(self, sizes_bytes: Mapping[str, int]) -> Target:
        """The target with new sizes for the memories that `sizes_bytes` names."""
        return replace(self, memories=resized(self.memories, sizes_bytes))

    def optimised_for(self, optimise: Literal["speed", "size"]) -> Target:
        """The target with its C code compiled for speed or size."""
        return replace(self, compiler=replace(self.compiler, optimise=optimise))

    def with_kernels(self, family: str) -> Target:
        """The target with the kernels of another core family."""
        return replace(self, engines=tuple(replace(e, kernels=family) for e in self.engines))

    def beside(self, memories: Iterable[MemoryRegion]) -> Target:
        """The target with additional memories."""
        return replace(self, memories=(*self.memories, *memories))

    @property
    def arenas(self) -> tuple[MemoryRegion, ...]:
        """The memories that hold tensors, in the order of the target file."""
        return tuple(memory for memory in self.memories if "arena" in memory.holds)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each memory in bytes, by name."""
        return {memory.name: memory.size_bytes for memory in self.memories}

    def memory_for(self, kind: str) -> MemoryRegion:
        """The first memory that holds buffers of `kind`."""
        return next(memory for memory in self.memories if kind in memory.holds)
