"""Validation of registrations.

Each check raises BackendError unless its condition holds.  The argument `where` or `place` states
what is being registered, and the error quotes it; for example, 'accelerator npu, class Npu, pattern
"conv2d"'.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import cast

from penstock.backends.accelerator import PassPhase
from penstock.backends.description import is_name, name_of, require_callable
from penstock.backends.operator_names import meaning
from penstock.backends.pattern import Pattern
from penstock.errors import BackendError
from penstock.guides import guide
from penstock.hardware.target import Target
from penstock.program.program import Driver
from penstock.tiling.nest import TILER_METHODS, Tiler

GRAPH_PHASES = (
    PassPhase.PRE_PARTITIONING,
    PassPhase.POST_PARTITIONING_0,
    PassPhase.POST_PARTITIONING_1,
)
FORMATS = ("c", "stream")


def check_target_name(name: object, class_name: str) -> None:
    """Raise BackendError unless `name` consists of lower-case letters, digits and underscores.

    class_name: the backend's class, for the message."""
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        raise BackendError(
            "backend-046",
            f"target_name is {name!r}, must consist of lower-case letters, digits and _",
            where=f"class {class_name}",
            help='define a property target_name that returns such a name, for example "my_npu"',
        )


def check_engine_name(name: str, chip: Target, where: str) -> None:
    """Raise BackendError if an engine of the chip has the accelerator's name.

    The engines are the processors and "caller", which stands for the application.
    """
    taken = {engine.name for engine in chip.engines} | {"caller"}
    if name in taken:
        raise BackendError(
            "backend-051",
            f'"{name}" is the name of an engine of the chip',
            where=where,
            why=f"engines of {chip.name}: {', '.join(sorted(taken))}",
            help="give the accelerator another target_name",
        )


def check_pass(
    phase: PassPhase, function: object, phases: tuple[PassPhase, ...], kind: str, place: str
) -> None:
    """Raise BackendError unless `function` is callable and `phase` is one of `phases`."""
    where = f"{place}, pass {name_of(function)}"
    require_callable(function, "pass", f"{kind} and an AcceleratorTarget", where)
    if phase not in phases:
        raise BackendError(
            "backend-038",
            f"{phase} is not a phase of passes of {kind}",
            where=where,
            help="use one of " + ", ".join(f"PassPhase.{p.name}" for p in phases),
        )


def check_pattern(
    name: object, pattern: object, predicate: object, taken: Sequence[str], where: str
) -> None:
    """Raise BackendError if an argument of a pattern's registration has a wrong type or value.

    predicate: must be callable or None.
    taken: names of other patterns, which `name` must not equal."""
    if predicate is not None:
        require_callable(predicate, "predicate", "an Offloaded", where)
    if not is_name(name):
        raise BackendError(
            "backend-034",
            f"the pattern's name is {name!r}, must be a text",
            where=where,
            help="give it a name: strategies and reports call composites by it",
        )
    if name in taken:
        raise BackendError(
            "backend-034",
            "there is a pattern of that name",
            where=where,
            help="give each its own name",
        )
    if not isinstance(pattern, Pattern):
        raise BackendError(
            "backend-034",
            f"expected a pattern, got {type(pattern).__name__}",
            where=where,
            help='write is_op("nn.conv2d")(wildcard(), is_constant()), or call the function '
            "that returns it",
        )


def check_constraint(function: object, where: str) -> None:
    """Raise BackendError unless `function` is callable and has a docstring."""
    require_callable(function, "constraint", "an Offloaded", where)
    if not inspect.getdoc(function):
        raise BackendError(
            "backend-032",
            "the constraint has no docstring",
            where=where,
            why="the docstring is the rule that users read where a node is refused",
            help='write it as a sentence: "The stride is 1 or 2."',
        )


def check_strategy(op: object, strategy: object, level: object, where: str) -> None:
    """Raise BackendError unless `strategy` is callable, `op` a string and `level` an integer."""
    require_callable(strategy, "strategy", "attrs, inputs, out_type and target", where)
    if not isinstance(op, str) or type(level) is not int:
        raise BackendError(
            "backend-035",
            f"operator {op!r} at level {level!r}, must be a str and an int",
            where=where,
            help="the core's own kernels have level 10; the highest level wins",
        )


def check_codegen(
    fmt: str,
    encoder: Callable[..., bytes] | None,
    submit: object,
    replace_call_extern: Callable[[Sequence[str]], str] | None,
    where: str,
) -> None:
    """Raise BackendError unless the arguments of `_register_codegen` are valid and consistent."""
    complete = encoder is not None and submit is not None
    if fmt not in FORMATS or (fmt == "stream") != complete:
        raise BackendError(
            "backend-037",
            f"format {fmt!r} {_stream_arguments(encoder, submit)}",
            where=where,
            why='the formats are "c" (calls of driver functions) and "stream" (bytes from an '
            "encoder)",
            help='use fmt="c", or fmt="stream" with an encoder and `submit`, a driver function',
        )
    for role, function in (("replace_call_extern", replace_call_extern), ("encoder", encoder)):
        if function is not None:
            require_callable(function, role, "the arguments of a call", where)


def check_driver(driver: object, does: str, example: str, takes: str, where: str) -> None:
    """Raise BackendError unless `driver` is a `Driver`; the other arguments are phrases of the
    message."""
    if not isinstance(driver, Driver):
        raise BackendError(
            "backend-067",
            f"the function that {does} is {driver!r:.60}, must be a Driver",
            where=where,
            help=f'pass Driver("{example}", "npu", model, device), whose model takes {takes}',
        )


def check_tiler(op: str, tiler: Tiler, patterns: Sequence[str], where: str) -> None:
    """Raise BackendError if `tiler` lacks a method of the Tiler interface, or `op` is unknown.

    op: must be the name of an operator or one of `patterns`."""
    candidate = cast(object, tiler)
    if missing := [m for m in TILER_METHODS if not callable(getattr(candidate, m, None))]:
        raise BackendError(
            "backend-052",
            f"{type(candidate).__name__} is not a tiler: it has no method {missing[0]}",
            where=where,
            why=f"a tiler has the methods {', '.join(TILER_METHODS)}",
            help="a tiler may derive from LeastTraffic; see the " + guide("write-a-tiler"),
        )
    if op not in patterns:
        meaning(op, where, also=list(patterns))


def name_clash(
    name: str, where: str, origins: tuple[str, str], remedy: str = "remove one of the packages"
) -> BackendError:
    """Return the error for two accelerators with the same name.

    remedy: what users can do instead of renaming one of them, for the message."""
    return BackendError(
        "backend-048",
        f'two accelerators are called "{name}"',
        where=where,
        why=f"{origins[0]} and {origins[1]}",
        help=f"give one of them another target_name, or {remedy}",
    )


def _stream_arguments(encoder: object, submit: object) -> str:
    """Return a phrase for an error message: which of the arguments are given, that is, not None.

    >>> _stream_arguments(None, print), _stream_arguments(None, None)
    ('with submit', 'without encoder and submit')
    """
    arguments = {"encoder": encoder, "submit": submit}
    given = [name for name, argument in arguments.items() if argument is not None]
    return f"with {' and '.join(given)}" if given else "without encoder and submit"
