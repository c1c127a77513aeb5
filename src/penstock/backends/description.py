"""Diagnostics for errors in a backend, in terms of the backend's own source code.

Backend code is the Python code that describes an accelerator.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import TypeVar

from penstock.errors import BackendError, PenstockError
from penstock.guides import guide

_Fact = TypeVar("_Fact")
_CORE = Path(__file__).parents[1]


class Facts(dict[str, _Fact]):
    """A mapping from names to values whose KeyError lists the names that exist.

    >>> Facts({"in_h": 3, "in_w": 4})["height"]
    Traceback (most recent call last):
    KeyError: "there is no 'height'; there are in_h, in_w"
    """

    def __missing__(self, name: str) -> _Fact:
        raise KeyError(f"there is no {name!r}; there are {', '.join(self) or 'none'}")


def is_name(value: object) -> bool:
    """Return whether a value is a printable, non-empty string without leading or trailing spaces.

    >>> is_name("sram"), is_name(""), is_name(" "), is_name(7)
    (True, False, False, False)
    """
    return isinstance(value, str) and value.isprintable() and value == value.strip() != ""


def line_of(error: BaseException) -> str:
    """Return the line of a backend's source code that caused an exception, such as "backend.py:12".

    It is the innermost such line in the traceback; "" if there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = (frame for frame in reversed(frames) if _is_backend_code(Path(frame.filename)))
    last = next(own, None)
    return "" if last is None else f"{os.path.basename(last.filename)}:{last.lineno}"


def _is_backend_code(file: Path) -> bool:
    """Whether a source file describes an accelerator, unlike the compiler's own files."""
    return not (file.is_relative_to(_CORE) or file.name.startswith("<"))


def reason_of(error: BaseException) -> str:
    """Return the type and message of an exception, such as "ValueError: negative size"."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return f"{type(error).__name__}: {text}"


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of a callable object.

    >>> name_of(len)
    'len'
    """
    return getattr(function, "__name__", type(function).__name__)


def required_facts(
    function: Callable[..., object], facts: tuple[object, ...]
) -> tuple[object, ...]:
    """Return the first `facts`, as many as a function has positional parameters without a default.

    >>> required_facts(lambda target: "", ("target", "program"))
    ('target',)
    >>> required_facts(lambda: "", ("target", "program"))
    ()
    """
    positional = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    parameters = signature(function).parameters.values()
    needed = [p for p in parameters if p.kind in positional and p.default is Parameter.empty]
    return facts[: len(needed)]


def require_callable(value: object, role: str, takes: str, where: str) -> None:
    """Raise BackendError if `value` is not callable.

    The other parameters are texts for the message.

    role: what `value` is, such as "cost function".
    takes: its parameters, such as "a KernelCall".
    """
    if not callable(value):
        raise BackendError(
            "backend-033",
            f"the {role} is {value!r}, must be a function of {takes}",
            where=where,
            help=f"pass a function or a callable object that accepts {takes}",
        )


@contextmanager
def backend_code(role: str, where: str) -> Generator[None]:
    """Convert exceptions raised in the `with` block to a BackendError that states the source line.

    PenstockError is not converted.

    role: what the block calls, such as "cost function", for the message.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise BackendError(
            "backend-042",
            f"the {role} raises {reason_of(error)}",
            where=", ".join(filter(None, (where, line_of(error)))),
            help=f"correct the function; its arguments are in the {guide('add-a-backend')}",
        ) from error
