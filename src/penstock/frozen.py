"""frozen: the decorator of the package's records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform, overload

_Record = TypeVar("_Record")


@overload
def frozen(record: type[_Record], /) -> type[_Record]: ...


@overload
def frozen(**options: bool) -> Callable[[type[_Record]], type[_Record]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    record: type[_Record] | None = None, /, **options: bool
) -> type[_Record] | Callable[[type[_Record]], type[_Record]]:
    """Make a class a dataclass whose instances are immutable and take no other attributes.

    options: those of `dataclass`, such as `repr`."""
    made = dataclass(frozen=True, slots=True, **options)
    return made if record is None else made(record)
