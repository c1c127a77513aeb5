"""Just-in-time compilation of functions on arrays (Numba), cached between processes.

The first compilation of a process is logged, because all of them together take up to a minute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar, cast

from numba import njit  # pyright: ignore[reportAttributeAccessIssue]
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, register

# The largest int64: no limit, or a cost that nothing attains. Arrays and compiled code have neither
# None nor an infinite integer.
UNBOUNDED: Final = (1 << 63) - 1
LOGGER: Final = logging.getLogger("penstock.compiled")

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function, *, allocates: bool = True) -> _Function:
    """Compile a function on its first call; cache the code if a directory is writable.

    allocates: whether the function creates or returns arrays, other than slices that it drops.  If
        not, references to arrays are not counted, as in many functions of Numba itself.
    """
    jit = cast(Callable[..., Callable[[_Function], _Function]], njit)  # its types lack `_nrt`
    try:
        return jit(cache=True, _nrt=allocates)(function)
    except RuntimeError:  # neither the source directory nor the user's cache is writable
        return cast(_Function, jit(function, _nrt=allocates))


def compiled_in_place(function: _Function) -> _Function:
    """Compile a function that creates and returns no arrays (see `compiled`)."""
    return compiled(function, allocates=False)


class _FirstCompilation(Listener):
    """Logs the first compilation of a function of penstock that is not in the cache."""

    is_logged = False

    def on_start(self, event: Event) -> None:
        dispatcher = (event.data or {}).get("dispatcher")
        if self.is_logged or dispatcher is None or not _is_ours(dispatcher):
            return
        self.is_logged = True
        kept = bool(dispatcher.stats.cache_path)
        after = "later commands reuse it" if kept else "no folder can keep it for later commands"
        LOGGER.info("compiling a part of the search to machine code: up to a minute; %s", after)

    def on_end(self, event: Event) -> None:
        """Ignores the end of a compilation."""


def _is_ours(dispatcher: Dispatcher) -> bool:
    return dispatcher.py_func.__module__.startswith("penstock.")


register("numba:compile", _FirstCompilation())
