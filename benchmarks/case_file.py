"""CaseFile: a JSON file of cases with known answers, read with exact numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from penstock.errors import ModelError, PenstockError
from penstock.ir.affine import Number, exact

LARGEST_EXPONENT = 300
"""Largest decimal exponent, about that of a double."""
DENOMINATORS = 4096
"""Largest denominator of the fraction that replaces a decimal with the same double value."""

Document = Mapping[str, object]
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Section:
    """The result of the cases of one kind: number of cases and of agreements, the first difference,
    and notes that are printed below."""

    name: str
    cases: int
    agreed: int
    difference: str = ""
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(name: str, differences: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> Section:
        """A section from (label, difference) of every case; the difference is empty if the case
        agrees."""
        pairs = tuple(differences)
        wrong = [f"{label}: {difference}" for label, difference in pairs if difference]
        first = wrong[0] if wrong else ""
        return Section(name, len(pairs), len(pairs) - len(wrong), first, tuple(notes))


class Record(BaseModel):
    """A case or a part of one; unknown fields are ignored."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True, frozen=True)


def read_document(path: Path) -> Document:
    """The top-level object of the file.  Raises ModelError."""
    try:
        found = json.loads(
            path.read_text("utf-8"), parse_float=parse_number, parse_constant=parse_number
        )
    except OSError as error:
        raise ModelError(
            "bench-020",
            f"the file of cases cannot be read: {error.strerror}",
            where=str(path),
            help="name a .json file of cases",
        ) from error
    except (ValueError, RecursionError) as error:
        raise ModelError(
            "bench-021",
            f"the file of cases is no JSON: {error}",
            where=str(path),
            help="name a .json file of cases",
        ) from error
    if not isinstance(found, dict):
        raise malformed(str(path), f"the file holds a {type(found).__name__}, must hold an object")
    return found


def parse_number(text: str) -> Number:
    """The number that a JSON decimal stands for.  Raises ValueError.

    >>> parse_number("0.0625"), parse_number("0.3333333333333333"), parse_number("3.0")
    (Fraction(1, 16), Fraction(1, 3), 3)
    """
    if text in ("NaN", "Infinity", "-Infinity") or (
        abs(Decimal(text).adjusted()) > LARGEST_EXPONENT
    ):
        raise ValueError(f"{text} is no number that can be exact")
    decimal = Fraction(text)
    simple = decimal.limit_denominator(DENOMINATORS)
    return exact(simple if float(simple) == float(decimal) else decimal)


def read_as(kind: type[Read], found: object, where: str) -> Read:
    """The value as a `kind`.  Raises ModelError."""
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ", ".join(map(str, (where, *first["loc"])))
        raise malformed(place, first["msg"]) from error


def malformed(where: str, what: str) -> PenstockError:
    """The error for a violation of the format."""
    return ModelError(
        "bench-022",
        what,
        where=where,
        why="the file is not as its format says",
        help="correct the file",
    )
