"""Formats the reset entry as C: statements that set all states to their initial elements."""

from __future__ import annotations

from penstock.codegen.names import Names
from penstock.errors import InternalError
from penstock.program.program import Command, FillTensor, LoadTensor, Program, View


def reset_lines(program: Program, names: Names) -> str:
    """The body of the reset function: one statement per state."""
    return "\n".join(f"    {_statement(program, names, command)}" for command in program.reset)


def _statement(program: Program, names: Names, command: Command) -> str:
    match command:
        case FillTensor(target, byte):
            size = target.type.size_bytes
            return f"memset({_address(program, names, target)}, {byte}, {size});"
        case LoadTensor(target, source):
            constant = names.buffers[source.buffer]
            return f"memcpy({_address(program, names, target)}, {constant}, sizeof {constant});"
        case _:
            raise InternalError("codegen-007", f"a reset contains {command}")


def _address(program: Program, names: Names, view: View) -> str:
    """The address of a tensor that fills a buffer."""
    memory = names.memories[program.buffer(view.buffer).memory].name
    return f"{memory} + {names.buffers[view.buffer]}"
