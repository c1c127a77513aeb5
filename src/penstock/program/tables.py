"""tables: the constant tables of a program's addresses and loop bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

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
    Submission,
    View,
    WholeMemory,
)
from penstock.program.steps import accessed_views, walk, walk_in_c

ROW_ENTRY_BYTES = 4
"""Bytes of an entry of a row table: an offset of one word."""

RowTable = tuple[str, tuple[int, ...]]
"""A buffer, and the offset of each row in it, in bytes."""


def row_tables(program: Program) -> tuple[RowTable, ...]:
    """Every distinct row table, in program order."""
    used = [view for command in walk_in_c(program.run) for view in _shown(command)]
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
        for command in walk_in_c(program.run)
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
    for command in walk_in_c(program.run):
        calls, passes_regions = (command,), _passes_regions(command)
        if isinstance(command, Submission):
            calls = tuple(walk(command.run))
        for call in calls:
            views = accessed_views(call)
            inside: Collection[int] = ()
            if isinstance(call, Call):
                inside = range(len(views)) if passes_regions else call.kernel.folded
            for k, view in enumerate(views):
                (folded if k in inside else read).add(view.buffer)
    return frozenset(folded - read)


def _passes_regions(command: Command) -> bool:
    """Whether a command hands memory regions to an accelerator, one of which has its constants."""
    commands: tuple[Command, ...] = ()
    if isinstance(command, Call):
        commands = command.body
    elif isinstance(command, Submission):
        commands = (command.submit,)
    invoked = (each for each in walk(commands) if isinstance(each, Invoke))
    return any(isinstance(a, WholeMemory) for each in invoked for a in each.arguments)


def _expressions(command: Command) -> Iterator[Expr]:
    """The bounds and offsets of a command, without the valid rows of views, which are only for
    checks."""
    yield from _own_expressions(command)
    inside: tuple[Command, ...] = ()
    if isinstance(command, Call):
        inside = command.body
    elif isinstance(command, Submission):
        inside = counting_loops(command)
    yield from (expr for inner in walk(inside) for expr in _own_expressions(inner))


def _own_expressions(command: Command) -> Iterator[Expr]:
    """Those without the body of a call, whose variables the call binds."""
    yield from (view.offset for view in accessed_views(command))
    match command:
        case Invoke():
            for argument in command.arguments:
                if not isinstance(argument, WholeMemory):
                    yield argument.offset if isinstance(argument, Address) else argument
        case Submission():
            yield from _own_expressions(command.submit)
        case Call() | Pull() | Loop():
            yield from (command.lower, command.upper)
        case _:
            pass


def counting_loops(submission: Submission) -> tuple[Loop, ...]:
    """The loops of a submission that count rows for loops outside it, with nothing but such loops
    inside."""
    return _counting(submission.run, frozenset())


def _counting(commands: Iterable[Command], own: frozenset[str]) -> tuple[Loop, ...]:
    found: list[Loop] = []
    for loop in (command for command in commands if isinstance(command, Loop)):
        mine = own | {counter.name for counter in loop.counters}
        body = _counting(loop.body, mine)
        if body or (loop.counted is not None and loop.counted.counter not in own):
            found.append(replace(loop, body=body))
    return tuple(found)


def free_variables(commands: Iterable[Command]) -> set[str]:
    """The variables in commands that are bound outside them."""
    bound: set[str] = set()
    used: set[str] = set()
    for command in walk_in_c(commands):
        used.update(name for expr in _own_expressions(command) for name in _variables(expr))
        if isinstance(command, Submission):
            used |= free_variables(counting_loops(command))
        if isinstance(command, Loop):
            bound.add(command.variable)
            bound.update(counter.name for counter in command.counters)
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
