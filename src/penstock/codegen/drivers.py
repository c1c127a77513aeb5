"""DriverCode: how calls of an accelerator's driver are written, and the files that come with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverCode:
    """`includes`: text at the head of the model's C; `replace_call_extern` makes the call from the
    texts of its arguments, None: NAME(arguments); `sources`: files by name, the driver's header
    and, where there is no silicon yet, a stub of the driver."""

    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    sources: tuple[tuple[str, str], ...] = ()
