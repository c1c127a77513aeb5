"""address_map: registers by name and address, and words of their fields.

`nvdla_map.toml` holds NVDLA's own registers, `extension_map.toml` ours; both are tables of units,
each register with its offset and fields.  Registers are named UNIT.REGISTER and have 32 bits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.uma import UnsupportedError

FILES = ("nvdla_map.toml", "extension_map.toml")
ENABLE = "D_OP_ENABLE"
"""The register of every unit that starts it."""


@dataclass(frozen=True, slots=True)
class Field:
    """Bits of a register, [low, high]; two's complement where `signed`."""

    name: str
    low: int
    high: int
    signed: bool = False

    @property
    def span(self) -> int:
        """How many values there are."""
        return 1 << (self.high - self.low + 1)

    @property
    def least(self) -> int:
        """The least value."""
        return -self.span // 2 if self.signed else 0

    @property
    def most(self) -> int:
        """The greatest value."""
        return self.least + self.span - 1

    def value(self, word: int) -> int:
        """What stands in a register's word."""
        found = (word >> self.low) % self.span
        return found - self.span if found > self.most else found


@dataclass(frozen=True, slots=True)
class Register:
    """A register and its fields; `address` in bytes."""

    name: str
    address: int
    fields: tuple[Field, ...]

    def word(self, values: Mapping[str, int]) -> int:
        """The word of some fields; the others are 0.

        Raises UnsupportedError where a value does not fit."""
        found = 0
        for field in self.fields:
            value = values.get(field.name, 0)
            if not field.least <= value <= field.most:
                raise UnsupportedError(
                    "nvdla-003",
                    f"{self.name}.{field.name} would be {value}, must be from {field.least} to "
                    f"{field.most}",
                    where="a hardware layer of NVDLA",
                    why="the register has no more bits for it",
                    help="cut the layer, or run it elsewhere",
                )
            found |= value % field.span << field.low
        return found

    def values(self, word: int) -> dict[str, int]:
        """The fields of a word.  Raises UnsupportedError where bits of no field are set."""
        found = {field.name: field.value(word) for field in self.fields}
        if self.word(found) != word:
            raise UnsupportedError(
                "nvdla-004",
                f"{self.name} is {word:#x}, and has bits that belong to no field",
                where="registers of NVDLA",
                why="fields are " + ", ".join(f"{f.name} {f.high}:{f.low}" for f in self.fields),
                help="clear the other bits",
            )
        return found


@lru_cache(maxsize=1)
def registers() -> Mapping[str, Register]:
    """Every register by name, in order of addresses."""
    found = sorted(_read(), key=lambda register: register.address)
    return {register.name: register for register in found}


@lru_cache(maxsize=1)
def registers_by_address() -> Mapping[int, Register]:
    """Every register by address."""
    return {register.address: register for register in registers().values()}


def _read() -> Iterator[Register]:
    for file in FILES:
        units = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
        for unit, rows in units.items():
            base = rows.pop("base")
            for name, (offset, *fields) in rows.items():
                yield Register(f"{unit}.{name}", base + offset, tuple(map(_field, fields)))


def _field(text: str) -> Field:
    name, bits, *rest = text.split()
    high, low = map(int, bits.split(":"))
    return Field(name, low, high, rest == ["signed"])
