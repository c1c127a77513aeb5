"""bindings: conversion of records to register words and back.

A `Bindings` lists the register fields that encode a record.  The `chosen` fields, and the pairs of
fields that hold `addresses`, contain attributes with which the record is constructed.  An `implied`
field contains an attribute that follows from these, such as the number of output rows.  Fields that
are not listed are 0.

Decoding constructs a record from the chosen fields and the addresses.  It then encodes this record,
and requires every given register word to equal the result, so both directions always agree.

Attributes of nested records are named by dotted paths, such as `padding.top`, elements of tuples by
their index, such as `sums.0`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, get_origin, get_type_hints

from penstock.uma import UnsupportedError

# Registers by name and address, and the encoding of their fields.
#
# A table per unit gives the offset and the fields of each register.  A register is named
# UNIT.REGISTER and has 32 bits.


FILE = "nvdla_map.toml"
ENABLE = "D_OP_ENABLE"  # The register that starts a unit.


@dataclass(frozen=True)
class Field:
    """A field of a register: bits `low` to `high`, both included.  Its value is in two's complement
    if `signed`, otherwise unsigned."""

    name: str
    low: int
    high: int
    signed: bool = False

    @cached_property
    def span(self) -> int:
        """The number of values that the field can hold: 256 for a field of 8 bits."""
        return 1 << (self.high - self.low + 1)

    @cached_property
    def least(self) -> int:
        """The smallest value that the field can hold."""
        return -self.span // 2 if self.signed else 0

    @cached_property
    def most(self) -> int:
        """The largest value that the field can hold."""
        return self.least + self.span - 1

    def value(self, word: int) -> int:
        """Extract the value of this field from the register word `word`."""
        found = (word >> self.low) % self.span
        return found - self.span if found > self.most else found


@dataclass(frozen=True, slots=True)
class Register:
    """A register, named UNIT.REGISTER: its address in bytes and its fields."""

    name: str
    address: int
    fields: tuple[Field, ...]

    def word(self, values: Mapping[str, int]) -> int:
        """Return the register word whose fields have the given values; all other fields are 0.

        Raises UnsupportedError if a value does not fit its field."""
        found = 0
        for field in self.fields:
            found |= self.bits(field, values.get(field.name, 0))
        return found

    def bits(self, field: Field, value: int) -> int:
        """Return the register word in which one field has the given value; all others are 0.

        Raises UnsupportedError if the value does not fit the field."""
        if field.least <= value <= field.most:
            return value % field.span << field.low
        raise UnsupportedError(
            "nvdla-003",
            f"{self.name}.{field.name} would be {value}, must be from {field.least} to "
            f"{field.most}",
            where="a hardware layer of NVDLA",
            why="the register has no more bits for it",
            help="split the layer, or run it on the CPU",
        )

    def values(self, word: int) -> dict[str, int]:
        """Return the values of all fields in a register word, by field name.  Raises
        UnsupportedError if bits outside the fields are set."""
        found = {field.name: field.value(word) for field in self.fields}
        if self.word(found) != word:
            raise UnsupportedError(
                "nvdla-004",
                f"{self.name} is {word:#x}, which sets bits outside its fields",
                where="registers of NVDLA",
                why="fields are " + ", ".join(f"{f.name} {f.high}:{f.low}" for f in self.fields),
                help="clear the other bits",
            )
        return found


@lru_cache(maxsize=1)
def registers() -> Mapping[str, Register]:
    """Return a mapping from the name of each register to the register, in the order of
    addresses."""
    found = sorted(_read(), key=lambda register: register.address)
    return {register.name: register for register in found}


@lru_cache(maxsize=1)
def registers_by_address() -> Mapping[int, Register]:
    """Return a mapping from the address of each register, in bytes, to the register, in the order
    of addresses."""
    return {register.address: register for register in registers().values()}


def _read() -> Iterator[Register]:
    units = tomllib.loads(Path(__file__).with_name(FILE).read_text("utf-8"))
    for unit, rows in units.items():
        base = rows.pop("base")
        for name, (offset, *bits) in rows.items():
            yield Register(f"{unit}.{name}", base + offset, tuple(map(_field, bits)))


def _field(text: str) -> Field:
    name, bits, *rest = text.split()
    high, low = map(int, bits.split(":"))
    return Field(name, low, high, rest == ["signed"])


Record = TypeVar("Record")
Words = Mapping[str, int]  # Register words, by the register's name UNIT.REGISTER.
WORD = 1 << 32


@dataclass(frozen=True)
class Bindings(Generic[Record]):
    """The encoding of records of class `kind` as register words, for both directions.

    Below, "field" is the name of a register field, UNIT.REGISTER.field, and "attribute" is the path
    of an attribute of the record, such as `padding.top`.

    units: the names of the units whose registers are encoded.
    chosen: (field, attribute, offset) of each attribute that decoding reads from its field.  The
        field holds attribute - offset; registers often hold a size minus 1, which is offset 1.
    implied: (field, attribute, offset) of each attribute that the record derives from the chosen
        ones.  The field holds attribute - offset; decoding only checks it.
    addresses: (UNIT.REGISTER, field name, attribute) of each 64-bit address, which two registers
        hold.  In both names, {} stands for the half: HIGH or LOW in the name of the register, high
        or low in the name of the field.
    constant: maps each field whose value is the same for all records to this value.
    absent: maps an attribute to the value that its field is assumed to have if the words to be
        decoded do not include the register of this field.  Without an entry, this value is 0.
    only_listed: whether only registers with a listed field belong to the record, rather than all
        registers of the units.
    left_out: registers of the units that belong to other records."""

    kind: type[Record]
    units: tuple[str, ...]
    chosen: tuple[tuple[str, str, int], ...]
    implied: tuple[tuple[str, str, int], ...]
    addresses: tuple[tuple[str, str, str], ...]
    constant: Words
    absent: Words
    only_listed: bool = False
    left_out: frozenset[str] = frozenset()

    def encode(self, record: Record) -> dict[str, int]:
        """Return the words that encode a record, by register name.  The result covers all registers
        of the record (`names`).

        Raises UnsupportedError if an attribute of the record does not fit its register field."""
        words = dict.fromkeys(self.names, 0)
        for register, field, value in self._values:
            words[register.name] |= register.bits(field, value(record))
        return words

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the registers that `encode` sets; registers that start a unit are not among
        them."""
        return tuple(filter(self._owns, registers()))

    @cached_property
    def _values(self) -> tuple[tuple[Register, Field, Callable[[Record], int]], ...]:
        """(register, field, function from a record to the value of the field)."""
        found: dict[str, Callable[[Record], int]] = {}
        for place, path, less in (*self.chosen, *self.implied):
            found[place] = partial(_difference, path.split("."), less)
        for register, field, path in self.addresses:
            for half, shift in (("low", 0), ("high", 32)):
                place = f"{register.format(half.upper())}.{field.format(half)}"
                found[place] = partial(_half, path.split("."), shift)
        for place, value in self.constant.items():
            found[place] = partial(_constant, value)
        return tuple(
            (register, field, found[f"{register.name}.{field.name}"])
            for register in map(registers().__getitem__, self.names)
            for field in register.fields
            if f"{register.name}.{field.name}" in found
        )

    def decode(self, words: Words, **more: object) -> Record:
        """Return the record that register words encode.

        words: the words by register name; registers of other units are ignored.
        more: the attributes of the record that no register stores, by name.

        Raises UnsupportedError if a given word differs from the encoding of the resulting record,
        or sets bits outside the fields of its register.  Errors of the record's constructor are
        passed on."""
        own = {name: word for name, word in words.items() if self._owns(name)}
        values = {name: registers()[name].values(word) for name, word in own.items()}
        tree: dict[str, Any] = dict(more)
        for place, path, less in self.chosen:
            register, _, field = place.rpartition(".")
            value = values[register][field] if register in values else self.absent.get(path, 0)
            _set_path(tree, path, value + less)
        for register, field, path in self.addresses:
            high, low = (
                values.get(register.format(half.upper()), {}).get(field.format(half), 0)
                for half in ("high", "low")
            )
            _set_path(tree, path, high * WORD + low)
        record = _build(self.kind, tree)
        self._compare(record, own)
        return record

    def _owns(self, name: str) -> bool:
        """Whether `name` is a parameter register (prefix D_) of the record, other than a
        register that starts a unit."""
        unit, _, register = name.partition(".")
        if unit not in self.units or not register.startswith("D_") or register == ENABLE:
            return False
        return name not in self.left_out and (not self.only_listed or name in self._listed)

    @cached_property
    def _listed(self) -> frozenset[str]:
        places = [place for place, _, _ in (*self.chosen, *self.implied)] + list(self.constant)
        halves = {
            register.format(half) for register, _, _ in self.addresses for half in ("LOW", "HIGH")
        }
        return frozenset(place.rpartition(".")[0] for place in places) | halves

    def _compare(self, record: Record, found: Words) -> None:
        """Raise UnsupportedError if a register word in `found` differs from the encoding of
        `record`."""
        expected = self.encode(record)
        for name, word in found.items():
            if word != expected[name]:
                raise UnsupportedError(
                    "nvdla-008",
                    f"{name} is {word:#x}, must be {expected[name]:#x}",
                    where=str(record),
                    why="the value must agree with the other registers, and the function must be "
                    "supported",
                    help="correct the register program",
                )


