"""Registrations: the features of an accelerator that its backend registered, in order."""

from __future__ import annotations

import difflib
import inspect
import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.backends.accelerator import (
    GraphPass,
    PassPhase,
    ProgramPass,
    RegionFunction,
    SourceFiles,
    StreamDriver,
    Value,
)
from penstock.backends.description import backend_code, is_name
from penstock.backends.offloaded import Offloaded
from penstock.backends.op_strategy import ABOVE_0, Roofline, StrategyFunction, is_figure
from penstock.backends.pattern import Pattern
from penstock.errors import BackendError, UsageError
from penstock.frozen import frozen
from penstock.hardware.quantities import parse_size
from penstock.hardware.target import MemoryRegion, Target
from penstock.program.program import Driver
from penstock.tiling.nest import Tiler

# Attributes of an accelerator: a backend declares them with defaults, and users set them.


# Names that attributes must not have, each with the reason.
#
# A message consists of the name and the reason, as in '"name" is the accelerator's name'.
RESERVED: Mapping[str, str] = {
    "attrs": "holds the attributes themselves",
    "chip": "is the chip that the accelerator stands beside",
    "name": "is the accelerator's name",
    **dict.fromkeys(
        ("device", "from_device", "host", "keys", "libs", "model", "tag"),
        "is an attribute that every target of TVM has",
    ),
}

# Exclusive upper bound of the magnitude of numbers.
#
# No size, count or rate of a device reaches it. Costs have the same bound.
LIMIT = 2**40
NO_LIMITS = (-math.inf, math.inf)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def check_attribute(name: object, default: object, known: Mapping[str, Value], where: str) -> None:
    """Raise BackendError unless a backend may declare an attribute with this name and default."""
    if type(default) not in _KINDS:
        raise BackendError(
            "backend-030",
            f'the default of attribute "{name}" is {default!r}, must be a str, int, bool or float',
            where=where,
            why="users set it as name=value, and the default determines its type",
            help="register one attribute per number, or use a str attribute",
        )
    problem = _name_problem(name, known)
    if problem:
        raise BackendError(
            "backend-031",
            f'an attribute cannot be called "{name}"',
            where=where,
            why=problem,
            help="choose another name",
        )


