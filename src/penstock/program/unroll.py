"""unroll: the calls of a program one by one, with the values of the loop variables around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.program.expr import evaluate
from penstock.program.program import Call, Command, Loop

Variables = Mapping[str, int]
"""Values of variables by name."""
Selected = TypeVar("Selected")


@dataclass(frozen=True, slots=True)
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
    yield from _unrolled(tuple(_selected(commands, select)), {})


def loop_values(loop: Loop, variables: Variables) -> range:
    """Return the values of a loop's variable, given those of the variables around the loop."""
    return range(evaluate(loop.lower, variables), evaluate(loop.upper, variables), loop.step)


def _selected(
    commands: Sequence[Command], select: Callable[[Call], Selected | None]
) -> Iterator[Selected | _SelectedLoop[Selected]]:
    """Yield what is selected, inside the loops that contain some."""
    for command in commands:
        if isinstance(command, Loop):
            if body := tuple(_selected(command.body, select)):
                yield _SelectedLoop(command, body)
        elif isinstance(command, Call) and (found := select(command)) is not None:
            yield found


def _unrolled(
    body: Sequence[Selected | _SelectedLoop[Selected]], variables: Variables
) -> Iterator[tuple[Selected, Variables]]:
    for one in body:
        if isinstance(one, _SelectedLoop):
            for value in loop_values(one.loop, variables):
                yield from _unrolled(one.body, {**variables, one.loop.variable: value})
        else:
            yield one, variables
