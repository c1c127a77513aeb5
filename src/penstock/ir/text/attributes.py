"""Attributes: the text of the values that fields of operators hold.

    16  0.5  "text"  true  none     numbers, strings, truth values, no value
    (1, 2)  @c5029a71db5295a1       tuples; long tuples of numbers by digest
    Activation.RELU                 a member of an enumeration
    Window(size=5, before=2)        a record, without the fields that have their defaults
    Fraction(1, 3)  Data(@..)  Bytes(@..)

Records and enumerations are found by the names of their classes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.ir.tensor import Data, TensorType
from penstock.quoting import quoted

# Constants by digest: how texts refer to long data and long tuples of numbers.
#
# A digest is the first 16 hexadecimal digits of the SHA-256 of bytes: of the elements of a constant
# tensor, or of a tuple of numbers spelled out with blanks between them.


Constants = Mapping[str, bytes]  # The contents of constants, by digest.

MAX_INLINE = 8  # Tuples of more numbers, and constants of more elements, are shown by digest ..
MAX_INLINE_LETTERS = 48  # .. and so are those whose text is longer.
_DIGITS = 16

Numbers = tuple[int | float, ...]


def digest(raw: bytes) -> str:
    """The digest of some bytes."""
    return hashlib.sha256(raw).hexdigest()[:_DIGITS]


class ConstantTable:
    """The constants that a text refers to by digest, collected while the text is printed.

    >>> table = ConstantTable()
    >>> table.numbers((1, 2)), table.numbers(tuple(range(9)))
    ('(1, 2)', '@dc4b2f201cbcb638')
    """

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    def refer(self, raw: bytes) -> str:
        """Adds some bytes to the table, and returns the token that refers to them."""
        name = digest(raw)
        self.found[name] = raw
        return f"@{name}"

    def numbers(self, numbers: Numbers, limit: int = MAX_INLINE) -> str:
        """The text of a tuple of numbers: its elements, or a digest if there are more than
        `limit`."""
        comma = "," if len(numbers) == 1 else ""
        text = f"({', '.join(map(repr, numbers))}{comma})"
        if len(numbers) <= limit and len(text) <= max(MAX_INLINE_LETTERS, 5 * limit):
            return text
        return self.refer(" ".join(map(repr, numbers)).encode())

    def data(self, data: Data, type: TensorType) -> str:
        """The text of a constant's elements: one number if all are equal, the elements if they are
        few, otherwise a digest."""
        numbers = _elements(data, type)
        if numbers is None:
            return self.refer(data.raw)
        if len(set(numbers)) == 1:
            return repr(numbers[0])
        text = f"({', '.join(map(repr, numbers))})"
        return text if len(text) <= MAX_INLINE_LETTERS else self.refer(data.raw)


def data_lines(constants: Constants) -> str:
    """Constants as lines `data @digest "base85"`."""
    return "".join(
        f'data @{name} "{base64.b85encode(raw).decode()}"\n' for name, raw in constants.items()
    )


def _elements(data: Data, type: TensorType) -> Numbers | None:
    """The elements as numbers that can be parsed to the same bytes; None if there are too many."""
    if len(data.raw) != type.size_bytes or not type.elements:
        return None
    array = data.array(type).ravel()
    if type.elements > MAX_INLINE and data.raw != data.raw[: type.dtype.size_bytes] * len(array):
        return None
    kept = array[:1] if type.elements > MAX_INLINE else array
    numbers: Numbers = tuple(kept.tolist())
    same = np.array(numbers).astype(type.dtype.value).tobytes() == kept.tobytes()
    plain = all(number == number for number in numbers)
    return tuple(int(n) if isinstance(n, bool) else n for n in numbers) if same and plain else None


def attribute(x: object, table: ConstantTable) -> str:
    """The text of one value.

    >>> from penstock.opkit.sliding import Window
    >>> attribute((Window(5, before=2), None, Fraction(1, 3)), ConstantTable())
    '(Window(size=5, before=2), none, Fraction(1, 3))'
    """
    match x:
        case None:
            return "none"
        case bool():
            return str(x).lower()
        case int() | float():
            return repr(x)
        case str():
            return quoted(x)
        case bytes():
            return f"Bytes({table.refer(x)})"
        case Data():
            return f"Data({table.refer(x.raw)})"
        case Fraction():
            return f"Fraction({x.numerator}, {x.denominator})"
        case Enum():
            return f"{type(x).__name__}.{x.name}"
        case tuple():
            return _tuple(x, table)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return record(x, table)


def record(x: object, table: ConstantTable, *first: str) -> str:
    """The text of a record: `first`, then its fields by name."""
    if not is_dataclass(x) or isinstance(x, type):
        raise TypeError(f"{type(x).__name__} has no text form")
    told = (f for f in fields(x) if f.init and getattr(x, f.name) != f.default)
    items = (f"{f.name}={attribute(getattr(x, f.name), table)}" for f in told)
    return f"{type(x).__name__}({', '.join((*first, *items))})"


def _tuple(items: tuple[Any, ...], table: ConstantTable) -> str:
    if all(type(item) in (int, float) for item in items):
        return table.numbers(items)
    comma = "," if len(items) == 1 else ""
    return f"({', '.join(attribute(item, table) for item in items)}{comma})"
