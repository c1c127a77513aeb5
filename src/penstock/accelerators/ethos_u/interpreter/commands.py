"""commands: the words of a stream as commands by name, and what commands there are.

`registers.toml` holds them.  A command is one word, or two; the first has the code and 16 bits of
parameter, the second is 32 bits of payload.
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
KIND = 0xC000
ONE_WORD, TWO_WORDS = 0x0000, 0x4000
STOP = "NPU_OP_STOP"


@dataclass(frozen=True, slots=True)
class Field:
    """Bits of a command's value, [low, high]; two's complement where `signed`."""

    name: str
    low: int
    high: int
    signed: bool

    @property
    def span(self) -> int:
        """How many values there are."""
        return 1 << (self.high - self.low + 1)

    def of(self, value: int) -> int:
        """What the field holds."""
        found = (value >> self.low) % self.span
        return found - self.span if self.signed and found >= self.span // 2 else found


@dataclass(frozen=True, slots=True)
class Format:
    """A command that there is: its name, code with kind, and fields of its value."""

    name: str
    code: int
    fields: tuple[Field, ...]

    @property
    def mask(self) -> int:
        """The bits of its value that belong to a field."""
        return sum((field.span - 1) << field.low for field in self.fields)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a stream: the offset of its first word, its format, and its value; that has 16
    bits, or 48 with a payload: that, and the parameter above it."""

    word: int
    format: Format
    value: int

    @property
    def fields(self) -> dict[str, int]:
        """What its fields hold, by name."""
        return {field.name: field.of(self.value) for field in self.format.fields}


@lru_cache
def tables() -> Mapping[str, Any]:
    """All that `registers.toml` says."""
    return tomllib.loads(Path(__file__).with_name("registers.toml").read_text("utf-8"))


@lru_cache
def formats() -> Mapping[int, Format]:
    """Every command that there is, by code with kind."""
    kinds = (("one_word", ONE_WORD), ("two_words", TWO_WORDS))
    found = (
        Format(name, kind | code, tuple(map(_field, fields)))
        for table, kind in kinds
        for name, (code, *fields) in tables()[table].items()
    )
    return {format.code: format for format in found}


def choice(what: str, number: int) -> Any:
    """The value of a field by what it means; None where it means nothing."""
    found = tables()["choices"][what]
    return found[number] if number < len(found) else None


def commands_of(stream: bytes) -> Iterator[Command]:
    """The commands of a stream, up to the one that stops it.

    Raises BackendError where a word is none, or none stops the stream."""
    if len(stream) % 4:
        raise wrong_stream(len(stream) // 4, f"it has {len(stream)} bytes, no multiple of 4")
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
    """A stream that is none."""
    return BackendError(
        "ethosu-101",
        what,
        where=f"a register command stream for Ethos-U, word {word} (byte {4 * word:#x})",
        why="a stream is commands of one or two words of 32 bits that Ethos-U55 and U65 know",
        help=f"disassemble it up to there; the last command is {STOP}",
    )


def _command(words: list[int], at: int) -> tuple[Command, int]:
    """The command that begins at a word, and its size in words."""
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
    return Command(at, format, value), size


def _field(text: str) -> Field:
    name, bits, *signed = text.split()
    high, low = map(int, bits.split(":"))
    return Field(name, low, high, bool(signed))
