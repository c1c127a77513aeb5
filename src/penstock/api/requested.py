"""The request that arguments of the API state, and the help of the functions that take them."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from penstock.api.settings import Settings
from penstock.backends.cores.family import load_checked_target, with_kernels
from penstock.backends.discovery import check_is_target, open_accelerators
from penstock.choices import InterfaceTypes, Optimize, one_of
from penstock.codegen.c_text import prefix
from penstock.errors import UsageError, did_you_mean
from penstock.frontends.reading import Reading
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.hardware.load import first_outside
from penstock.hardware.target import Target
from penstock.ir.graph import Graph, Value
from penstock.pipeline.request import KEYWORDS, Request
from penstock.scheduling.options import Options
from penstock.setting import AnySetting

# Arguments of the API beside settings: their choices and defaults, and checks of their types.


# The rungs at which `verify` can end, lowest first.
LAST_RUNGS: Final = ("reference", "machine", "host", "core")
REFERENCES: Final = ("tflite", "onnx")  # Sources of ground truth.
COMPILERS: Final = ("zig", "gcc")  # C compilers for the program of a simulated core.
SEQUENCE_STEPS: Final = 8  # Runs of each random sequence for a model with state.
HOPS: Final = 200  # Runs of the random sequence for an incremental network.


@dataclass(frozen=True, slots=True, repr=False)
class _Ignored:
    """Ignores the beginning of a stage, and its progress.  `help` shows `name` as the default."""

    name: str

    def __call__(self, name: str, done: int = 0, of: int = 1) -> None:
        pass

    def __repr__(self) -> str:
        return self.name


ignore_stage = _Ignored("ignore_stage")
ignore_progress = _Ignored("ignore_progress")


def check_last_rung(name: str) -> str:
    """The name of a rung.  Raises UsageError if `verify` cannot end there."""
    return one_of(name, LAST_RUNGS, "--last-rung")


def check_reference(name: str | None) -> Literal["tflite", "onnx"] | None:
    """The name of a source of ground truth.  Raises UsageError if there is none of that name."""
    if name is None:
        return None
    return "onnx" if one_of(name, REFERENCES, "--reference") == "onnx" else "tflite"


def check_compiler(name: str) -> None:
    """Raises UsageError if there is no compiler of that name."""
    one_of(name, COMPILERS, "--compiler")


def check_type(name: str, value: object, hint: object, where: str, help: str = "") -> None:
    """Raises UsageError unless the value of an argument has the annotated type."""
    if not _is_instance(value, hint):
        wanted = "True or False" if hint is bool else _written(hint)
        raise UsageError(
            "usage-160",
            f"{name}={value!r} is of type {type(value).__name__}, must be {wanted}",
            where=where,
            help=help or f"pass a value of this type, or omit {name}",
        )


def check_flags(where: str, **flags: object) -> None:
    """Raises UsageError unless all arguments are True or False."""
    for name, value in flags.items():
        check_type(name, value, bool, where)


def check_count(where: str, name: str, value: int, least: int) -> None:
    """Raises UsageError unless an argument is a whole number, `least` or greater."""
    check_type(name, value, int, where)
    if value < least:
        raise UsageError(
            "usage-163",
            f"{name} is {value}, must be at least {least}",
            where=where,
            help=f"pass {least} or more, or omit {name}",
        )


def _is_instance(value: object, hint: object) -> bool:
    import numpy as np  # slow to import; help texts need the choices of this module

    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_instance(value, one) for one in arguments)
    if origin is Literal:
        return isinstance(value, str)
    if origin is Mapping:
        key, item = arguments
        return isinstance(value, Mapping) and all(
            _is_instance(k, key) and _is_instance(one, item)
            for k, one in cast(Mapping[object, object], value).items()
        )
    if origin is Sequence:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        return all(_is_instance(one, arguments[0]) for one in cast(Collection[object], value))
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _written(hint: object) -> str:
    """An annotation, without the modules of its names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " | ".join(map(_written, arguments))
    if origin in (Mapping, Sequence):
        return f"{origin.__name__}[{', '.join(map(_written, arguments))}]"
    if origin is None and isinstance(hint, type):
        return "None" if hint is type(None) else hint.__name__
    return inspect.formatannotation(hint)


_Function = TypeVar("_Function", bound=Callable[..., object])
_WIDTH = 100

Model = str | Path | Graph  # A model: a file, a zoo network `zoo:NAME`, or a graph built in Python.


def with_settings(function: _Function) -> _Function:
    """Show each setting as a keyword parameter of a function, and describe it in its docstring.

    Type checkers derive the same from `Unpack[Settings]`; `help` and notebooks do not."""
    signature = inspect.signature(function)
    *own, rest = signature.parameters.values()
    assert rest.kind is inspect.Parameter.VAR_KEYWORD
    shown = signature.replace(parameters=[*own, *_keywords()])
    function.__signature__ = shown  # pyright: ignore[reportFunctionMemberAccess]
    own_text = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = "\n".join((own_text, "", "Settings:", *map(_described, KEYWORDS)))
    return function


def _keywords() -> list[inspect.Parameter]:
    kind, hints = inspect.Parameter.KEYWORD_ONLY, get_type_hints(Settings)
    return [
        inspect.Parameter(one.name, kind, default=one.python_default, annotation=hints[one.name])
        for one in KEYWORDS
    ]


