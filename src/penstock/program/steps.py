"""What a program's run does, read off its commands: its steps, its streams, its buffers' lives.

A step is what calls have in common that differ in nothing but their rows.  Steps are numbered in
program order, depth first through loops; a step that several loops call keeps its first number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock.ir.op import row_count
from penstock.program.expr import Expr, Var
from penstock.program.program import Box, Call, Command, Copy, Loop, Program, Pull, View


def walk(commands: Iterable[Command]) -> Iterator[Command]:
    """Every command, in order; a loop stands before its body."""
    for command in commands:
        yield command
        if isinstance(command, Loop):
            yield from walk(command.body)


def as_step(call: Call) -> Call:
    """The call for all rows: equal for calls that differ in rows only.

    Offsets that depend on loop variables become variables: `offset_0` of input 0, .., `offset_y`
    of the output."""
    shape = call.output.type.shape
    return replace(
        call,
        inputs=tuple(_all_rows(view, f"offset_{k}") for k, view in enumerate(call.inputs)),
        output=_all_rows(call.output, "offset_y"),
        out=Box((0,) * len(shape), shape),
    )


def as_transfer(copy: Copy) -> Copy:
    """The copy of all rows, under no token: equal for copies that differ in these only."""
    source, target = _all_rows(copy.source, "offset_x"), _all_rows(copy.target, "offset_y")
    return replace(copy, source=source, target=target, lower=0, upper=source.upper, token=None)


def as_stream(pull: Pull) -> Pull:
    """The pull of all rows: equal for pulls that differ in rows only."""
    target = _all_rows(pull.target, "offset_y")
    return replace(pull, target=target, lower=0, upper=target.upper)


def _all_rows(view: View, offset: str) -> View:
    count = row_count(view.type.shape)
    kept: Expr = view.offset if isinstance(view.offset, int) else Var(offset)
    return replace(view, lower=0, upper=count, offset=kept)


def calls(program: Program) -> tuple[Call, ...]:
    """The calls of the run entry."""
    return tuple(c for c in walk(program.run) if isinstance(c, Call))


def steps(program: Program) -> dict[Call, int]:
    """The steps of the run entry, as `as_step` gives them, with their numbers, in order."""
    distinct = dict.fromkeys(as_step(call) for call in calls(program))
    return {step: number for number, step in enumerate(distinct)}


def streams(program: Program) -> tuple[View, ...]:
    """A view of each streamed input, in the order in which they are first pulled."""
    pulled = (c.target for c in walk(program.run) if isinstance(c, Pull))
    first: dict[str, View] = {}
    for view in pulled:
        first.setdefault(view.tensor, view)
    return tuple(first.values())


def lives(program: Program) -> dict[str, tuple[int, int]]:
    """By name of a buffer, the first and last step in which it holds anything; -1 is the caller
    before the run, the number of steps the caller after it.

    What a loop of the run entry touches lives from the first to the last of the loop's steps."""
    numbers = steps(program)
    found = {view.buffer: (-1, -1) for view in program.inputs}
    begun = 0
    for command in program.run:
        inner = [numbers[as_step(c)] for c in walk((command,)) if isinstance(c, Call)]
        first, last = (min(inner), max(inner)) if inner else (begun, begun)
        for name in buffers_of(command):
            before, after = found.get(name, (first, last))
            found[name] = (min(before, first), max(after, last))
        begun = min(max(begun, last + 1), max(0, len(numbers) - 1))
    for view in program.outputs:
        found[view.buffer] = (found.get(view.buffer, (-1, -1))[0], len(numbers))
    return found


def buffers_of(command: Command) -> Iterator[str]:
    """The buffers that a command touches, some more than once; a loop's are those of its body."""
    for inner in walk((command,)):
        yield from (view.buffer for view in views_of(inner))
        if isinstance(inner, Call):
            yield from (view.buffer for view in (inner.fetched, *inner.fills) if view is not None)
            if inner.scratch is not None:
                yield inner.scratch


def views_of(command: Command) -> tuple[View, ...]:
    """The views through which a command itself sees data, what it writes last."""
    match command:
        case Call():
            return (*command.inputs, command.output)
        case Copy():
            return (command.source, command.target)
        case Pull():
            return (command.target,)
        case _:
            return ()
