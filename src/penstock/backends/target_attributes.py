"""Attributes of an accelerator: a backend declares them with defaults, and users set them."""

from __future__ import annotations

import difflib
import keyword
import math
from collections.abc import Mapping

from penstock.backends.accelerator import Value
from penstock.errors import BackendError, UsageError

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
    least: Mapping[str, float] | None = None,
) -> dict[str, Value]:
    """Return the value of every declared attribute: the given value, or else the default.

    least: the smallest valid values of some attributes, by name.

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
        found[name] = _in_range((least or {}).get(name), name, read, where)
    return found


def _in_range(least: float | None, name: str, value: Value, where: str) -> Value:
    """Return `value` unchanged if it is a string or within range."""
    if not isinstance(value, str) and abs(value) >= LIMIT:
        raise UsageError(
            "usage-019",
            f"attribute {name} is {_shortened(str(value))}, its magnitude must be below 2^40",
            where=where,
            help="set a smaller value",
        )
    if least is not None and not isinstance(value, str) and value < least:
        raise UsageError(
            "usage-019",
            f"attribute {name} is {value}, must be at least {least}",
            where=where,
            help="set a larger value",
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
    return _read(given, kind) if isinstance(given, str) else None


def _read(text: str, kind: type[Value]) -> Value | None:
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        return int(text, 0) if kind is int else _finite(float(text))
    except (ValueError, KeyError):
        return None


def _finite(value: Value) -> Value | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
