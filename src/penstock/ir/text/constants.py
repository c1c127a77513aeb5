"""Constants by digest: how texts refer to long data and long tuples of numbers.

A digest is the first 16 hexadecimal digits of the SHA-256 of bytes: of the elements of a constant
tensor, or of a tuple of numbers spelled out with blanks between them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

import numpy as np

from penstock.ir.tensor import Data, TensorType
from penstock.scanner import Scanner, TokenKind

Constants = Mapping[str, bytes]
"""The contents of constants, by digest."""

MAX_INLINE = 8
"""Tuples of more numbers, and constants of more elements, are shown by digest .."""
MAX_INLINE_LETTERS = 48
""".. and so are those whose text is longer."""
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
