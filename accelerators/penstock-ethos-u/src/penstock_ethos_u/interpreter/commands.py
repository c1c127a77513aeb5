"""Decoding of the words of a stream into named commands.

`registers.toml` defines the commands. A command consists of one or two words. The first contains
the command code and a 16-bit parameter, the optional second a 32-bit payload.
"""

from __future__ import annotations

import struct
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock.uma import BackendError

# Extraction of the command stream from a payload of Arm's driver.
#
# A payload is "COP1" or "COP2", followed by driver actions. The first word of an action contains
# its kind in bits 7:0. The command stream follows an action of kind `STREAM`, which contains the
# size of the stream in words. Source: ethosu_driver.c of Arm's ethos-u-core-driver.


MAGIC = (b"COP1", b"COP2")
CONFIGURE, STREAM, NOTHING = 1, 2, 5  # Kinds of driver actions.
# Number of words of an action, including its first word, by kind.
WORDS_OF = {CONFIGURE: 3, NOTHING: 1}


def driver_payload(payload: bytes) -> bytes:
    """Return the command stream in a payload of Arm's Ethos-U driver. Raises BackendError if the
    payload is invalid or contains no command stream."""
    if payload[:4] not in MAGIC or len(payload) % 4:
        raise _wrong(0, f"it begins with {payload[:4]!r}")
    words = np.frombuffer(payload, "<u4").tolist()
    at = 1
    while at < len(words):
        kind = words[at] & 0xFF
        if kind == STREAM:
            return _stream(payload, words[at], at + 1)
        if kind not in WORDS_OF:
            raise _wrong(at, f"there is no driver action {kind}")
        at += WORDS_OF[kind]
    raise _wrong(at, "it has no command stream")


def _stream(payload: bytes, action: int, at: int) -> bytes:
    """The command stream that begins at the 32-bit word with index `at` of a payload."""
    size = 4 * ((action >> 16) | (action & 0xFF00) << 8)
    if len(payload) < 4 * at + size:
        raise _wrong(at, f"its stream has {len(payload) - 4 * at} bytes of {size}")
    return payload[4 * at : 4 * at + size]


def _wrong(word: int, what: str) -> BackendError:
    return BackendError(
        "ethosu-102",
        what,
        where=f"a payload for Arm's Ethos-U driver, word {word}",
        why="a payload is COP1 or COP2 and driver actions, one of which is a command stream",
        help="pass a command stream that is not in a payload directly to execute()",
    )


U55, U85 = "u55", "u85"  # Families of NPUs by their registers; U65 has those of U55.
CODE = 0x3FF  # Mask of the command code in the first word.
# Mask of the bits of the first word that give the number of words: `ONE_WORD` or `TWO_WORDS`.
KIND = 0xC000
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
def formats(family: str) -> Mapping[int, CommandFormat]:
    """Return the formats of all commands of a family (`NpuHardware.family`), by code: bits 15:0 of
    a command's first word."""
    kinds = (("one_word", ONE_WORD), ("two_words", TWO_WORDS))
    own = tables().get(family, {})
    found = (
        CommandFormat(name, kind | code, tuple(map(_field, fields)))
        for source in (tables(), own)
        for table, kind in kinds
        for name, (code, *fields) in source.get(table, {}).items()
        if name not in own.get("absent", ())
    )
    return {format.code: format for format in found}


def choice(what: str, number: int, family: str = U55) -> Any:
    """Return the meaning of the value `number` of a register field, or None if the value is
    undefined.

    what: name of a list of meanings in section `choices` of `registers.toml`. For example, element
        1 of the list "rounding" is "truncate"."""
    own = tables().get(family, {}).get("choices", {})
    found = own.get(what) or tables()["choices"][what]
    return (found[number] or None) if number < len(found) else None


def decode_commands(stream: bytes, family: str = U55) -> Iterator[RegisterCommand]:
    """Yield the commands of a stream up to and including the stop command.

    family: family whose commands the stream consists of (`NpuHardware.family`).

    Raises BackendError if a word is not a command or if the stop command is missing.
    """
    if len(stream) % 4:
        raise wrong_stream(len(stream) // 4, f"{len(stream)} bytes are not a multiple of 4")
    words = np.frombuffer(stream, "<u4").tolist()
    at = 0
    while at < len(words):
        command, size = _command(words, at, family)
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
        why="a stream consists of commands of the NPU's family, of one or two 32-bit words",
        help=f"disassemble it up to that word; the last command must be {STOP}",
    )


