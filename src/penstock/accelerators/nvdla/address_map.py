"""address_map: registers by name and address, and the encoding of their fields.

`nvdla_map.toml` lists NVDLA's own registers and `extension_map.toml` those of the extension.  Both
are tables of units, which give each register an offset and fields.  A register is named
UNIT.REGISTER and has 32 bits.
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
"""The register that starts a unit."""


@dataclass(frozen=True, slots=True)
class Field:
    """Bits [low, high] of a register, inclusive; two's complement if `signed`."""

    name: str
    low: int
    high: int
    signed: bool = False

    @property
    def span(self) -> int:
        """The number of values."""
        return 1 << (self.high - self.low + 1)

    @property
    def least(self) -> int:
        """The smallest value."""
        return -self.span // 2 if self.signed else 0

    @property
    def most(self) -> int:
        """The largest value."""
        return self.least + self.span - 1

    def value(self, word: int) -> int:
        """The value of the field in a word."""
        found = (word >> self.low) % self.span
        return found - self.span if found > self.most else found


@dataclass(frozen=True, slots=True)
class Register:
    """A register and its fields; `address` in bytes."""

    name: str
    address: int
    fields: tuple[Field, ...]

    def word(self, values: Mapping[str, int]) -> int:
        """The word with the given fields; other fields are 0.

        Raises UnsupportedError if a value does not fit its field."""
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
                    help="split the layer, or run it on the CPU",
                )
            found |= value % field.span << field.low
        return found

    def values(self, word: int) -> dict[str, int]:
        """The values of all fields in a word.  Raises UnsupportedError if bits outside of any field
        are set."""
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
    """All registers by name, in order of addresses."""
    found = sorted(_read(), key=lambda register: register.address)
    return {register.name: register for register in found}


@lru_cache(maxsize=1)
def registers_by_address() -> Mapping[int, Register]:
    """All registers by address."""
    return {register.address: register for register in registers().values()}


def _read() -> Iterator[Register]:
    """The registers of a file."""
    for file in FILES:
        units = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
        for unit, rows in units.items():
            base = rows.pop("base")
            for name, (offset, *fields) in rows.items():
                yield Register(f"{unit}.{name}", base + offset, tuple(map(_field, fields)))


def _field(text: str) -> Field:
    """A field from its entry in a file."""
    name, bits, *rest = text.split()
    high, low = map(int, bits.split(":"))
    return Field(name, low, high, rest == ["signed"])
