"""Registrations: the features of an accelerator that its backend registered, in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.backends.accelerator import (
    AcceleratorTarget,
    GraphPass,
    PassPhase,
    ProgramPass,
    RegionFunction,
    Value,
)
from penstock.backends.description import backend_code, is_name
from penstock.backends.offloaded import Offloaded
from penstock.backends.op_strategy import StrategyFunction
from penstock.backends.pattern import Pattern
from penstock.backends.roofline import ABOVE_0, Roofline, is_figure
from penstock.errors import BackendError, UsageError
from penstock.hardware.size import parse_size
from penstock.hardware.target import MemoryRegion, Target
from penstock.program.program import Driver
from penstock.tiling.tiler import Tiler

# A constraint or predicate: returns True to accept a composite, else False or the reason.
Judge = Callable[[Offloaded], bool | str]

# Returns the size of a memory, in bytes or as a string with unit, from the attributes.
#
# 0 means that the accelerator does not have the memory.
SizeOf = Callable[[Mapping[str, Value]], int | str]
# Returns the bandwidth of a memory in bytes per cycle, from the attributes.
BandwidthOf = Callable[[Mapping[str, Value]], float]
# Returns the size of a memory's banks in bytes, from the attributes; 0 without banks.
BankOf = Callable[[Mapping[str, Value]], int]

# File contents by file name, or names of files in the folder of the backend's module.
Files = Mapping[str, str] | Sequence[str]
# Files, or a function that returns them, for files that depend on attributes.
Sources = Files | Callable[[AcceleratorTarget], Files]


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


# Reading of an accelerator's source files from the folder of its backend's module.


def read_sources(files: Files, bases: tuple[type, ...], where: str) -> tuple[tuple[str, str], ...]:
    """Return the (name, contents) pairs of `files`, reading files that are given by name only.

    bases: the backend's class and its base classes.  The folders of the modules that define these
        classes are searched in order.

    Raises BackendError, with `where` as the location, if a file cannot be read."""
    if isinstance(files, Mapping):
        return tuple(files.items())
    names = (files,) if isinstance(files, str) else files
    return tuple((name, _read(name, bases, where)) for name in names)


def _read(name: str, bases: tuple[type, ...], where: str) -> str:
    reason = "the class is in no file"
    for folder in _folders(bases):
        try:
            return (folder / name).read_text("utf-8")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise BackendError(
        "backend-045",
        f'source file "{name}" cannot be read',
        where=where,
        why=reason,
        help="name files in the folder of the backend's module, or pass {name: text}; a package "
        "must list the files as package data",
    )


def _folders(bases: tuple[type, ...]) -> Iterator[Path]:
    # Classes that are defined in no file, such as those typed into an interpreter, are skipped.
    for base in bases:
        with suppress(OSError, TypeError):  # a class typed into an interpreter has no file
            yield Path(inspect.getfile(base)).parent


# Memories of an accelerator: their validation, and their sizes, which may depend on the attributes
# that the user sets for the accelerator (`NAME:attr=value`).


def registered_memory(
    region: MemoryRegion,
    size: int | str | SizeOf,
    bandwidth: float | BandwidthOf,
    bank_bytes: int | BankOf,
    known: Sequence[str],
    place: str,
) -> RegisteredMemory:
    """Return a memory with the given size and bandwidth; other properties come from `region`.

    size: bytes, a string such as "32KiB", or a function of the attributes.
    bandwidth: bytes per cycle, or a function of the attributes.
    bank_bytes: the size of a bank, or a function of the attributes; 0 without banks.
    known: the names of memories registered before.

    Raises BackendError if a value is invalid or the name is taken."""
    if not is_name(region.name):
        why = f"its name is {region.name!r}, must be a text"
        raise _bad_memory(region.name, size, why, place)
    if region.name in known:
        raise _bad_memory(region.name, size, f'there is a memory "{region.name}"', place)
    figure = 1.0 if callable(bandwidth) else bandwidth
    region = replace(region, bandwidth_bytes_per_cycle=figure)
    region = _sized(region, 1 if callable(size) else size, place)
    region = replace(region, bank_bytes=0 if callable(bank_bytes) else bank_bytes)
    return RegisteredMemory(region, size, bandwidth, bank_bytes)


def resolved_memories(
    memories: Sequence[RegisteredMemory], attributes: Mapping[str, Value], chip: Target, place: str
) -> dict[str, MemoryRegion]:
    """Return the memories with the sizes and bandwidths that attributes determine, by name.

    Memories of size 0 are omitted.

    Raises BackendError if the chip has a memory of the same name, or if a function of the backend
    fails or returns an invalid number."""
    found: dict[str, MemoryRegion] = {}
    for one in memories:
        memory = _resolved(one, attributes, place)
        if memory is None:
            continue
        if any(memory.name == other.name for other in chip.memories):
            why = f"{chip.name} has a memory of that name"
            raise _bad_memory(memory.name, memory.size_bytes, why, place)
        found[memory.name] = memory
    return found


def _resolved(
    registered: RegisteredMemory, attributes: Mapping[str, Value], place: str
) -> MemoryRegion | None:
    """Return a memory with the size, bandwidth and bank size that the attributes determine.

    Returns None if the size is 0."""
    size, bandwidth = registered.size, registered.bandwidth_bytes_per_cycle
    where = f'{place}, memory "{registered.region.name}"'
    if callable(size):
        with backend_code("function size", where):
            size = size(attributes)
    if callable(bandwidth):
        with backend_code("function bandwidth_bytes_per_cycle", where):
            bandwidth = bandwidth(attributes)
    bank_bytes = registered.bank_bytes
    if callable(bank_bytes):
        with backend_code("function bank_bytes", where):
            bank_bytes = bank_bytes(attributes)
    if size == 0:
        return None
    region = replace(registered.region, bandwidth_bytes_per_cycle=bandwidth, bank_bytes=bank_bytes)
    return _sized(region, size, place)


def _sized(memory: MemoryRegion, size: int | str, place: str) -> MemoryRegion:
    """Return a copy of `memory` with another size.

    size: a number of bytes, or a string such as "32KiB".
    place: the location that the error reports.

    Raises BackendError if the size, or the bandwidth or latency of `memory`, is invalid."""
    try:
        size_bytes = parse_size(size) if isinstance(size, str) else size
    except UsageError:
        size_bytes = 0
    memory = replace(memory, size_bytes=size_bytes)
    if problem := _problem(memory):
        raise _bad_memory(memory.name, size, problem, place)
    return memory


def _problem(memory: MemoryRegion) -> str:
    """Why the size, bandwidth or latency of a memory is invalid; "" if all are valid."""
    if type(memory.size_bytes) is not int or memory.size_bytes < 1:
        return "its size must be a positive number of bytes"
    if not is_figure(memory.bandwidth_bytes_per_cycle, ABOVE_0):
        return "its bandwidth must be a positive number of bytes per cycle"
    if type(memory.bank_bytes) is not int or not 0 <= memory.bank_bytes <= memory.size_bytes:
        return f"its banks have {memory.bank_bytes!r} bytes, must be at most the memory's size"
    return "" if is_figure(memory.latency_cycles, 0) else "its latency is no number of cycles"


def _bad_memory(name: object, size: object, problem: str, place: str) -> BackendError:
    return BackendError(
        "backend-039",
        f"invalid memory of size {size!r}",
        where=f'{place}, memory "{name}"',
        why=problem,
        help='sizes are in bytes or as "32KiB", bandwidths in bytes per cycle',
    )
