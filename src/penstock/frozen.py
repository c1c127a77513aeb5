"""frozen: the decorator of the package's records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_Record = TypeVar("_Record")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(record: type[_Record]) -> type[_Record]:
    """Make a class a dataclass whose instances are immutable and take no other attributes."""
    return dataclass(frozen=True, slots=True)(record)
