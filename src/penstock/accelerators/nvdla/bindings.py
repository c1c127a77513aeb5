"""bindings: bidirectional encoding of records as register words.

A `Bindings` defines, for both directions, the register field that holds each attribute of a record
(`chosen`), and the fields whose values are derived from the record (`implied`).  Decoding reads the
chosen fields and requires every other field to equal its encoding, so both directions always agree.
Fields without a binding are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Generic, TypeVar

from penstock.accelerators.nvdla.address_map import ENABLE, registers
from penstock.uma import UnsupportedError

Record = TypeVar("Record")
Words = Mapping[str, int]
"""Register words, by the register's name UNIT.REGISTER."""
WORD = 1 << 32


@dataclass(frozen=True)
class Bindings(Generic[Record]):
    """The encoding of records of one class.

    chosen      (field, path of the part that it holds, offset to subtract)
    implied     as `chosen`, for values that follow from the chosen ones
    addresses   (register, field, path), with {} for HIGH and LOW, or high and low
    constant    words of fields that are the same for all records
    absent      the value of a part if its register is absent, if not 0
    types       the records and enumerations that are parts of a record, by name
    """

    kind: type[Record]
    units: tuple[str, ...]
    chosen: tuple[tuple[str, str, int], ...]
    implied: tuple[tuple[str, str, int], ...]
    addresses: tuple[tuple[str, str, str], ...]
    constant: Words
    absent: Words
    types: Mapping[str, type[Any]]

    def encode(self, record: Record) -> dict[str, int]:
        """The words of all registers of the units, except those that start them.

        Raises UnsupportedError if a value does not fit its field."""
        found: dict[str, dict[str, int]] = {}
        for place, path, less in (*self.chosen, *self.implied):
            _put(found, place, int(attrgetter(path)(record)) - less)
        for register, field, path in self.addresses:
            address = attrgetter(path)(record)
            for half, value in (("low", address % WORD), ("high", address // WORD)):
                _put(found, f"{register.format(half.upper())}.{field.format(half)}", value)
        for place, value in self.constant.items():
            _put(found, place, value)
        return {name: registers()[name].word(found.get(name, {})) for name in self.names()}

    def names(self) -> tuple[str, ...]:
        """All registers of the units, except those that start them."""
        return tuple(filter(self._owns, registers()))

    def decode(self, words: Words, **more: object) -> Record:
        """The record that register words encode; words of other units are ignored.  `more` holds
        attributes that no register stores.

        Raises UnsupportedError if the words contradict each other, and any error of the record's
        constructor."""
        own = {name: word for name, word in words.items() if self._owns(name)}
        values = {name: registers()[name].values(word) for name, word in own.items()}
        tree: dict[str, Any] = dict(more)
        for place, path, less in self.chosen:
            register, _, field = place.rpartition(".")
            value = values[register][field] if register in values else self.absent.get(path, 0)
            _hang(tree, path, value + less)
        for register, field, path in self.addresses:
            high, low = (
                values.get(register.format(half.upper()), {}).get(field.format(half), 0)
                for half in ("high", "low")
            )
            _hang(tree, path, high * WORD + low)
        record = self._built(self.kind, tree)
        self._compare(record, own)
        return record

    def _owns(self, name: str) -> bool:
        unit, _, register = name.partition(".")
        return unit in self.units and register.startswith("D_") and register != ENABLE

    def _compare(self, record: Record, found: Words) -> None:
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

    def _built(self, kind: type[Any], tree: Mapping[str, Any]) -> Any:
        """A record from a tree of values, with nested records."""
        made: dict[str, Any] = {}
        for field in (field for field in fields(kind) if field.name in tree):
            value, type_name = tree[field.name], str(field.type)
            if isinstance(value, dict):
                made[field.name] = self._built(self.types[type_name], value)
            elif type_name == "bool":
                made[field.name] = bool(value)
            else:
                made[field.name] = self.types.get(type_name, _as_it_is)(value)
        return kind(**made)


def _as_it_is(value: Any) -> Any:
    return value


def _put(found: dict[str, dict[str, int]], place: str, value: int) -> None:
    register, _, field = place.rpartition(".")
    found.setdefault(register, {})[field] = value


def _hang(tree: dict[str, Any], path: str, value: int) -> None:
    group, _, name = path.rpartition(".")
    (tree.setdefault(group, {}) if group else tree)[name] = value
