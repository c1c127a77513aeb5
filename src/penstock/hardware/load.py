"""load: TOML -> Target, for the targets that come with penstock and for boards that do not."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from penstock.errors import PenstockError, TargetError, UsageError
from penstock.hardware.size import parse_size
from penstock.hardware.target import Compiler, Copier, Engine, MemoryRegion, Target

DEFAULT_TARGET = "cortex-m4"
"""The target of every command and of every function of the Python API, unless another is given."""
_FOLDER = files("penstock.hardware") / "targets"
_EXAMPLE = "`penstock targets --show cortex-m4` prints a description that is right"
_STRICT = ConfigDict(extra="forbid")


def _size(value: object) -> object:
    try:
        return parse_size(value) if isinstance(value, str) else value
    except PenstockError as error:
        raise ValueError(str(error.what)) from error


_Name = Annotated[str, Field(pattern=r"^\S(.*\S)?$")]
"""Names stand in reports, and in messages: they are not empty, and no spaces are around them."""


class _Memory(BaseModel):
    model_config = _STRICT
    name: _Name
    size: Annotated[int, BeforeValidator(_size), Field(gt=0)]
    holds: tuple[str, ...] = Field(min_length=1)
    bandwidth_bytes_per_cycle: float = Field(gt=0, allow_inf_nan=False)
    latency_cycles: int = Field(ge=0)
    budget: bool


class _Engine(BaseModel):
    model_config = _STRICT
    name: _Name
    kernels: str
    bandwidth_bytes_per_cycle: float = Field(gt=0, allow_inf_nan=False)
    cycles_per_mac: float = Field(ge=0, allow_inf_nan=False)
    cycles_per_element: float = Field(ge=0, allow_inf_nan=False)
    cycles_per_loop: float = Field(ge=0, allow_inf_nan=False)
    cycles_per_call: float = Field(ge=0, allow_inf_nan=False)


class _Copier(BaseModel):
    model_config = _STRICT
    name: _Name
    setup_cycles: int = Field(ge=0)


class _Compiler(BaseModel):
    model_config = _STRICT
    zig: tuple[str, ...]
    gcc: tuple[str, ...]
    optimise: Literal["speed", "size"]


class _Target(BaseModel):
    model_config = _STRICT
    name: _Name
    description: str
    core: str | None = None
    compiler: _Compiler
    memories: tuple[_Memory, ...] = Field(min_length=1)
    engines: tuple[_Engine, ...] = Field(min_length=1)
    copier: _Copier | None = None


def target_names() -> tuple[str, ...]:
    """Names of the targets that come with penstock."""
    return tuple(sorted(f.name[:-5] for f in _FOLDER.iterdir() if f.name.endswith(".toml")))


def target_text(name: str) -> str:
    """The TOML text of a target that comes with penstock.  Raises UsageError."""
    if name not in target_names():
        raise _unknown(name)
    return (_FOLDER / f"{name}.toml").read_text("utf-8")


def _unknown(name: str) -> UsageError:
    return UsageError(
        "usage-002",
        f"there is no target {name!r}",
        where="--target",
        help=f"take one of {', '.join(target_names())}, or the path of a .toml file",
    )


def load_target(name: str) -> Target:
    """The target of that name, or described by that TOML file.

    Raises UsageError where there is none, TargetError where its description is wrong."""
    if name in target_names():
        return parse_target(target_text(name), name)
    path = Path(name)
    if path.suffix != ".toml":
        raise _unknown(name)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(
            "target-001",
            "the target file cannot be read",
            where=name,
            why=_reason(error),
            help="name a TOML file, or take one of " + ", ".join(target_names()),
        ) from error
    return parse_target(text, name)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "") if isinstance(error, OSError) else str(error)


def parse_target(text: str, where: str) -> Target:
    """The target that a TOML text describes.  Raises TargetError."""
    try:
        read = _Target.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise TargetError(
            "target-002", "the target file is not TOML", where=where, why=str(error), help=_EXAMPLE
        ) from error
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        raise TargetError(
            "target-003", f"the target's description is wrong: {found}", where=where,
            help=_EXAMPLE,
        ) from error  # fmt: skip
    target = _convert(read)
    for kind in ("arena", "constant"):
        if not any(kind in memory.holds for memory in target.memories):
            raise TargetError(
                "target-004", f"no memory holds {kind!r}", where=where,
                help=f'give one memory holds = ["{kind}"]',
            )  # fmt: skip
    return target


def _convert(read: _Target) -> Target:
    return Target(
        read.name,
        read.description,
        read.core,
        Compiler(read.compiler.zig, read.compiler.gcc, read.compiler.optimise),
        tuple(
            MemoryRegion(
                m.name, m.size, m.holds, m.bandwidth_bytes_per_cycle, m.latency_cycles, m.budget
            )
            for m in read.memories
        ),
        tuple(Engine(**e.model_dump()) for e in read.engines),
        None if read.copier is None else Copier(read.copier.name, read.copier.setup_cycles),
    )
