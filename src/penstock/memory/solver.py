"""Whether there is a constraint solver.  Reports ask, and need nothing else of placement."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec


@cache
def is_installed() -> bool:
    """Return whether the library of the constraint solver is installed."""
    return find_spec("ortools") is not None