def _described(one: AnySetting) -> str:
    text = f"{one.name}: {one.python}."
    return textwrap.fill(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def request(model: Model, target: str = DEFAULT_TARGET, **settings: Unpack[Settings]) -> Request:
    """A request with sizes and names resolved.

    Raises UsageError, TargetError, BackendError."""
    check_is_model(model)
    _check_names(settings)
    _check_types(settings)
    check_type("target", target, str, "the call")
    check_is_target(target)
    found: dict[tuple[str, ...], Any] = {
        one.path: one.read(settings[one.name]) for one in KEYWORDS if one.name in settings
    }
    reading = {path[1]: value for path, value in found.items() if path[0] == "reading"}
    own = {path[0]: value for path, value in found.items() if path[0] != "reading"}
    _check_prefix(own.get("name"))
    named = own.pop("accelerators", ())
    wanted = Request(
        model.name if isinstance(model, Graph) else str(model),
        load_checked_target(target, trusted=own.get("trust_target", False)),
        model if isinstance(model, Graph) else None,
        **own,
    )
    is_same = wanted.io is InterfaceTypes.MODEL
    return _on_target(replace(wanted, reading=Reading(**reading, same_interface=is_same)), named)


def _on_target(wanted: Request, named: Iterable[str]) -> Request:
    """A request with its settings applied to its target, which is as described.  Those that change
    nothing are dropped."""
    described, sizes = wanted.target, dict(wanted.memory)
    chip = described.resized(sizes)
    if wanted.clock_hz is not None:
        chip = replace(chip, clock_hz=wanted.clock_hz)
    if wanted.kernels is not None:
        chip = with_kernels(chip, wanted.kernels)
    opened = tuple(one.resized(sizes) for one in open_accelerators(tuple(named), chip))
    chip = chip.beside(memory for one in opened for memory in one.arenas)
    _check_memories(chip, sizes)
    goal = wanted.optimize
    if goal is None and any(m.budget and m.name in sizes for m in chip.memories_for("arena")):
        goal = Optimize.SPEED  # the capacity of a memory is a budget, too
    if goal is Optimize.SIZE:
        chip = chip.optimised_for("size")
    known = {(memory.name, memory.size_bytes) for memory in described.memories}
    flags = (chip.compiler.zig, chip.compiler.gcc)
    return replace(
        wanted,
        target=chip,
        accelerators=opened,
        optimize=goal,
        memory=tuple(one for one in wanted.memory if one not in known),
        clock_hz=None if chip.clock_hz == described.clock_hz else chip.clock_hz,
        kernels=None if chip.engines == described.engines else wanted.kernels,
        trust_target=any(first_outside(some) is not None for some in flags),
    )


def _check_types(settings: Mapping[str, object]) -> None:
    """Raises UsageError if a setting has another type than its keyword."""
    hints = {**get_type_hints(Settings), "memory": Mapping}  # its sizes are checked where read
    for one in KEYWORDS:
        if one.kind.is_checked and one.name in settings:
            help = f"write {one.name}={one.example}" if one.example else ""
            check_type(one.name, settings[one.name], hints[one.name], "the call", help)


def _check_names(settings: Mapping[str, object]) -> None:
    """Raises UsageError if a setting is unknown, such as a misspelled one."""
    known = [one.name for one in KEYWORDS]
    for name in settings.keys() - known:
        help = did_you_mean(name, known).rstrip()
        if name in {field.name for field in fields(Options)}:
            help = f"it is an option of the search: options=Options({name}=..)"
        raise UsageError(
            "usage-031",
            f'there is no setting "{name}"',
            where="the call",
            why=f"the settings are {', '.join(known)}",
            help=help or "see penstock.api.Settings",
        )


def _check_prefix(name: str | None) -> None:
    """Raises UsageError if a name cannot be the prefix of C names and the name of files."""
    if name is None or name == prefix(name):
        return
    raise UsageError(
        "usage-150",
        f"{name!r} cannot be the prefix of C names",
        where="--name",
        why="a prefix is a C identifier, no keyword, no name of a standard header or of a file of "
        "the package, and does not begin with penstock",
        help=f"{prefix(name)} is possible",
    )


def check_is_model(model: object) -> None:
    """Raises UsageError unless `model` is a file name, the name of a zoo network, or a graph."""
    if isinstance(model, Model):
        return
    unbuilt = callable(getattr(model, "build", None)) or isinstance(model, Value)
    raise UsageError(
        "usage-061",
        f"a {type(model).__name__} is not a model",
        where="the argument `model`",
        why="a model is the name of a file, zoo:NAME, or a Graph",
        help="pass the graph that GraphBuilder.build(outputs) returns"
        if unbuilt
        else "build a graph with penstock.GraphBuilder, or name a .tflite or .onnx file",
    )


def _check_memories(target: Target, named: Iterable[str]) -> None:
    """Raises UsageError if neither the target nor an accelerator has one of the named memories."""
    names = [memory.name for memory in target.memories]
    for region in named:
        if region not in names:
            raise UsageError(
                "usage-011",
                f"target {target.name} has no memory {region!r}",
                where="--memory",
                help=f"{did_you_mean(region, names)}its memories are {', '.join(names)}",
            )
