"""Constant arrays of generated C: weights, kernel tables, row tables and loop bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.codegen import c_text
from penstock.codegen.c_functions import table_symbols
from penstock.codegen.names import Names
from penstock.ir.op import Table
from penstock.program.program import Program
from penstock.program.steps import accessed_views, steps, walk
from penstock.program.tables import entry_bytes, folded_constants

ACCELERATORS_ALIGNMENT_BYTES = 16
"""Alignment of data that only accelerators read: tables and command streams."""
_BOUND_TYPES = {1: "uint8_t", 2: "uint16_t", 4: "int32_t"}


@dataclass(frozen=True, slots=True)
class Array:
    """A constant array of the weights file, aligned to the larger of `alignment_bytes` and the
    element size."""

    symbol: str
    table: Table
    note: str
    alignment_bytes: int = 4

    @property
    def c_type(self) -> str:
        return c_text.C_TYPES[self.table.type.dtype]

    @property
    def declaration(self) -> str:
        """The declarator, which the header and the definition share.

        Both state the alignment: without it, a compiler may assume that an array of 16 bytes or
        more is aligned to 16 (System V ABI for x86-64, 3.1.2), which the definition denies."""
        alignment = max(self.alignment_bytes, self.table.type.dtype.size_bytes)
        elements = self.table.type.elements
        return f"_Alignas({alignment}) const {self.c_type} {self.symbol}[{elements}]"

    @property
    def uses_math(self) -> bool:
        """Whether the definition uses macros of math.h: elements are infinite or NaN."""
        elements = self.table.array
        return elements.dtype.kind == "f" and not bool(np.isfinite(elements).all())

    @property
    def definition(self) -> str:
        body = c_text.array_body(self.table.array)
        return f"/* {c_text.comment(self.note)} */\n{self.declaration} = {{\n{body}\n}};"


def arrays(program: Program, names: Names) -> tuple[Array, ...]:
    """All arrays of the weights file: tensors of the model, followed by kernel tables."""
    views = [view for command in walk(program.run) for view in accessed_views(command)]
    seen = {view.buffer: view.type for view in (*views, *program.outputs)}
    types = dict(seen)
    types |= {b.name: b.type for b in program.buffers if b.type is not None}
    read = set(types) - folded_constants(program)
    tensors = [
        Array(
            names.buffers[b.name],
            Table(types[b.name], b.data),
            f"{b.name}: {types[b.name]}",
            4 if b.name in seen else ACCELERATORS_ALIGNMENT_BYTES,
        )
        for b in program.buffers
        if b.data is not None and b.name in read
    ]
    symbols = table_symbols(names)
    tables: dict[str, Array] = {}
    for step, number in steps(program).items():
        for name, table in () if step.body else step.kernel.tables:
            symbol = symbols[number, name]
            note = f"{name} of step {number}, made by the compiler"
            tables.setdefault(symbol, Array(symbol, table, note))
    return (*tensors, *tables.values())


def tables(names: Names) -> tuple[str, ...]:
    """C definitions of the row tables and of the tables of loop bounds."""
    rows = (
        _definition(f"/* rows of {c_text.short(buffer)} */", "uint32_t", symbol, values)
        for (buffer, values), symbol in names.rows.items()
    )
    bounds = (
        _definition("/* bounds of loops */", _BOUND_TYPES[entry_bytes(values)], symbol, values)
        for values, symbol in names.bounds.items()
    )
    return (*rows, *bounds)


def _definition(note: str, c_type: str, symbol: str, values: tuple[int, ...]) -> str:
    body = c_text.array_body(np.array(values, np.int64))
    return f"{note}\nstatic const {c_type} {symbol}[{len(values)}] = {{\n{body}\n}};"
