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
    """A field of a command: bits `low` to `high`, inclusive, of the command's value
    (`RegisterCommand.value`), in two's complement if `signed`."""

    name: str
    low: int
    high: int
    signed: bool

    @property
    def span(self) -> int:
        """Number of distinct values of the field."""
        return 1 << (self.high - self.low + 1)

    def extract(self, value: int) -> int:
        """Extract this field from the value of a command."""
        found = (value >> self.low) % self.span
        return found - self.span if self.signed and found >= self.span // 2 else found


@dataclass(frozen=True, slots=True)
class CommandFormat:
    """The format of a command. `code` consists of bits 15:0 of the first word: the command code
    (9:0) and the number of words (15:14; `ONE_WORD` or `TWO_WORDS`)."""

    name: str
    code: int
    fields: tuple[BitField, ...]

    @property
    def mask(self) -> int:
        """Mask of the bits of a command's value that belong to a field."""
        return sum((field.span - 1) << field.low for field in self.fields)


@dataclass(frozen=True, slots=True)
class RegisterCommand:
    """A command of a stream.

    word: index of its first word in the stream.
    value: the 16-bit parameter; if the command has a 32-bit payload, parameter << 32 | payload.
    """

    word: int
    format: CommandFormat
    value: int

    @property
    def fields(self) -> dict[str, int]:
        """Values of the fields, by name."""
        return {field.name: field.extract(self.value) for field in self.format.fields}


@lru_cache
def tables() -> Mapping[str, Any]:
    """Return the contents of `registers.toml`."""
    return tomllib.loads(Path(__file__).with_name("registers.toml").read_text("utf-8"))


@lru_cache
def formats() -> Mapping[int, CommandFormat]:
    """Return the format of every command, by `CommandFormat.code`."""
    kinds = (("one_word", ONE_WORD), ("two_words", TWO_WORDS))
    found = (
        CommandFormat(name, kind | code, tuple(map(_field, fields)))
        for table, kind in kinds
        for name, (code, *fields) in tables()[table].items()
    )
    return {format.code: format for format in found}


def choice(what: str, number: int) -> Any:
    """Return the meaning of the value `number` of a field, or None if that value is undefined.
    `what` is the name of a list in section `choices` of `registers.toml`, which contains the
    meanings by value."""
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
    """Return the command whose first word has index `at`, and its number of words."""
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
    """Return the field that a text of the form "name high:low" or "name high:low signed"
    defines."""
    name, bits, *signed = text.split()
    high, low = map(int, bits.split(":"))
    return BitField(name, low, high, bool(signed))
