"""Conversion of command streams to text and back.

A line contains one command: the byte offset of the command, its name, and its fields as
`name=value`. The name of a field is omitted if it is "value":

    0x000008 NPU_SET_IFM_DEPTH_M1 15

An empty line follows each operation. When text is read, offsets and fields that are 0 may be
omitted; `#` begins a comment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from penstock.uma import BackendError
from penstock_ethos_u.interpreter.commands import (
    KIND,
    CommandFormat,
    RegisterCommand,
    decode_commands,
    formats,
)

ONLY = ["value"]
"""The field names of a command whose value is written without a name."""


def disassemble(stream: bytes) -> str:
    """Return a register command stream as text, one command per line. Raises BackendError if the
    stream is invalid."""
    return "".join(map(_line, decode_commands(stream)))


def assemble(text: str) -> bytes:
    """Return the register command stream that `text` describes, one command per line as written by
    `disassemble`. Raises BackendError if a line is not a command."""
    return b"".join(_words(text))


def _line(command: RegisterCommand) -> str:
    """Return a command as a line of text, followed by an empty line if it starts an operation."""
    name, fields = command.format.name, command.fields
    shown = {key: _number(name, value) for key, value in fields.items()}
    if list(fields) == ONLY:
        text = shown["value"]
    else:
        text = " ".join(f"{key}={value}" for key, value in shown.items())
    end = "\n\n" if name.startswith("NPU_OP_") and not name.endswith("_WAIT") else "\n"
    return f"{4 * command.word:#08x} {name} {text}".rstrip() + end


def _number(name: str, value: int) -> str:
    """Return the value of a field of command `name` as text, in hexadecimal if it is an address."""
    return f"{value:#x}" if "BASE" in name or name.endswith(("SRC", "DST")) else str(value)


def _words(text: str) -> Iterator[bytes]:
    """Yield the bytes of each command of a text that contains one command per line. Empty lines and
    comments yield nothing. Raises BackendError if a line is not a command."""
    by_name = {format.name: format for format in formats().values()}
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
    """Return the value of a command, composed of the values of its fields.

    settings: strings of the form "name=number", or "number" for the field named "value". Fields
        that are not set are 0.

    Raises KeyError if a field does not exist, ValueError if a number is invalid or does not fit its
    field."""
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
    """Return a command as bytes: one 32-bit word, or two if the format has a payload.

    value: the 16-bit parameter of the command; with a payload, parameter << 32 | payload."""
    if format.code & KIND:
        return struct.pack("<HHI", format.code, value >> 32, value & 0xFFFFFFFF)
    return struct.pack("<HH", format.code, value)
