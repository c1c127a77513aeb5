"""stored_constants: the bytes of constants that a program stores in flash, in all and by tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from penstock.program.program import Address, Call, Copy, Invoke, Kind, Program
from penstock.program.steps import steps, used_buffers, walk
from penstock.program.tables import folded_constants, table_bytes


def weight_bytes(program: Program) -> int:
    """Return the bytes of constants: tensors of the model, tables of kernels, row tables and tables
    of loop bounds."""
    constants = (b for b in program.buffers if b.kind is Kind.CONSTANT)
    folded = folded_constants(program)
    tensors = sum(b.size_bytes for b in constants if b.name not in folded)
    stored = {
        (step.output.tensor, name, table)  # bands of a tensor share equal tables
        for step in steps(program)
        if not step.body
        for name, table in step.kernel.tables
    }
    kernels = sum(table.type.size_bytes for _, _, table in stored)
    return tensors + kernels + table_bytes(program)


def weight_bytes_by_tensor(program: Program) -> Mapping[str, int]:
    """The bytes of constants by the tensor that the first call that uses them computes.

    Constants are tensors in the layout of the model, tables of kernels, and command streams.
    Tables of rows and of loop bounds belong to no call."""
    folded, copied = folded_constants(program), _copied_constants(program)
    constants = {
        buffer.name: buffer
        for buffer in program.buffers
        if buffer.kind is Kind.CONSTANT and buffer.name not in folded
    }
    streams = {name for name, buffer in constants.items() if buffer.is_stream}
    found: Counter[str] = Counter()
    counted: set[object] = set()
    for step in steps(program):
        used = [name for first in used_buffers(step) for name in (first, *copied.get(first, ()))]
        used += (name for name in _addressed(step) if name in streams)
        sizes: list[tuple[str, object, int]] = [
            (step.output.tensor, name, constants[name].size_bytes)
            for name in used
            if name in constants
        ]
        for call in step.members or (step,):
            tensor = call.output.tensor  # bands of a tensor share equal tables
            tables = call.kernel.tables
            sizes += [(tensor, (tensor, name, t), t.type.size_bytes) for name, t in tables]
        for tensor, key, size_bytes in sizes:
            if key not in counted:
                counted.add(key)
                found[tensor] += size_bytes
    return found


def _copied_constants(program: Program) -> Mapping[str, tuple[str, ...]]:
    """The buffers that are copied to each buffer."""
    found: dict[str, tuple[str, ...]] = {}
    for command in walk(program.run):
        if isinstance(command, Copy):
            before = found.get(command.target.buffer, ())
            found[command.target.buffer] = (*before, command.source.buffer)
    return found


def _addressed(step: Call) -> Iterator[str]:
    """The buffers to which calls of driver functions refer, possibly repeated."""
    for command in walk(step.body):
        if isinstance(command, Invoke):
            yield from (one.buffer for one in command.arguments if isinstance(one, Address))
