"""Accelerator: what the compiler knows of one; made by a `UMABackend`, frozen ever after.

Source of the interface: TVM RFC 0060 (UMA); what that lacked: memories, costs, constraints that
explain themselves, and what each command does, so that whole programs run before there is silicon.
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
from penstock.scheduling.part import Left as Left
from penstock.tiling.tiler import Tiler

CORE_LEVEL = 10
"""The level of the processor's own kernels; an accelerator's strategies have 11 unless said."""

Value = str | int | bool | float


class PassPhase(Enum):
    """When a pass runs; passes of one phase run in the order of their registration."""

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
    """What passes and strategies are handed: the accelerator's name, its attributes as the user set
    them, and the chip that it stands beside; its own memories, by name; `tilers`: who cuts layers,
    by operator or pattern."""

    name: str
    attrs: Mapping[str, Value]
    chip: Target
    memories: Mapping[str, MemoryRegion] = field(default_factory=dict[str, MemoryRegion])
    tilers: tuple[tuple[str, Tiler], ...] = ()


GraphPass = Callable[[Graph, AcceleratorTarget], Graph]
ProgramPass = Callable[[Program, AcceleratorTarget], Program]


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern, and a predicate that a match must pass: True, or False or a text that says why
    not; the predicate's docstring is the rule."""

    name: str
    pattern: Pattern
    predicate: Callable[[Node], bool | str] | None = None


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to run a composite: its kernel; `condition`: as a predicate."""

    name: str
    kernel: Kernel
    condition: bool | str = True


Choose = Callable[[Node, Composite, AcceleratorTarget], Sequence[Implementation]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """What runs composites whose main operator is `op` (or whose pattern has that name)."""

    op: str
    choose: Choose
    level: int


@dataclass(frozen=True, slots=True, repr=False)
class Codegen(Brief):
    """How calls of the driver are written: `includes` is text at the head of the model's C;
    `replace_call_extern` makes the call from its arguments' texts, None: NAME(arguments);
    `encoder` makes streams of commands, which `submit` is handed (`stream`);
    `sources` are files by name: the driver's header and a stub of it for simulation."""

    fmt: str = "c"
    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    submit: Driver | None = None
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OpenChoice:
    """The same hardware with other values of attributes that the user left open.

    `text`: what to write after --accelerator; `note`: what else the values mean."""

    text: str
    note: str
    make: Callable[[], Accelerator]


@dataclass(frozen=True, slots=True, repr=False)
class Accelerator(Brief):
    """All that was registered of an accelerator, with the values of its attributes."""

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
        return self.target.name

    @property
    def arenas(self) -> tuple[MemoryRegion, ...]:
        """Its memories in which tensors may live between calls."""
        return tuple(m for m in self.target.memories.values() if "arena" in m.holds)

    def resized(self, sizes_bytes: Mapping[str, int]) -> Accelerator:
        """The accelerator with other sizes of those of its arenas that are named."""
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
