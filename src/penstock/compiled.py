"""compiled: Python functions on arrays as machine code (numba), kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit  # pyright: ignore[reportAttributeAccessIssue]

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function) -> _Function:
    """The function as machine code, kept for the next process if a folder can be written."""
    try:
        return cast(_Function, njit(cache=True)(function))
    except RuntimeError:  # neither beside the function's file nor in the user's cache folder
        return cast(_Function, njit(function))
