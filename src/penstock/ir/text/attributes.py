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

from penstock.errors import PenstockError
from penstock.ir.tensor import Data, TensorType
from penstock.scanner import Scanner, Token, TokenKind, quoted

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
    """Constants as lines `data @digest "base85"`, which `read_data_lines` reads."""
    return "".join(
        f'data @{name} "{base64.b85encode(raw).decode()}"\n' for name, raw in constants.items()
    )


def split_data_lines(text: str) -> tuple[str, dict[str, bytes]]:
    """The text without its `data` lines, and the constants that these lines contain, by digest.

    Raises ModelError if such a line is malformed."""
    body: list[str] = []
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.split("\n")):
        if not line.startswith("data @"):
            body.append(line)
            continue
        body.append("")
        scanner = Scanner("\n" * number + line)
        scanner.skip_newlines()
        scanner.expect_word("data")
        at = scanner.peek()
        name, encoded = scanner.digest(), scanner.string()
        scanner.end_statement()
        try:
            raw = base64.b85decode(encoded)
        except ValueError as error:
            raise scanner.error(f"the constant is not base85: {error}", at=at) from None
        if digest(raw) != name:
            raise scanner.error(f"the constant's digest is @{digest(raw)}, not @{name}", at=at)
        found[name] = raw
    return "\n".join(body), found


class ConstantReader:
    """Reads constants and tuples of numbers; digests are looked up in `constants`."""

    def __init__(self, scanner: Scanner, constants: Constants) -> None:
        self._scanner = scanner
        self._constants = constants

    def raw(self) -> bytes:
        """Parses a digest, and returns the bytes that it refers to."""
        at = self._scanner.peek()
        name = self._scanner.digest()
        if name not in self._constants:
            raise self._scanner.missing(f"constant @{name} is not known", at=at)
        return self._constants[name]

    def numbers(self) -> Numbers:
        """Parses a tuple of numbers; a single number is a tuple with one element."""
        scanner = self._scanner
        if scanner.peek().kind is TokenKind.DIGEST:
            at = scanner.peek()
            inner = Scanner(self._text(at.text))
            found: list[int | float] = []
            while not inner.at_end:
                found.append(inner.number())
            return tuple(found)
        if not scanner.accept("("):
            return (scanner.number(),)
        found = []
        while not scanner.accept(")"):
            found.append(scanner.number())
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return tuple(found)

    def data(self, type: TensorType) -> Data:
        """Parses the elements of a constant of a given type."""
        scanner = self._scanner
        at = scanner.peek()
        if at.kind is TokenKind.DIGEST:
            return Data(self.raw())
        numbers = self.numbers()
        if len(numbers) == 1:
            numbers *= type.elements
        if len(numbers) != type.elements:
            raise scanner.error(f"{len(numbers)} elements are given for {type}", at=at)
        try:
            given = np.array(numbers)
            elements = given.astype(type.dtype.value, casting="unsafe")
        except OverflowError:
            raise scanner.error(f"the elements do not fit {type}", at=at) from None
        if not np.array_equal(given, elements, equal_nan=True):
            raise scanner.error(f"the elements do not fit {type}", at=at)
        return Data.of(elements.reshape(type.shape))

    def _text(self, token: str) -> str:
        at = self._scanner.peek()
        try:
            return self.raw().decode("ascii")
        except UnicodeDecodeError:
            raise self._scanner.error(f"constant {token} holds no numbers", at=at) from None


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


Classes = Mapping[str, type]  # By name, the records and enumerations that a text may hold.

_WORDS = {"true": True, "false": False, "none": None}


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


class AttributeReader:
    """Reads attributes, of the classes given by name."""

    def __init__(self, scanner: Scanner, classes: Classes, constants: ConstantReader) -> None:
        self._scanner = scanner
        self._classes = classes
        self._constants = constants

    def attribute(self) -> Any:
        """One value.  Raises ModelError where something else comes next."""
        scanner = self._scanner
        match scanner.peek().kind:
            case TokenKind.NUMBER:
                return scanner.number()
            case TokenKind.STRING:
                return scanner.string()
            case TokenKind.DIGEST:
                return self._constants.numbers()
            case TokenKind.NAME:
                return self._named()
            case _ if scanner.is_symbol("-"):
                return scanner.number()
            case _:
                return self._tuple()

    def fields(self) -> dict[str, Any]:
        """Fields `name=value, ..` up to the closing parenthesis, which is taken."""
        scanner = self._scanner
        found: dict[str, object] = {}
        while not scanner.accept(")"):
            at = scanner.peek()
            name = scanner.name()
            if name in found:
                raise scanner.error(f'field "{name}" is given twice', at=at)
            scanner.expect("=")
            found[name] = self.attribute()
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return found

    def make(self, at: Token, arguments: Mapping[str, object]) -> Any:
        """The record of the class that a token names.  Raises ModelError where there is no such
        class, or it refuses the arguments."""
        found = self._classes.get(at.text)
        if found is None or not is_dataclass(found):
            raise self._scanner.unknown(f"no record is called {at}", at=at)
        known = {f.name for f in fields(found) if f.init}
        unknown = next((name for name in arguments if name not in known), None)
        if unknown is not None:
            raise self._scanner.unknown(f'{at.text} has no field "{unknown}"', at=at)
        try:
            return found(**arguments)
        except PenstockError as error:
            raise self._scanner.error(
                f"{at.text} refuses its fields: {error.what}", at=at
            ) from error
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self._scanner.error(f"{at.text} refuses its fields: {error}", at=at) from error

    def _named(self) -> object:
        scanner = self._scanner
        if scanner.is_word("inf", "nan"):
            return scanner.number()
        at = scanner.take()
        if at.text in _WORDS:
            return _WORDS[at.text]
        if not scanner.accept("("):
            return self._member(at)
        if at.text == "Fraction":
            return self._fraction(at)
        if at.text in ("Data", "Bytes"):
            raw = self._constants.raw()
            scanner.expect(")")
            return Data(raw) if at.text == "Data" else raw
        return self.make(at, self.fields())

    def _member(self, at: Token) -> Enum:
        name, _, member = at.text.partition(".")
        found = self._classes.get(name)
        if found is None or not issubclass(found, Enum) or member not in found.__members__:
            raise self._scanner.unknown(f"no member of an enumeration is called {at}", at=at)
        return found.__members__[member]

    def _fraction(self, at: Token) -> Fraction:
        numerator = self._scanner.integer()
        self._scanner.expect(",")
        denominator = self._scanner.integer()
        self._scanner.expect(")")
        if denominator == 0:
            raise self._scanner.error("the denominator is 0", at=at)
        return Fraction(numerator, denominator)

    def _tuple(self) -> tuple[object, ...]:
        scanner = self._scanner
        if not scanner.accept("("):
            raise scanner.unexpected("a value")
        items: list[object] = []
        while not scanner.accept(")"):
            items.append(self.attribute())
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return tuple(items)
