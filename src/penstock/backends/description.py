"""Description: what is wrong with that of an accelerator, in the words that its author needs."""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from penstock.errors import BackendError, PenstockError


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
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise BackendError(
            "backend-042",
            f"the {role} raises {type(error).__name__}: {error}",
            where=f"{where}, {os.path.basename(last.filename)}:{last.lineno}",
            help="mend it there; the compiler calls it as it is registered",
        ) from error
