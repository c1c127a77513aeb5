"""tables: the constant tables of a program's addresses and loop bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.program.expr import Binary, Expr, TableEntry, Var
from penstock.program.program import (
    Address,
    Advance,
    Call,
    Command,
    Invoke,
    Loop,
    Program,
    Pull,
    Rows,
    View,
    WholeMemory,
)
from penstock.program.steps import accessed_views, walk

ROW_ENTRY_BYTES = 4
"""Bytes of an entry of a row table: an offset of one word."""

RowTable = tuple[str, tuple[int, ...]]
"""A buffer, and the offset of each row in it, in bytes."""


def row_tables(program: Program) -> tuple[RowTable, ...]:
    """Every distinct row table, in program order."""
    used = [view for command in walk(program.run) for view in _shown(command)]
    views = (*used, *program.inputs, *program.outputs)
    found = ((view.buffer, row_table(view.rows)) for view in views)
    return tuple(dict.fromkeys((buffer, table) for buffer, table in found if table is not None))


def row_table(rows: Rows) -> tuple[int, ...] | None:
    """The table of offsets by which C finds rows; None if it needs none.

    For a ring that rotates, the table has the offsets of all slots twice: the offsets of its rows
    begin at entry `first` + counter (`Rotation`)."""
    if rows.rotation is None:
        return rows.table
    return tuple(slot * rows.pitch for slot in range(rows.ring)) * 2


def _shown(command: Command) -> tuple[View, ...]:
    """The views whose row tables the C of a command uses; the body of an accelerator's call uses
    bound tables instead."""
    if isinstance(command, Call) and command.body:
        return (command.output,)
    return () if isinstance(command, Advance) else accessed_views(command)


def bound_tables(program: Program) -> tuple[tuple[int, ...], ...]:
    """Every distinct table that a bound or offset uses, in program order."""
    found = (
        entry.values
        for command in walk(program.run)
        for expr in _expressions(command)
        for entry in _entries(expr)
    )
    return tuple(dict.fromkeys(found))


def entry_bytes(values: tuple[int, ...]) -> int:
    """Bytes of an entry of a bound table: 1 or 2 if all entries are non-negative and fit, otherwise
    4."""
    if min(values) < 0:
        return 4
    return 1 if max(values) < 1 << 8 else 2 if max(values) < 1 << 16 else 4


def table_bytes(program: Program) -> int:
    """Bytes of all tables."""
    rows = sum(ROW_ENTRY_BYTES * len(table) for _, table in row_tables(program))
    return rows + sum(entry_bytes(values) * len(values) for values in bound_tables(program))


def folded_constants(program: Program) -> frozenset[str]:
    """Constants that are used only through tables of kernels, in the kernels' own order, or through
    the region of constants of an accelerator.  The machine reads them; the generated C does not."""
    folded: set[str] = set()
    read = {view.buffer for view in program.outputs}
    for command in walk(program.run):
        views = accessed_views(command)
        inside: Collection[int] = ()
        if isinstance(command, Call):
            inside = range(len(views)) if _reads_regions(command) else command.kernel.folded
        for k, view in enumerate(views):
            (folded if k in inside else read).add(view.buffer)
    return frozenset(folded - read)


def _reads_regions(call: Call) -> bool:
    """Whether a call hands memory regions to an accelerator, one of which has its constants."""
    invoked = (command for command in walk(call.body) if isinstance(command, Invoke))
    return any(isinstance(a, WholeMemory) for command in invoked for a in command.arguments)


def _expressions(command: Command) -> Iterator[Expr]:
    """The bounds and offsets of a command, without the valid rows of views, which are only for
    checks."""
    yield from _own_expressions(command)
    if isinstance(command, Call):
        yield from (expr for inner in walk(command.body) for expr in _expressions(inner))


def _own_expressions(command: Command) -> Iterator[Expr]:
    """Those without the body of a call, whose variables the call binds."""
    yield from (view.offset for view in accessed_views(command))
    match command:
        case Call():
            yield from (*command.out.lower, *command.out.upper)
        case Invoke():
            for argument in command.arguments:
                if not isinstance(argument, WholeMemory):
                    yield argument.offset if isinstance(argument, Address) else argument
        case Pull() | Loop():
            yield from (command.lower, command.upper)
        case _:
            pass


def free_variables(loop: Loop) -> set[str]:
    """The variables in a loop's body that are bound outside the loop."""
    bound: set[str] = set()
    used = set(_variables(loop.lower)) | set(_variables(loop.upper))
    for command in walk((loop,)):
        used.update(name for expr in _own_expressions(command) for name in _variables(expr))
        if isinstance(command, Loop):
            bound.add(command.variable)
            if command.counted is not None:
                bound.add(command.counted.limit)
    return used - bound


def _variables(expr: Expr) -> Iterator[str]:
    match expr:
        case Var(name):
            yield name
        case Binary():
            yield from _variables(expr.left)
            yield from _variables(expr.right)
        case TableEntry():
            yield from _variables(expr.index)
        case _:
            pass


def _entries(expr: Expr) -> Iterator[TableEntry]:
    """Every table look-up in an expression, including nested ones."""
    match expr:
        case TableEntry():
            yield expr
            yield from _entries(expr.index)
        case Binary():
            yield from _entries(expr.left)
            yield from _entries(expr.right)
        case _:
            pass
