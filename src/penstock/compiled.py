"""Just-in-time compilation of functions on arrays (Numba), cached between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

from numba import njit  # pyright: ignore[reportAttributeAccessIssue]

UNBOUNDED: Final = (1 << 63) - 1
"""The largest int64: no limit, or a cost that nothing attains.  Arrays and compiled code have
neither None nor an infinite integer."""

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function) -> _Function:
    """Compile a function on its first call; cache the code if a directory is writable."""
    try:
        return cast(_Function, njit(cache=True)(function))
    except RuntimeError:  # neither the source directory nor the user's cache is writable
        return cast(_Function, njit(function))
