"""What the commands of a program do: steps, streamed inputs, live ranges of buffers, and constant
tables of addresses and loop bounds.

Calls that differ only in their rows belong to one step.  Steps are numbered in program order, depth
first through loops; a step that several loops contain has the number of its first occurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from penstock.frozen import frozen
from penstock.ir.tensor import row_count
from penstock.program.expr import Binary, Expr, TableEntry, Var, evaluate
from penstock.program.program import (
    Address,
    Advance,
    Call,
    Command,
    FillTensor,
    Invoke,
    Issue,
    Kind,
    LoadTensor,
    Loop,
    Program,
    Pull,
    Rows,
    Submission,
    Transfer,
    View,
    WholeMemory,
)


def walk(commands: Iterable[Command]) -> Iterator[Command]:
    """All commands in order, each loop and submission before what it contains."""
    for command in commands:
        yield command
        yield from walk(_inside(command))


def _inside(command: Command) -> tuple[Command, ...]:
    match command:
        case Loop():
            return command.body
        case Submission():
            return command.run
        case _:
            return ()


def walk_in_c(commands: Iterable[Command]) -> Iterator[Command]:
    """All commands that generated C contains, in order: as `walk`, but a submission stands for the
    commands inside it."""
    for command in commands:
        yield command
        if isinstance(command, Loop):
            yield from walk_in_c(command.body)


def expanded(commands: Iterable[Command]) -> Iterator[Command]:
    """The commands, with those inside submissions in the places of these."""
    for command in commands:
        yield from command.run if isinstance(command, Submission) else (command,)


def submissions(program: Program) -> tuple[Submission, ...]:
    """All submissions of the run entry."""
    return tuple(c for c in walk_in_c(program.run) if isinstance(c, Submission))


def submitted_steps(program: Program) -> frozenset[Call]:
    """The steps whose calls are in submissions."""
    inside = (c for one in submissions(program) for c in walk(one.run))
    return frozenset(as_step(c) for c in inside if isinstance(c, Call))


def as_step(call: Call) -> Call:
    """The call for all rows, which is equal for all calls of a step.

    Offsets that depend on loop variables are replaced by variables (`offset_name`)."""
    return replace(
        call,
        inputs=tuple(_all_rows(view, offset_name(k)) for k, view in enumerate(call.inputs)),
        output=_all_rows(call.output, offset_name()),
        lower=0,
        upper=row_count(call.output.type.shape),
    )


def offset_name(k: int | None = None) -> str:
    """The variable for the offset of input `k` of a step or, without a number, of its output.

    It stands for the offset in the body of the step if this depends on loop variables.

    >>> offset_name(0), offset_name()
    ('offset_0', 'offset_y')
    """
    return "offset_y" if k is None else f"offset_{k}"


def as_stream(pull: Pull) -> Pull:
    """The pull of all rows, which is equal for pulls that differ only in rows."""
    target = _all_rows(pull.target, "offset_y")
    return replace(pull, target=target, lower=0, upper=target.upper)


def _all_rows(view: View, offset: str) -> View:
    count = row_count(view.type.shape)
    kept: Expr = view.offset if isinstance(view.offset, int) else Var(offset)
    first = None if view.first_column is None else 0
    return replace(view, lower=0, upper=count, offset=kept, first_column=first)


def calls(program: Program) -> tuple[Call, ...]:
    """All calls of the run entry."""
    return tuple(c for c in walk(program.run) if isinstance(c, Call))


def steps(program: Program) -> dict[Call, int]:
    """The steps of the run entry, as `as_step` returns them, with their numbers, in order."""
    distinct = dict.fromkeys(as_step(call) for call in calls(program))
    return {step: number for number, step in enumerate(distinct)}


def streams(program: Program) -> tuple[View, ...]:
    """A view of each streamed input, in order of the first pull."""
    pulled = (c.target for c in walk(program.run) if isinstance(c, Pull))
    first: dict[str, View] = {}
    for view in pulled:
        first.setdefault(view.tensor, view)
    return tuple(first.values())


def lives(program: Program) -> dict[str, tuple[int, int]]:
    """The live range of each buffer, by name: its first and last step.

    Step -1 denotes the caller before the run, and the number of steps denotes the caller after it.
    A buffer that a loop of the run entry uses is live from the first to the last step of that
    loop."""
    numbers = steps(program)
    found = {view.buffer: (-1, -1) for view in program.inputs}
    begun = 0
    for command in expanded(program.run):
        inner = [numbers[as_step(c)] for c in walk((command,)) if isinstance(c, Call)]
        first, last = (min(inner), max(inner)) if inner else (begun, begun)
        for name in used_buffers(command):
            before, after = found.get(name, (first, last))
            found[name] = (min(before, first), max(after, last))
        begun = min(max(begun, last + 1), max(0, len(numbers) - 1))
    for view in program.outputs:
        found[view.buffer] = (found.get(view.buffer, (-1, -1))[0], len(numbers))
    states = (b.name for b in program.buffers if b.kind is Kind.STATE)
    return {**found, **dict.fromkeys(states, (-1, len(numbers)))}


def last_uses(program: Program) -> dict[int, tuple[str, ...]]:
    """For each command of the run entry (`expanded`), the buffers that neither a later one nor an
    output uses."""
    uses = enumerate(map(used_buffers, expanded(program.run)))
    last = {name: step for step, names in uses for name in names}
    for view in program.outputs:
        last.pop(view.buffer, None)
    kept = {b.name for b in program.buffers if b.data is not None or b.kind is Kind.STATE}
    found: dict[int, tuple[str, ...]] = {}
    for name, step in last.items():
        if name not in kept:
            found[step] = (*found.get(step, ()), name)
    return found


def used_buffers(command: Command) -> Iterator[str]:
    """The buffers that a command uses, possibly repeated; a loop uses those of its body."""
    for inner in walk((command,)):
        for view in accessed_views(inner):
            yield view.buffer
            if view.rows.rotation is not None:
                yield view.rows.rotation.counter
        if isinstance(inner, Call):
            constants = (inner.prefetched, *inner.prefetches)
            yield from (view.buffer for view in constants if view is not None)
            if inner.scratch is not None:
                yield inner.scratch
            yield from buffers_inside(inner)


def addressed_buffers(commands: Iterable[Command]) -> Iterator[str]:
    """The buffers whose addresses the commands of a call's body contain, in order, possibly
    repeated."""
    for command in walk(commands):
        match command:
            case Invoke():
                yield from (a.buffer for a in command.arguments if isinstance(a, Address))
            case Issue():
                beside = (*command.tables, command.scratch, command.prefetched)
                yield from (address.buffer for address in beside if address is not None)
                yield from (rows.buffer for rows in (*command.inputs, command.result))
            case Transfer():
                yield from (command.source.buffer, command.target.buffer)
            case _:
                pass


def buffers_inside(call: Call) -> tuple[str, ...]:
    """Buffers that only the body of a region call uses: intermediate tensors and scratch."""
    tensors = (member.output.buffer for member in call.members[:-1])
    return (*tensors, *(m.scratch for m in call.members if m.scratch is not None))


def accessed_views(command: Command) -> tuple[View, ...]:
    """The views that a command itself accesses, the written one last."""
    match command:
        case Call():
            inside = (member.output for member in command.members[:-1])
            return (*command.inputs, *inside, command.output)
        case Pull() | FillTensor():
            return (command.target,)
        case Advance():
            return (command.window, command.counter)
        case LoadTensor():
            return (command.source, command.target)
        case _:
            return ()


def written_views(command: Command) -> tuple[View, ...]:
    """The views that a command itself writes: several for the call of a region."""
    if isinstance(command, Call) and command.members:
        return tuple(member.output for member in command.members)
    return accessed_views(command)[-1:]


Variables = Mapping[str, int]
"""Values of variables by name."""
Selected = TypeVar("Selected")


@frozen
class _SelectedLoop(Generic[Selected]):
    """A loop around selected calls; `body` contains nothing else."""

    loop: Loop
    body: tuple[Selected | _SelectedLoop[Selected], ...]


def unrolled_calls(
    commands: Sequence[Command], select: Callable[[Call], Selected | None]
) -> Iterator[tuple[Selected, Variables]]:
    """Yield what is selected of each call, in execution order, once per loop iteration.

    select: applied once to each call of the commands, not to each iteration; None skips the call.

    The variables are those of the loops around the call.
    """
    yield from _unrolled(tuple(_selected(commands, select)), {}, {})


def iterations(loop: Loop, variables: Variables, counters: dict[str, int]) -> Iterator[Variables]:
    """Yield the variables of each iteration of a loop, given those around the loop.

    counters: the counters of the loops around this one, which change as the iterations proceed."""
    counters |= {counter.name: counter.begin for counter in loop.counters}
    lower, upper = evaluate(loop.lower, {**variables, **counters}), evaluate(loop.upper, variables)
    inside = variables if loop.counted is None else {**variables, loop.counted.limit: upper}
    value = lower
    while value < upper:
        yield {**inside, loop.variable: value}
        following = loop.after(value)
        assert isinstance(following, int)
        value = following
    if loop.counted is not None:
        counters[loop.counted.counter] = max(lower, upper)


def executions(
    commands: Sequence[Command],
    variables: Variables | None = None,
    counters: dict[str, int] | None = None,
) -> Iterator[tuple[Submission, Variables, tuple[tuple[Call, Variables], ...]]]:
    """Yield each execution of a submission, in order: the values of the variables around it, and
    its calls in order, each with the variables of all loops around it.  Calls that compute no row
    are left out."""
    around: Variables = {} if variables is None else variables
    counted: dict[str, int] = {} if counters is None else counters
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, around, counted):
                yield from executions(command.body, inside, counted)
        elif isinstance(command, Submission):
            outer = {**around, **counted}
            selected = tuple(_selected(command.run, lambda call: call))
            every = _unrolled(selected, around, counted)
            yield command, outer, tuple(pair for pair in every if not is_empty(*pair))


def is_empty(call: Call, variables: Variables) -> bool:
    """Whether a call computes no row, with these values of the variables around it."""
    lower, upper = computed_rows(call, variables)
    return lower >= upper


def computed_rows(call: Call, variables: Variables) -> tuple[int, int]:
    """The interval [first, end) of output rows that a call computes.

    variables: the values of the variables of the loops around the call."""
    return evaluate(call.lower, variables), evaluate(call.upper, variables)


def _selected(
    commands: Sequence[Command], select: Callable[[Call], Selected | None]
) -> Iterator[Selected | _SelectedLoop[Selected]]:
    """Yield what is selected, inside the loops that contain some."""
    for command in expanded(commands):
        if isinstance(command, Loop):
            if body := tuple(_selected(command.body, select)):
                yield _SelectedLoop(command, body)
        elif isinstance(command, Call) and (found := select(command)) is not None:
            yield found


def _unrolled(
    body: Sequence[Selected | _SelectedLoop[Selected]],
    variables: Variables,
    counters: dict[str, int],
) -> Iterator[tuple[Selected, Variables]]:
    for one in body:
        if isinstance(one, _SelectedLoop):
            for inside in iterations(one.loop, variables, counters):
                yield from _unrolled(one.body, inside, counters)
        else:
            yield one, variables


# The constant tables of addresses and loop bounds.


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
