"""Attributes: the text of the values that fields of operators hold.

    16  0.5  "text"  true  none     numbers, strings, truth values, no value
    (1, 2)  @c5029a71db5295a1       tuples; long tuples of numbers by digest
    Activation.RELU                 a member of an enumeration
    Window(size=5, before=2)        a record, without the fields that have their defaults
    Fraction(1, 3)  Data(@..)  Bytes(@..)

Records and enumerations are found by the names of their classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from penstock.errors import PenstockError
from penstock.ir.tensor import Data
from penstock.ir.text.constants import ConstantReader, ConstantTable
from penstock.scanner import Scanner, Token, TokenKind, quoted

Classes = Mapping[str, type]
"""By name, the records and enumerations that a text may hold."""

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
        found: dict[str, Any] = {}
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

    def make(self, at: Token, arguments: Mapping[str, Any]) -> Any:
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

    def _named(self) -> Any:
        """A word, a member of an enumeration, or a record."""
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

    def _tuple(self) -> tuple[Any, ...]:
        scanner = self._scanner
        if not scanner.accept("("):
            raise scanner.unexpected("a value")
        items: list[Any] = []
        while not scanner.accept(")"):
            items.append(self.attribute())
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return tuple(items)