def _command(words: list[int], at: int, family: str) -> tuple[RegisterCommand, int]:
    """The command whose first word has the index `at`, and its number of words. Raises
    BackendError if the words are not a command."""
    word = words[at]
    format = formats(family).get(word & (KIND | CODE))
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
    name, bits, *signed = text.split()
    high, low = map(int, bits.split(":"))
    return BitField(name, low, high, bool(signed))


# Conversion of command streams to text and back.
#
# A line contains one command: the byte offset of the command, its name, and its fields as
# `name=value`. The name of a field is omitted if it is "value":
#
#     0x000008 NPU_SET_IFM_DEPTH_M1 15
#
# An empty line follows each operation. When text is read, offsets and fields that are 0 may be
# omitted; `#` begins a comment.


ONLY = ["value"]  # The field names of a command whose value is written without a name.


def disassemble(stream: bytes, family: str = U55) -> str:
    """Return a register command stream as text, one command per line. Raises BackendError if the
    stream is invalid.

    family: family whose commands the stream consists of, "u55" (also for U65) or "u85"."""
    return "".join(map(_line, decode_commands(stream, family)))


def assemble(text: str, family: str = U55) -> bytes:
    """Return the register command stream that `text` describes, one command per line as written by
    `disassemble`. Raises BackendError if a line is not a command."""
    return b"".join(_words(text, family))


def _line(command: RegisterCommand) -> str:
    """A command as a line of text, followed by an empty line if it starts an operation."""
    name, fields = command.format.name, command.fields
    shown = {key: _number(name, value) for key, value in fields.items()}
    if list(fields) == ONLY:
        text = shown["value"]
    else:
        text = " ".join(f"{key}={value}" for key, value in shown.items())
    end = "\n\n" if name.startswith("NPU_OP_") and not name.endswith("_WAIT") else "\n"
    return f"{4 * command.word:#08x} {name} {text}".rstrip() + end


def _number(name: str, value: int) -> str:
    """The value of a field of command `name` as text, in hexadecimal if it is an address."""
    return f"{value:#x}" if "BASE" in name or name.endswith(("SRC", "DST")) else str(value)


def _words(text: str, family: str) -> Iterator[bytes]:
    """The bytes of each command of a text that contains one command per line. Empty lines and
    comments yield nothing. Raises BackendError if a line is not a command."""
    by_name = {format.name: format for format in formats(family).values()}
    for number, line in enumerate(text.splitlines(), 1):
        first, *rest = [*line.split("#")[0].split(), ""]
        words = rest[:-1] if first.startswith("0x") else [first, *rest[:-1]]
        if not any(words):
            continue
        try:
            format = by_name[words[0]]
            yield _packed(format, _value(format, words[1:]))
        except (KeyError, ValueError, struct.error) as error:
            raise BackendError(
                "ethosu-112",
                f"unknown command, field or value: {' '.join(words)}",
                where=f"text of a register command stream for Ethos-U, line {number}",
                why=f"{type(error).__name__}: {error}",
                help="write NAME field=value .., as disassemble() does",
            ) from error


def _value(format: CommandFormat, settings: list[str]) -> int:
    by_name = {field.name: field for field in format.fields}
    found = 0
    for setting in settings:
        name, equals, number = setting.rpartition("=")
        field = by_name[name if equals else "value"]
        value = int(number, 0)
        if not -field.span // 2 <= value < field.span:
            raise ValueError(f"{value} does not fit bits {field.high}:{field.low}")
        found |= (value % field.span) << field.low
    return found


def _packed(format: CommandFormat, value: int) -> bytes:
    """A command as bytes: one 32-bit word, or two if the format has a payload."""
    if format.code & KIND:
        return struct.pack("<HHI", format.code, value >> 32, value & 0xFFFFFFFF)
    return struct.pack("<HH", format.code, value)
