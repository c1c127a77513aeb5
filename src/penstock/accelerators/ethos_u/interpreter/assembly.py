"""disassemble and assemble: a stream as text, and back.

A line is a command: the offset of its first byte, its name, and what its fields hold, `name=value`,
or just the value where there is one field called value.  An empty line ends an operation.  Offsets
are left out where text is written by hand, and so are fields that hold 0; `#` begins a comment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from penstock.accelerators.ethos_u.interpreter.commands import (
    KIND,
    Command,
    Format,
    commands_of,
    formats,
)
from penstock.uma import BackendError

ONLY = ["value"]
"""Fields of a command whose value stands alone."""


def disassemble(stream: bytes) -> str:
    """The text of a stream.  Raises BackendError where the stream is none."""
    return "".join(map(_line, commands_of(stream)))


def assemble(text: str) -> bytes:
    """The stream of a text.  Raises BackendError where a line is no command."""
    return b"".join(_words(text))


def _line(command: Command) -> str:
    name, fields = command.format.name, command.fields
    shown = {key: _number(name, value) for key, value in fields.items()}
    if list(fields) == ONLY:
        text = shown["value"]
    else:
        text = " ".join(f"{key}={value}" for key, value in shown.items())
    end = "\n\n" if name.startswith("NPU_OP_") and not name.endswith("_WAIT") else "\n"
    return f"{4 * command.word:#08x} {name} {text}".rstrip() + end


def _number(name: str, value: int) -> str:
    """Addresses in hexadecimal."""
    return f"{value:#x}" if "BASE" in name or name.endswith(("SRC", "DST")) else str(value)


def _words(text: str) -> Iterator[bytes]:
    """The words of every line that has a command."""
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
                f"there is no such command, field or value: {' '.join(words)}",
                where=f"text of a register command stream for Ethos-U, line {number}",
                why=f"{type(error).__name__}: {error}",
                help="write NAME field=value .., as disassemble() does",
            ) from error


def _value(format: Format, settings: list[str]) -> int:
    """Fields as one value.  Raises KeyError or ValueError."""
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


def _packed(format: Format, value: int) -> bytes:
    if format.code & KIND:
        return struct.pack("<HHI", format.code, value >> 32, value & 0xFFFFFFFF)
    return struct.pack("<HH", format.code, value)
