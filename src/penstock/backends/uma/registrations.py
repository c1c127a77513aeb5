"""Registrations: the features of an accelerator that its backend registered, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.backends.accelerator import (
    AcceleratorTarget,
    GraphPass,
    PassPhase,
    ProgramPass,
    RegionFunction,
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
"""A constraint or predicate: returns True to accept a composite, else False or the reason."""

SizeOf = Callable[[Mapping[str, Value]], int | str]
"""Returns the size of a memory, in bytes or as a string with unit, from the attributes.

0 means that the accelerator does not have the memory."""
BandwidthOf = Callable[[Mapping[str, Value]], float]
"""Returns the bandwidth of a memory in bytes per cycle, from the attributes."""
BankOf = Callable[[Mapping[str, Value]], int]
"""Returns the size of a memory's banks in bytes, from the attributes; 0 without banks."""

Files = Mapping[str, str] | Sequence[str]
"""File contents by file name, or names of files in the folder of the backend's module."""
Sources = Files | Callable[[AcceleratorTarget], Files]
"""Files, or a function that returns them, for files that depend on attributes."""


@dataclass(frozen=True, slots=True)
class RegisteredStrategy:
    """A strategy function and the composites (matched nodes as single nodes) to which it applies.

    op: the name of the main operator, or of the pattern, of these composites.
    function: returns the implementations for a composite.
    level: the priority; higher levels are tried first."""

    op: str
    function: StrategyFunction
    level: int


@dataclass(frozen=True, slots=True)
class RegisteredCodegen:
    """The arguments of `_register_codegen`: how commands are generated.

    fmt: "c" for C calls of driver functions, "stream" for command streams.
    includes: C text at the beginning of the model's C file, or a function that returns it; None for
        no text.
    replace_call_extern: returns the C text of a driver call, given the C texts of its arguments.
        If it is None, the text is NAME(arguments).
    encoder: converts the commands of a kernel call to a command stream (bytes), for fmt "stream".
    submit: the driver function that receives the command stream, for fmt "stream".
    sources: (file name, contents) pairs, or the registered function that returns the files."""

    fmt: str = "c"
    includes: str | Callable[[], str] | None = None
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    submit: Driver | None = None
    sources: tuple[tuple[str, str], ...] | Callable[[AcceleratorTarget], Files] = ()


@dataclass(frozen=True, slots=True)
class RegisteredMemory:
    """A memory whose size and bandwidth may depend on the accelerator's attributes.

    region: the other properties of the memory, such as its latency.  Its size, its bandwidth and
        the size of its banks may be placeholders; the following fields replace them.
    size: bytes, a string such as "32KiB", or a function of the attributes.
    bandwidth_bytes_per_cycle: a number, or a function of the attributes.
    bank_bytes: the size of a bank, or a function of the attributes; 0 without banks."""

    region: MemoryRegion
    size: int | str | SizeOf
    bandwidth_bytes_per_cycle: float | BandwidthOf
    bank_bytes: int | BankOf


@dataclass(slots=True)
class Registrations:
    """All registrations of a backend.

    A composite is a single node that contains the nodes matched by a pattern.

    merge_compiler_regions: whether adjacent composites join into compiler regions, which can run
        as one unit; if False, every composite is a compiler region of its own.
    attributes: the default of each attribute, by name.
    choices: the values that the compiler may try for an attribute, each with a note for users, by
        the attribute's name.
    least: the smallest valid values of some attributes, by name.
    graph_passes, program_passes: passes, each with its phase.
    patterns: (name, pattern, predicate) of each registered pattern; the predicate may be None.
    constraints: conditions on every composite.
    strategies: functions that return the implementations for composites.
    codegen: how commands are generated.
    memories: the accelerator's own memories.
    roofline: cost model of implementations without a cost function; None for the chip's default.
    region: function that merges the calls of a compiler region into one.  It takes a sequence of
        commands for each call, and returns the commands of the merged call.  If it is None,
        command streams are concatenated, and calls in C remain separate.
    select: the driver function that selects an instance of the accelerator; None if there is none.
    wait: the driver function that waits until all streams have been executed; None if there is
        none.
    tilers: pairs of an operator or pattern name and its tiler, which divides layers into tiles."""

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
    region: RegionFunction | None = None
    select: Driver | None = None
    wait: Driver | None = None
    tilers: list[tuple[str, Tiler]] = field(default_factory=list[tuple[str, Tiler]])

    @property
    def pattern_names(self) -> tuple[str, ...]:
        """The names of the patterns in order of registration."""
        return tuple(name for name, _, _ in self.patterns)
