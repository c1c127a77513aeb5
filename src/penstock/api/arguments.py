"""Arguments of the API beside settings: their choices and defaults, and checks of their types."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from types import UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin

from penstock.backends.contributions import FORMATS, RUNGS, contributions
from penstock.choices import one_of
from penstock.errors import UsageError, did_you_mean
from penstock.frozen import frozen

# The rungs at which `verify` can end, lowest first; packages of accelerators may contribute others.
LAST_RUNGS: Final = ("reference", "machine", "host", "core")
REFERENCES: Final = ("tflite", "onnx")  # Sources of ground truth.
COMPILERS: Final = ("zig", "gcc")  # C compilers for the program of a simulated core.
C: Final = "c"  # What `compile` writes, if it is no format that a package contributes.
SEQUENCE_STEPS: Final = 8  # Runs of each random sequence for a model with state.
HOPS: Final = 200  # Runs of the random sequence for an incremental network.


@frozen(repr=False)
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
    return one_of(name, (*LAST_RUNGS, *contributions(RUNGS)), "--last-rung")


def check_format(format: str) -> None:
    """Raises UsageError unless a format is C or that of an installed package."""
    if format != C and format not in (others := contributions(FORMATS)):
        known = (C, *others)
        raise UsageError(
            "usage-183",
            f"there is no format {format!r}",
            where="--format",
            why=f"the formats are {', '.join(known)}",
            help=did_you_mean(format.lower(), known) + "packages of C code are selected by "
            "--package",
        )


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