def _build(kind: type[Record], tree: Mapping[str, Any]) -> Record:
    made: dict[str, Any] = {}
    for name, type in _attribute_types(kind).items():
        if name in tree:
            value = tree[name]
            if isinstance(value, dict) and get_origin(type) is tuple:
                value = tuple(cast(dict[str, int], value).values())
            elif isinstance(value, dict):
                value = _build(type, cast(dict[str, Any], value))
            elif type is bool:
                value = bool(value)
            elif issubclass(type, Enum):
                value = _member(type, name, value)
            made[name] = value
    return kind(**made)


def _member(type: type[Enum], name: str, value: int) -> Enum:
    """The member of an enumeration whose code a register field holds for attribute `name`."""
    try:
        return type(value)
    except ValueError:
        raise UnsupportedError(
            "nvdla-008",
            f"the code of {name} is {value}, must be one of {[int(one.value) for one in type]}",
            where="a stream of register writes for NVDLA",
            why="the hardware defines no other",
            help="correct the register program",
        ) from None


@cache
def _attribute_types(kind: type[Any]) -> Mapping[str, type[Any]]:
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind)}


def _difference(path: Sequence[str], less: int, record: object) -> int:
    return _attribute(record, path) - less


def _half(path: Sequence[str], shift: int, record: object) -> int:
    return (_attribute(record, path) >> shift) % WORD


def _constant(value: int, record: object) -> int:
    del record
    return value


def _attribute(record: object, path: Sequence[str]) -> int:
    found = record
    for name in path:
        if isinstance(found, tuple):
            found = cast(tuple[int, ...], found)[int(name)]
        else:
            found = getattr(found, name)
    return int(cast(int, found))


def _set_path(tree: dict[str, Any], path: str, value: int) -> None:
    """Store the value of an attribute in nested mappings: the path "padding.top" sets
    tree["padding"]["top"], the path "width" sets tree["width"].  A path has at most one dot."""
    group, _, name = path.rpartition(".")
    (tree.setdefault(group, {}) if group else tree)[name] = value
