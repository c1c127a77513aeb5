"""Description: what is wrong with that of an accelerator, in the words that its author needs."""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from penstock.errors import BackendError, PenstockError

_Fact = TypeVar("_Fact")
_CORE = Path(__file__).parents[1]
_ACCELERATORS = _CORE / "accelerators"


class Facts(dict[str, _Fact]):
    """What is known, by name; who asks for anything else is told the names.

    >>> Facts({"in_h": 3, "in_w": 4})["height"]
    Traceback (most recent call last):
    KeyError: "there is no 'height'; there are in_h, in_w"
    """

    def __missing__(self, name: str) -> _Fact:
        raise KeyError(f"there is no {name!r}; there are {', '.join(self) or 'none'}")


def is_name(value: object) -> bool:
    """Whether reports can show it as a name: printable text without spaces around it, not empty.

    >>> is_name("sram"), is_name(""), is_name(" "), is_name(7)
    (True, False, False, False)
    """
    return isinstance(value, str) and value.isprintable() and value == value.strip() != ""


def line_of(error: BaseException) -> str:
    """Where in an author's file it was raised, as "backend.py:12"; nothing where in none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = (frame for frame in reversed(frames) if _is_authors(Path(frame.filename)))
    last = next(own, None)
    return "" if last is None else f"{os.path.basename(last.filename)}:{last.lineno}"


def _is_authors(file: Path) -> bool:
    """Whether an accelerator's author wrote it: a file on its own, or of those that come along."""
    inside, is_file = file.is_relative_to(_CORE), not file.name.startswith("<")
    return is_file and (not inside or file.is_relative_to(_ACCELERATORS))


def reason_of(error: BaseException) -> str:
    """An exception and its text, without the quotes that Python puts around a KeyError's."""
    text = error.args[0] if isinstance(error, KeyError) and error.args else error
    return f"{type(error).__name__}: {text}"


def name_of(function: object) -> str:
    """What a function, or an object that is called as one, is known by.

    >>> name_of(len)
    'len'
    """
    return getattr(function, "__name__", type(function).__name__)


def require_callable(value: object, role: str, takes: str, where: str) -> None:
    """Raises BackendError where `value` cannot be called; `takes` says with what."""
    if not callable(value):
        raise BackendError(
            "backend-033",
            f"the {role} is {value!r}, must be a function of {takes}",
            where=where,
            help=f"give a function, or an object that can be called with {takes}",
        )


@contextmanager
def authors_code(role: str, where: str) -> Generator[None]:
    """What the author's function raises becomes an error that names the function and the line."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise BackendError(
            "backend-042",
            f"the {role} raises {reason_of(error)}",
            where=", ".join(filter(None, (where, line_of(error)))),
            help="mend it there; the compiler calls it as it is registered",
        ) from error
