"""disassemble: a stream as text."""

from __future__ import annotations

from penstock.accelerators.ethos_u.interpreter.commands import Command, commands_of


def disassemble(stream: bytes) -> str:
    """A line for each command: the offset of its first byte, its name and what its fields hold; an
    empty line behind each operation.  Raises BackendError where the stream is none."""
    return "".join(map(_line, commands_of(stream)))


def _line(command: Command) -> str:
    name, fields = command.format.name, command.fields
    shown = (
        f"{value:#x}" if "BASE" in name or name.endswith(("SRC", "DST")) else str(value)
        for value in fields.values()
    )
    if list(fields) == ["value"]:
        text = " ".join(shown)
    else:
        text = " ".join(f"{field}={value}" for field, value in zip(fields, shown, strict=True))
    end = "\n\n" if name.startswith("NPU_OP_") and not name.endswith("_WAIT") else "\n"
    return f"{4 * command.word:#08x} {name} {text}".rstrip() + end
