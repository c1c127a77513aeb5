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
            constant, address = names.buffers[source.buffer], _address(program, names, target)
            times = target.type.size_bytes // source.type.size_bytes
            if times == 1:
                return f"memcpy({address}, {constant}, sizeof {constant});"
            place = f"{address} + k * sizeof {constant}"
            return (
                f"for (size_t k = 0; k < {times}; k++) {{\n"
                f"        memcpy({place}, {constant}, sizeof {constant});\n    }}"
            )
        case _:
            raise InternalError("codegen-007", f"a reset contains {command}")


def _address(program: Program, names: Names, view: View) -> str:
    """The address of a tensor that fills a buffer."""
    memory = names.memories[program.buffer(view.buffer).memory].name
    return f"{memory} + {names.buffers[view.buffer]}"
