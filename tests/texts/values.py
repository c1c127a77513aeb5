"""Readers of labels, constants and attributes in texts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.ir.tensor import Data, TensorType
from penstock.ir.text.attributes import Constants, Numbers, digest
from texts.scanner import Scanner, Token, TokenKind

Classes = Mapping[str, type]  # By name, the records and enumerations that a text may hold.

_WORDS = {"true": True, "false": False, "none": None}


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


class LabelReader:
    """Parses labels, and records the handles that declarations define."""

    def __init__(self, scanner: Scanner, names: Mapping[str, str] | None = None) -> None:
        """`names`: the names of handles that were defined earlier, by handle."""
        self._scanner = scanner
        self._names = dict(names or {})

    def declared(self) -> str:
        """Parses the declaration of a name."""
        scanner = self._scanner
        if scanner.peek().kind is not TokenKind.HANDLE:
            return scanner.name()
        handle = scanner.take().text
        if scanner.peek().kind is TokenKind.STRING or handle not in self._names:
            self._names[handle] = scanner.string()
        return self._names[handle]

    def name(self) -> str:
        """Parses a label, and returns the name that it refers to."""
        scanner = self._scanner
        at = scanner.peek()
        if at.kind is not TokenKind.HANDLE:
            return scanner.name()
        scanner.take()
        if at.text not in self._names:
            raise scanner.unknown(f"handle {at.text} is not declared", at=at)
        return self._names[at.text]
