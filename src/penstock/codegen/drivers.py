"""DriverCode: how generated C calls the driver of an accelerator, and the driver's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


class CallTexts(tuple[str, ...]):
    """The texts of a call's arguments; `function` is the name of the called function."""

    function: str

    def __new__(cls, function: str, arguments: Iterable[str]) -> CallTexts:
        found = super().__new__(cls, arguments)
        found.function = function
        return found


@dataclass(frozen=True, slots=True)
class DriverCode:
    """How generated C calls an accelerator's driver.

    includes: text at the beginning of the model's C file.
    replace_call_extern: returns the text of a call, given the texts of its arguments (CallTexts);
        None selects NAME(arguments).
    sources: (name, contents) of the driver's header and, until the hardware exists, of a stub."""

    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    sources: tuple[tuple[str, str], ...] = ()
