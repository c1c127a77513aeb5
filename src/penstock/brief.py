"""brief: a short `repr` for records that hold whole networks."""

from __future__ import annotations

import reprlib
from collections.abc import Sized
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

MOST_LETTERS = 300


class Brief:
    """A dataclass whose `repr` names its fields without what they contain."""

    __slots__ = ()

    def __repr__(self) -> str:
        record: Any = self
        shown = (f"{f.name}={_shown(getattr(record, f.name))}" for f in fields(record) if f.repr)
        return shortened(f"{type(self).__name__}({', '.join(shown)})")


def shortened(text: str) -> str:
    """The text, or its beginning and its last character where it is too long."""
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..{text[-1]}"


def _shown(value: object) -> str:
    if isinstance(value, Enum | bool | int | float | str | bytes | None):
        return reprlib.repr(value)
    if isinstance(value, Sized):
        return f"<{len(value)} items>"
    return f"{type(value).__name__}(..)" if is_dataclass(value) else f"<{type(value).__name__}>"
