"""DriverCode: how generated C calls the driver of an accelerator, and the driver's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


class CallTexts(tuple[str, ...]):
    """The texts of a call's arguments; `function`: the name of what is called."""

    function: str

    def __new__(cls, function: str, arguments: Iterable[str]) -> CallTexts:
        found = super().__new__(cls, arguments)
        found.function = function
        return found


@dataclass(frozen=True, slots=True)
class DriverCode:
    """`includes`: text at the head of the model's C; `replace_call_extern` makes the call from the
    texts of its arguments, CallTexts, None: NAME(arguments); `sources`: files by name, the driver's
    header and, until the hardware exists, a stub of the driver."""

    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    sources: tuple[tuple[str, str], ...] = ()
