"""address_map: registers by name and address, and the encoding of their fields.

`nvdla_map.toml` lists NVDLA's own registers, `extension_map.toml` the registers of the units that
penstock adds to NVDLA.  In both, a table per unit gives the offset and the fields of each register.
A register is named UNIT.REGISTER and has 32 bits.
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
    """A field of a register: bits `low` to `high`, both included.  Its value is in two's complement
    if `signed`, otherwise unsigned."""

    name: str
    low: int
    high: int
    signed: bool = False

    @property
    def span(self) -> int:
        """The number of values that the field can hold: 256 for a field of 8 bits."""
        return 1 << (self.high - self.low + 1)

    @property
    def least(self) -> int:
        """The smallest value that the field can hold."""
        return -self.span // 2 if self.signed else 0

    @property
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

        values: values by field name.

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
    """Yield the registers that nvdla_map.toml and extension_map.toml list."""
    for file in FILES:
        units = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
        for unit, rows in units.items():
            base = rows.pop("base")
            for name, (offset, *fields) in rows.items():
                yield Register(f"{unit}.{name}", base + offset, tuple(map(_field, fields)))


def _field(text: str) -> Field:
    """Return the field that `text` defines, in the form "name high:low" or "name high:low
    signed"."""
    name, bits, *rest = text.split()
    high, low = map(int, bits.split(":"))
    return Field(name, low, high, rest == ["signed"])
