"""Registrations: what the author of an accelerator registered, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.accelerator import (
    AcceleratorTarget,
    GraphPass,
    PassPhase,
    ProgramPass,
    Value,
)
from penstock.backends.offloaded import Offloaded
from penstock.backends.op_strategy import StrategyFunction
from penstock.backends.pattern import Pattern
from penstock.backends.roofline import Roofline
from penstock.hardware.target import MemoryRegion
from penstock.program.program import Driver
from penstock.tiling.tiler import Tiler

Judge = Callable[[Offloaded], bool | str]
"""Whether an accelerator accepts a composite: True; or False or the reason as a text."""

SizeOf = Callable[[Mapping[str, Value]], int | str]
"""The capacity of a memory, given the attributes; 0 omits the memory."""
BandwidthOf = Callable[[Mapping[str, Value]], float]
"""The bandwidth of a memory in bytes per cycle, given the attributes."""

Files = Mapping[str, str] | Sequence[str]
"""Contents by file name; or names of files in the folder of the backend's module."""
Sources = Files | Callable[[AcceleratorTarget], Files]
"""Files, or a function that returns them if they depend on attributes."""


@dataclass(frozen=True, slots=True)
class RegisteredStrategy:
    """A strategy for an operator or a pattern, and its priority level."""

    op: str
    function: StrategyFunction
    level: int


@dataclass(frozen=True, slots=True)
class RegisteredCodegen:
    """The arguments of `_register_codegen`, with files read unless a function returns them."""

    fmt: str = "c"
    includes: str | Callable[[], str] | None = None
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    submit: Driver | None = None
    sources: tuple[tuple[str, str], ...] | Callable[[AcceleratorTarget], Files] = ()


@dataclass(frozen=True, slots=True)
class RegisteredMemory:
    """A memory; `region` holds 1 for a size or bandwidth that a function returns."""

    region: MemoryRegion
    size: int | str | SizeOf
    bandwidth_bytes_per_cycle: float | BandwidthOf


@dataclass(slots=True)
class Registrations:
    """All registrations of a backend.

    `least` holds the lower bounds of numeric attributes, `choices` their permitted values with a
    note on each."""

    merge_compiler_regions: bool = True
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    choices: dict[str, Mapping[Any, str]] = field(default_factory=dict[str, Mapping[Any, str]])
    least: dict[str, float] = field(default_factory=dict[str, float])
    graph_passes: list[tuple[PassPhase, GraphPass]] = field(
        default_factory=list[tuple[PassPhase, GraphPass]]
    )
    program_passes: list[tuple[PassPhase, ProgramPass]] = field(
        default_factory=list[tuple[PassPhase, ProgramPass]]
    )
    patterns: list[tuple[str, Pattern, Judge | None]] = field(
        default_factory=list[tuple[str, Pattern, Judge | None]]
    )
    constraints: list[Judge] = field(default_factory=list[Judge])
    strategies: list[RegisteredStrategy] = field(default_factory=list[RegisteredStrategy])
    codegen: RegisteredCodegen = field(default_factory=RegisteredCodegen)
    memories: list[RegisteredMemory] = field(default_factory=list[RegisteredMemory])
    roofline: Roofline | None = None
    tilers: list[tuple[str, Tiler]] = field(default_factory=list[tuple[str, Tiler]])

    @property
    def pattern_names(self) -> tuple[str, ...]:
        """The names of the patterns in order of registration."""
        return tuple(name for name, _, _ in self.patterns)
