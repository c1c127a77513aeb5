"""accelerator: an accelerator as the compiler sees it, a frozen record that a `UMABackend` creates.

Source of the interface: TVM RFC 0060 (UMA).  Additions: memories, costs, constraints with reasons,
and functional models of commands, so that programs run before there is silicon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from penstock.backends.pattern import Pattern
from penstock.brief import Brief
from penstock.hardware.target import MemoryRegion, Target, resized
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel
from penstock.program.program import Driver, Program
from penstock.scheduling.model.parts import CpuFallback as CpuFallback
from penstock.tiling.tiler import Tiler

CORE_LEVEL = 10
"""The level of the processor's kernels; the default level of an accelerator's strategies is 11."""

Value = str | int | bool | float


class PassPhase(Enum):
    """The phase in which a pass runs; passes of a phase run in order of registration."""

    PRE_PARTITIONING = "pre_partitioning"
    POST_PARTITIONING_0 = "post_partitioning_0"
    POST_PARTITIONING = "post_partitioning_0"
    POST_PARTITIONING_1 = "post_partitioning_1"
    PROGRAM_PHASE_0 = "program_phase_0"
    PROGRAM_PHASE_1 = "program_phase_1"
    PROGRAM_PHASE_2 = "program_phase_2"
    PROGRAM_PHASE_3 = "program_phase_3"
    TIR_PHASE_0 = "program_phase_0"
    TIR_PHASE_1 = "program_phase_1"
    TIR_PHASE_2 = "program_phase_2"
    TIR_PHASE_3 = "program_phase_3"


@dataclass(frozen=True, slots=True, repr=False)
class AcceleratorTarget(Brief):
    """The context of passes and strategies: the name of the accelerator, its attributes with the
    user's values, the chip that it is attached to, its own memories by name, and `tilers` by
    operator or pattern."""

    name: str
    attrs: Mapping[str, Value]
    chip: Target
    memories: Mapping[str, MemoryRegion] = field(default_factory=dict[str, MemoryRegion])
    tilers: tuple[tuple[str, Tiler], ...] = ()


GraphPass = Callable[[Graph, AcceleratorTarget], Graph]
ProgramPass = Callable[[Program, AcceleratorTarget], Program]


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern and an optional predicate for its matches.  The predicate returns True, or False or
    the reason why not; its docstring states the rule."""

    name: str
    pattern: Pattern
    predicate: Callable[[Node], bool | str] | None = None


@dataclass(frozen=True, slots=True)
class Implementation:
    """A kernel for a composite; `condition` is True, or False or the reason why the kernel does not
    apply."""

    name: str
    kernel: Kernel
    condition: bool | str = True


Choose = Callable[[Node, Composite, AcceleratorTarget], Sequence[Implementation]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A function that chooses implementations for composites whose main operator, or pattern, is
    `op`."""

    op: str
    choose: Choose
    level: int


@dataclass(frozen=True, slots=True, repr=False)
class Codegen(Brief):
    """How driver calls are written in C.

    `includes` is text at the beginning of the model's C file.  `replace_call_extern` returns the
    text of a call from the texts of its arguments; None selects NAME(arguments).  `encoder` returns
    a command stream, which `submit` receives (`stream`).  `sources` are files by name: the driver's
    header and its implementation for simulation."""

    fmt: str = "c"
    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    submit: Driver | None = None
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OpenChoice:
    """The same hardware with other values of attributes that the user has left open.

    `text` is the specification for --accelerator; `note` states a consequence of the values."""

    text: str
    note: str
    make: Callable[[], Accelerator]


@dataclass(frozen=True, slots=True, repr=False)
class Accelerator(Brief):
    """An accelerator with the values of its attributes."""

    target: AcceleratorTarget
    patterns: tuple[NamedPattern, ...]
    strategies: tuple[Strategy, ...]
    graph_passes: tuple[tuple[PassPhase, GraphPass], ...]
    program_passes: tuple[tuple[PassPhase, ProgramPass], ...]
    constraints: tuple[Callable[[Node], bool | str], ...]
    codegen: Codegen
    merge_compiler_regions: bool = True
    open_choices: tuple[OpenChoice, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The name of the accelerator."""
        return self.target.name

    @property
    def arenas(self) -> tuple[MemoryRegion, ...]:
        """The accelerator's memories that can hold tensors between calls."""
        return tuple(m for m in self.target.memories.values() if "arena" in m.holds)

    def resized(self, sizes_bytes: Mapping[str, int]) -> Accelerator:
        """The accelerator with other sizes of the named arenas."""
        arenas = {memory.name: memory for memory in resized(self.arenas, sizes_bytes)}
        target = replace(self.target, memories={**self.target.memories, **arenas})
        choices = tuple(
            replace(choice, make=partial(_resized, choice.make, sizes_bytes))
            for choice in self.open_choices
        )
        return replace(self, target=target, open_choices=choices)

    def passes(self, phase: PassPhase) -> tuple[Callable[[Any, AcceleratorTarget], Any], ...]:
        """The passes of a phase, in order of registration."""
        every = (*self.graph_passes, *self.program_passes)
        return tuple(run for when, run in every if when is phase)


def _resized(make: Callable[[], Accelerator], sizes_bytes: Mapping[str, int]) -> Accelerator:
    return make().resized(sizes_bytes)
