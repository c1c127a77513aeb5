"""Access to a simulated processor, and functions that are executed in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class CoreAccess(Protocol):
    """Registers and memory of a simulated core."""

    def read(self, address: int, size_bytes: int) -> bytes: ...
    def write(self, address: int, content: bytes) -> None: ...
    def register(self, name: str) -> int: ...
    def set_register(self, name: str, value: int) -> None: ...


# Executes a function of a program in place of the core that calls it: reads its arguments from R0,
# R1, .., and sets R0 to the result (AAPCS).
Trap = Callable[[CoreAccess], None]
