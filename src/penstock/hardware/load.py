"""Reads target files: TOML text -> `Target`, for the targets shipped with penstock and for others.

A file is checked in three steps: it is TOML, each field has an admissible value (`schema.py`), and
the fields agree with each other.  Every violation raises a TargetError.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.errors import TargetError, UsageError
from penstock.guides import guide
from penstock.hardware.faults import EXAMPLE, closest, location, shown, target_error, wrong_field
from penstock.hardware.schema import TargetFile
from penstock.hardware.target import CALLER, CompilerFlags, Engine, MemoryRegion, Target

# The compiler flags that a target file may state without being trusted: a closed vocabulary.
#
# A compiler flag can run a program (`-fplugin=`, `-wrapper`, `-B`), read a file (`@FILE`,
# `-include`, `-specs=`) or overwrite one (`-o`, `-MF`, `-dumpdir`), and a macro (`-D`) can change
# what the generated C computes.  The flags below select a processor, an ABI and how code is
# generated; they do none of it.
#
# Source: GCC 14 manual, "Invoking GCC", sections "ARM Options", "RISC-V Options", "Options That
# Control Optimization" and "Options for Code Generation Conventions".


# Flags whose value is the name of a processor, an architecture, an ABI or a model of addresses.
_WITH_NAME = (
    "-march", "-mcpu", "-mtune", "-mfpu", "-mabi", "-mcmodel", "-mfloat-abi", "-mbranch-protection",
)  # fmt: skip
_ALONE = (
    "-mthumb", "-marm", "-mlittle-endian", "-mcmse", "-mpure-code", "-mslow-flash-data",
    *("-munaligned-access", "-mno-unaligned-access", "-mrestrict-it", "-mno-restrict-it"),
    *("-mlong-calls", "-mno-long-calls", "-mrelax", "-mno-relax", "-mstrict-align"),
    *("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Og", "-g", "-g0", "-g1", "-g2", "-g3"),
)  # fmt: skip
# Names of flags `-fNAME` and `-fno-NAME`.
_CODE_GENERATION = (
    "omit-frame-pointer", "function-sections", "data-sections", "common", "strict-aliasing",
    *("unwind-tables", "asynchronous-unwind-tables", "exceptions", "stack-protector"),
    *("inline-functions", "unroll-loops", "tree-vectorize", "jump-tables", "builtin", "wrapv"),
)  # fmt: skip
_TARGET_OF_CLANG = "-target"  # The next flag of the list is its value.
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
_FLAG = re.compile(
    f"(?:{'|'.join(map(re.escape, _WITH_NAME))})={_NAME}"
    f"|{'|'.join(map(re.escape, _ALONE))}"
    f"|-f(?:no-)?(?:{'|'.join(map(re.escape, _CODE_GENERATION))})"
)

# What flags are allowed, as error messages state it.
VOCABULARY = (
    f"a flag of the vocabulary that every target file may use: {', '.join(_WITH_NAME)} with a "
    "name, such as -mcpu=cortex-m4; -mthumb, -O2, -ffunction-sections and the like"
)


def first_outside(flags: Sequence[str]) -> int | None:
    """The index of the first flag that is not in the vocabulary; None if all are.

    >>> first_outside(("-mthumb", "-mcpu=cortex-m4", "-fplugin=a.so"))
    2
    >>> first_outside(("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m33+dsp"))
    """
    is_value = False
    for index, flag in enumerate(flags):
        if is_value:
            is_known = re.fullmatch(_NAME, flag) is not None
        else:
            is_known = flag == _TARGET_OF_CLANG or _FLAG.fullmatch(flag) is not None
        if not is_known:
            return index
        is_value = not is_value and flag == _TARGET_OF_CLANG
    return len(flags) - 1 if is_value else None


_GENERIC = files("penstock.hardware") / "targets"
_BOARDS = files("penstock.hardware") / "boards"
MOST_BYTES = 2**20  # Of a target file: a thousand times as much as those that exist.
_COMPILERS = ("zig", "gcc")


def generic_target_names() -> tuple[str, ...]:
    """Names of the shipped targets that stand for a core, sorted."""
    return _names(_GENERIC)


def board_names() -> tuple[str, ...]:
    """Names of the shipped targets that are boards, sorted."""
    return _names(_BOARDS)


def target_names() -> tuple[str, ...]:
    """Names of the targets shipped with penstock, the generic ones first."""
    return (*generic_target_names(), *board_names())


def _names(folder: Traversable) -> tuple[str, ...]:
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def target_text(name: str) -> str:
    """The TOML text of a target shipped with penstock.  Raises UsageError for an unknown name."""
    if name not in target_names():
        raise _unknown(name, "--show")
    folder = _BOARDS if name in board_names() else _GENERIC
    return (folder / f"{name}.toml").read_text("utf-8")


def _unknown(name: str, option: str) -> UsageError:
    hint = closest(name, target_names())
    return UsageError(
        "usage-002",
        f"there is no target {name!r}",
        where=option,
        why=f"targets are {', '.join(generic_target_names())}; the boards "
        f"{', '.join(board_names())}; and files whose names end in .toml",
        help=hint
        or f"`penstock targets` describes them; to add one, see the {guide('add-a-target')}",
    )


def load_target(name: str, *, trusted: bool = False) -> Target:
    """The shipped target of that name, or the target described by the TOML file at that path.

    Raises UsageError if there is neither, TargetError if the file is unreadable or invalid."""
    if name in target_names():
        return parse_target(target_text(name), name)
    path = Path(name)
    if path.suffix != ".toml":
        raise _unknown(name, "--target")
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(
            "target-001",
            "the target file cannot be read",
            where=name,
            why=error.strerror or "" if isinstance(error, OSError) else str(error),
            help="name a TOML file, or use one of " + ", ".join(target_names()),
        ) from error
    if len(raw) > MOST_BYTES:
        raise TargetError(
            "target-001",
            f"the target file has more than {MOST_BYTES} bytes",
            where=name,
            help=EXAMPLE,
        )
    return parse_target(text, name, trusted=trusted)


def parse_target(text: str, file: str, *, trusted: bool = False) -> Target:
    """The target described by a TOML text; `file` names it in messages.

    Raises TargetError for text that is not TOML, or that violates the schema."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 4300 digits, deep nesting
        raise TargetError(
            "target-002", "the target file is not TOML", where=file, why=str(error), help=EXAMPLE
        ) from error
    try:
        read = TargetFile.model_validate(data)
    except ValidationError as error:
        raise target_error(error, data, file) from error
    _check_kinds(read, file)
    _check_names(read, data, file)
    _check_flags(read, file)
    if not trusted:
        _check_vocabulary(read, file)
    return _convert(read)


