"""Decoding of the words of a stream into named commands.

`registers.toml` defines the commands. A command consists of one or two words. The first contains
the command code and a 16-bit parameter, the optional second a 32-bit payload.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock.uma import BackendError

CODE = 0x3FF
"""Mask of the command code in the first word."""
KIND = 0xC000
"""Mask of the bits of the first word that give the number of words: `ONE_WORD` or `TWO_WORDS`."""
ONE_WORD, TWO_WORDS = 0x0000, 0x4000
STOP = "NPU_OP_STOP"


@dataclass(frozen=True, slots=True)
class BitField:
    """A bit field in the value of a command: bits `low` to `high`, inclusive, in two's complement
    if `signed` is True.

    The value of a command is its 16-bit parameter; with a 32-bit payload, parameter << 32 |
    payload."""

    name: str
    low: int
    high: int
    signed: bool

    @property
    def span(self) -> int:
        """Number of values that the field can represent: 2 to the power of its number of bits."""
        return 1 << (self.high - self.low + 1)

    def extract(self, value: int) -> int:
        """Return the value of this field, where `value` is the value of the whole command."""
        found = (value >> self.low) % self.span
        return found - self.span if self.signed and found >= self.span // 2 else found


@dataclass(frozen=True, slots=True)
class CommandFormat:
    """The format of a command.

    name: name of the command, for example NPU_SET_KERNEL_STRIDE.
    code: bits 15:0 of the first word. Bits 9:0 identify the command; bits 15:14 are 0 for a command
        of one word, 1 for a command of two words.
    fields: the bit fields of the command's value."""

    name: str
    code: int
    fields: tuple[BitField, ...]

    @property
    def mask(self) -> int:
        """Bit mask for the command's value, with a 1 for every bit that belongs to a field."""
        return sum((field.span - 1) << field.low for field in self.fields)


@dataclass(frozen=True, slots=True)
class RegisterCommand:
    """A command of a stream.

    word: index of the command's first 32-bit word in the stream.
    format: the name, code and fields of the command.
    value: the 16-bit parameter; if the command has a 32-bit payload, parameter << 32 | payload."""

    word: int
    format: CommandFormat
    value: int

    @property
    def fields(self) -> dict[str, int]:
        """Values of the command's fields, by name of the field."""
        return {field.name: field.extract(self.value) for field in self.format.fields}


@lru_cache
def tables() -> Mapping[str, Any]:
    """Return the contents of `registers.toml`: tables by name, such as "choices"."""
    return tomllib.loads(Path(__file__).with_name("registers.toml").read_text("utf-8"))


@lru_cache
def formats() -> Mapping[int, CommandFormat]:
    """Return the formats of all commands, by code: bits 15:0 of a command's first word."""
    kinds = (("one_word", ONE_WORD), ("two_words", TWO_WORDS))
    found = (
        CommandFormat(name, kind | code, tuple(map(_field, fields)))
        for table, kind in kinds
        for name, (code, *fields) in tables()[table].items()
    )
    return {format.code: format for format in found}


def choice(what: str, number: int) -> Any:
    """Return the meaning of the value `number` of a register field, or None if the value is
    undefined.

    what: name of a list of meanings in section `choices` of `registers.toml`. For example, element
        1 of the list "rounding" is "truncate"."""
    found = tables()["choices"][what]
    return found[number] if number < len(found) else None


def decode_commands(stream: bytes) -> Iterator[RegisterCommand]:
    """Yield the commands of a stream up to and including the stop command.

    Raises BackendError if a word is not a command or if the stop command is missing.
    """
    if len(stream) % 4:
        raise wrong_stream(len(stream) // 4, f"{len(stream)} bytes are not a multiple of 4")
    words = np.frombuffer(stream, "<u4").tolist()
    at = 0
    while at < len(words):
        command, size = _command(words, at)
        yield command
        if command.format.name == STOP:
            return
        at += size
    raise wrong_stream(at, f"it ends without {STOP}")


def wrong_stream(word: int, what: str) -> BackendError:
    """Return the error for an invalid stream.

    word: index of the invalid word.
    what: description of the fault."""
    return BackendError(
        "ethosu-101",
        what,
        where=f"a register command stream for Ethos-U, word {word} (byte {4 * word:#x})",
        why="a stream consists of commands of Ethos-U55 and U65, of one or two 32-bit words",
        help=f"disassemble it up to that word; the last command must be {STOP}",
    )


def _command(words: list[int], at: int) -> tuple[RegisterCommand, int]:
    """Return the command whose first word has the index `at`, and its number of words. Raises
    BackendError if the words are not a command."""
    word = words[at]
    format = formats().get(word & (KIND | CODE))
    if format is None or word & 0xFFFF & ~(KIND | CODE):
        raise wrong_stream(at, f"there is no command {word & 0xFFFF:#06x}")
    value, size = word >> 16, 1
    if format.code & KIND == TWO_WORDS:
        if at + 1 == len(words):
            raise wrong_stream(at, f"{format.name} has no payload")
        value, size = value << 32 | words[at + 1], 2
    if value & ~format.mask:
        raise wrong_stream(at, f"{format.name} {value:#x} has bits of no field")
    return RegisterCommand(at, format, value), size


def _field(text: str) -> BitField:
    """Return the field that `text` defines, in the form "name high:low" or "name high:low
    signed"."""
    name, bits, *signed = text.split()
    high, low = map(int, bits.split(":"))
    return BitField(name, low, high, bool(signed))