def _name_problem(name: object, known: Mapping[str, Value]) -> str:
    """Why `name` cannot be the name of a new attribute; "" if it can."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        return "a name is made of letters, digits and _, and does not begin with a digit"
    if name in RESERVED:
        return f'"{name}" {RESERVED[name]}'
    return f'"{name}" is registered already, with default {known[name]!r}' if name in known else ""


def values(
    accelerator: str,
    declared: Mapping[str, Value],
    given: Mapping[str, object],
    where: str,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, Value]:
    """Return the value of every declared attribute: the given value, or else the default.

    ranges: the smallest and largest valid values of some attributes, by name.

    >>> values("npu", {"lanes": 8, "fast": False}, {"lanes": "16"}, "--accelerator")
    {'lanes': 16, 'fast': False}

    Raises UsageError for an unknown attribute or an invalid value.
    """
    found = dict(declared)
    for name, value in given.items():
        if name not in declared:
            raise unknown_attribute(accelerator, declared, name, where)
        read = _converted(value, declared[name])
        if read is None:
            raise UsageError(
                "usage-019",
                f"attribute {name} is {value!r}, must be {_KINDS[type(declared[name])]}",
                where=where,
                help=f"the default is {declared[name]!r}",
            )
        found[name] = _in_range((ranges or {}).get(name, NO_LIMITS), name, read, where)
    return found


def _in_range(valid: tuple[float, float], name: str, value: Value, where: str) -> Value:
    """Return `value` unchanged if it is a string or within range."""
    if not isinstance(value, str) and abs(value) >= LIMIT:
        raise UsageError(
            "usage-019",
            f"attribute {name} is {_shortened(str(value))}, its magnitude must be below 2^40",
            where=where,
            help="set a smaller value",
        )
    least, most = valid
    if not isinstance(value, str) and not least <= value <= most:
        few = value < least
        bound, size = (f"least {least}", "larger") if few else (f"most {most}", "smaller")
        raise UsageError(
            "usage-019",
            f"attribute {name} is {value}, must be at {bound}",
            where=where,
            help=f"set a {size} value",
        )
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:21]}.. ({len(text)} characters)"


def unknown_attribute(
    accelerator: str, declared: Mapping[str, Value], name: str, where: str
) -> UsageError:
    """Return the error for an unknown attribute; its help lists the declared attributes."""
    near = difflib.get_close_matches(name, declared, 1)
    listed = ", ".join(f"{known}={default}" for known, default in declared.items())
    return bad_setting(
        f'{accelerator} has no attribute "{name}"',
        where,
        (f"did you mean {near[0]}? " if near else "")
        + (f"its attributes, with defaults: {listed}" if listed else "it has no attributes"),
    )


def bad_setting(what: str, where: str, help: str) -> UsageError:
    """Return a UsageError about a user's attribute settings.

    what: the first line of the message.
    help: the advice to the user."""
    return UsageError("usage-023", what, where=where, help=help)


def _converted(given: object, default: Value) -> Value | None:
    """A given value, converted to the type of the default; None if that is impossible."""
    kind = type(default)
    if kind is float and type(given) is int:
        return float(given)
    if type(given) is kind:
        return _finite(given)  # pyright: ignore[reportArgumentType]  (it has the default's type)
    return _parsed(given, kind) if isinstance(given, str) else None


def _parsed(text: str, kind: type[Value]) -> Value | None:
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind is float:
            return _finite(float(text))
        return parse_size(text) if text.lower().endswith("ib") else int(text, 0)
    except (ValueError, KeyError, UsageError):
        return None


def _finite(value: Value) -> Value | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
# Files, or a function that returns them, for files that depend on attributes or on the network.
#
# It receives the target and the program that is emitted, as far as it has parameters for them.
Sources = Files | Callable[..., Files]
Includes = str | Callable[..., str]  # C text, or a function that returns it, like `Sources`.


@frozen
class RegisteredPattern:
    """A pattern as `_register_pattern` receives it."""

    name: str
    pattern: Pattern
    predicate: Judge | None
    wide_weights: bool


@frozen
class RegisteredStrategy:
    """A strategy function and the composites (matched nodes as single nodes) to which it applies.

    op: the name of the main operator, or of the pattern, of these composites.
    function: returns the implementations for a composite.
    level: the priority; higher levels are tried first."""

    op: str
    function: StrategyFunction
    level: int


@frozen
class RegisteredCodegen:
    """The arguments of `_register_codegen`: how commands are generated.

    fmt: "c" for C calls of driver functions, "stream" for command streams.
    includes: C text at the beginning of the model's C file, or a function that returns it; None for
        no text.
    replace_call_extern: returns the C text of a driver call, given the C texts of its arguments.
        If it is None, the text is NAME(arguments).
    encoder: converts the commands of a kernel call to a command stream (bytes), for fmt "stream".
    driver: what receives the command stream, for fmt "stream".
    sources: (file name, contents) pairs, or the registered function that returns the files."""

    fmt: str = "c"
    includes: Includes | None = None
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    encoder: Callable[..., bytes] | None = None
    driver: StreamDriver | None = None
    sources: SourceFiles | Callable[..., Files] = ()


@frozen
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
    ranges: the smallest and largest valid values of some attributes, by name.
    searched: the attributes of which the search compares all choices.
    graph_passes, program_passes: passes, each with its phase.
    patterns: the registered patterns.
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
    attributes: dict[str, Value] = field(default_factory=dict)
    choices: dict[str, Mapping[Any, str]] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    searched: set[str] = field(default_factory=set)
    graph_passes: list[tuple[PassPhase, GraphPass]] = field(default_factory=list)
    program_passes: list[tuple[PassPhase, ProgramPass]] = field(default_factory=list)
    patterns: list[RegisteredPattern] = field(default_factory=list)
    constraints: list[Judge] = field(default_factory=list)
    strategies: list[RegisteredStrategy] = field(default_factory=list)
    codegen: RegisteredCodegen = field(default_factory=RegisteredCodegen)
    memories: list[RegisteredMemory] = field(default_factory=list)
    roofline: Roofline | None = None
    region: RegionFunction | None = None
    select: Driver | None = None
    wait: Driver | None = None
    tilers: list[tuple[str, Tiler]] = field(default_factory=list)

    @property
    def pattern_names(self) -> tuple[str, ...]:
        """The names of the patterns in order of registration."""
        return tuple(one.name for one in self.patterns)


# Reading of an accelerator's source files from the folder of its backend's module.


def read_sources(files: Files, bases: tuple[type, ...], where: str) -> tuple[tuple[str, str], ...]:
    """Return (name, contents) pairs; files given by name only are read from the folders of the
    modules that define `bases`, the first that has them.

    Raises BackendError if a file cannot be read."""
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
    """Return a memory whose size, bandwidth and banks may be functions of the attributes.

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
    """A copy of `memory` with another size, in bytes or as text.  Raises BackendError."""
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
