"""Brief: a short `repr` for records that hold whole networks."""

from __future__ import annotations

import reprlib
from collections.abc import Sized
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

MAX_LENGTH = 300


class Brief:
    """Base class of dataclasses; `repr` summarises fields instead of printing their contents."""

    __slots__ = ()

    def __repr__(self) -> str:
        record: Any = self
        shown = (f"{f.name}={_shown(getattr(record, f.name))}" for f in fields(record) if f.repr)
        return shortened(f"{type(self).__name__}({', '.join(shown)})")


def shortened(text: str) -> str:
    """The text, truncated to `MAX_LENGTH` characters; the last character survives."""
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..{text[-1]}"


def _shown(value: object) -> str:
    if isinstance(value, Enum | bool | int | float | str | bytes | None):
        return reprlib.repr(value)
    if isinstance(value, Sized):
        return f"<{len(value)} items>"
    return f"{type(value).__name__}(..)" if is_dataclass(value) else f"<{type(value).__name__}>"