def _check_kinds(read: TargetFile, file: str) -> None:
    """Raises TargetError if no memory holds the arena, or none the constants."""
    for kind in ("arena", "constant"):
        if not any(kind in memory.holds for memory in read.memories):
            raise TargetError(
                "target-004", f"no memory holds {kind!r}", where=file,
                help=f'give one memory holds = ["{kind}"]',
            )  # fmt: skip


def _check_names(read: TargetFile, data: dict[str, Any], file: str) -> None:
    """Raises TargetError if two memories, or two engines, have one name."""
    memories = [("memories", k, memory.name) for k, memory in enumerate(read.memories)]
    engines = [("engines", k, engine.name) for k, engine in enumerate(read.engines)]
    _check_distinct(memories, (), data, file)
    accelerators = [("accelerators", k, each.name) for k, each in enumerate(read.accelerators)]
    _check_distinct(accelerators, (), data, file)
    _check_distinct(engines, (CALLER,), data, file)


def _check_distinct(
    named: Iterable[tuple[str, str | int, str]],
    reserved: Iterable[str],
    data: dict[str, Any],
    file: str,
) -> None:
    """Raises TargetError for the first of the names (table, key in it, name) that is taken."""
    taken = set(reserved)
    for table, key, name in named:
        if name in taken:
            raise wrong_field(
                f"name is {shown(name)}",
                f"distinct from {', '.join(sorted(taken))}",
                location(file, data, (table, key)),
                suggestion="choose another name",
            )
        taken.add(name)


def _check_flags(read: TargetFile, file: str) -> None:
    """Raises TargetError if a simulated core has no flags to compile for it."""
    for compiler in _COMPILERS:
        if read.core is not None and not getattr(read.compiler, compiler):
            raise wrong_field(
                f"{compiler} is an empty list",
                f"the arguments that select {read.core}, the core of this target",
                f"{file}, [compiler]",
                suggestion='for example gcc = ["-mthumb", "-mcpu=cortex-m4"]',
            )


def _check_vocabulary(read: TargetFile, file: str) -> None:
    """Raises TargetError for a compiler flag that may do more than select how code is generated."""
    for compiler in _COMPILERS:
        flags: tuple[str, ...] = getattr(read.compiler, compiler)
        index = first_outside(flags)
        if index is not None:
            raise TargetError(
                "target-005",
                f"{compiler}[{index}] is {shown(flags[index])}, must be {VOCABULARY}",
                where=f"{file}, [compiler]",
                why="other flags can run programs, read and write files, or change results",
                help="remove it; if you trust the author of the file, add --trust-target",
            )


def _convert(read: TargetFile) -> Target:
    return Target(
        read.name,
        read.description,
        read.core,
        CompilerFlags(read.compiler.zig, read.compiler.gcc, read.compiler.optimise),
        tuple(
            MemoryRegion(
                m.name,
                m.size,
                m.holds,
                m.bandwidth_bytes_per_cycle,
                m.latency_cycles,
                m.budget,
                burst_bytes=m.burst_bytes,
            )
            for m in read.memories
        ),
        tuple(Engine(**e.model_dump()) for e in read.engines),
        read.clock,
        tuple((accelerator.name, accelerator.instances) for accelerator in read.accelerators),
    )
