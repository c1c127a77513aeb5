"""StatedAttribute: an attribute of an operator, as reports state it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

MOST_NUMBERS = 8
"""Longest tuple of numbers that is stated."""


@dataclass(frozen=True, slots=True)
class StatedAttribute:
    """An attribute in words, such as ("stride", "2 × 2")."""

    name: str
    words: str


def stated_fields(record: object) -> Iterator[StatedAttribute]:
    """Yield the fields of a record that hold numbers or names and differ from their defaults."""
    assert is_dataclass(record), f"{type(record).__name__} is no record"
    for field in fields(record):
        value = getattr(record, field.name)
        words = _words(value)
        if words is not None and value != field.default:
            yield StatedAttribute(field.name.replace("_", " "), words)


def _words(value: object) -> str | None:
    """Return a number, a name or a short tuple of numbers as text; None for other values."""
    match value:
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value.name.replace("_", " ").lower()
        case int() | str():
            return str(value)
        case float():
            return f"{value:.6g}"
        case tuple():
            return _numbers(value)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return None


def _numbers(values: tuple[object, ...]) -> str | None:
    numbers = [f"{value:.6g}" for value in values if type(value) in (int, float)]
    fits = len(numbers) == len(values) <= MOST_NUMBERS
    return ", ".join(numbers) if fits and numbers else None
