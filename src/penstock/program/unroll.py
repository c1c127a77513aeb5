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
    yield from _unrolled(tuple(_selected(commands, select)), {}, {})


def iterations(loop: Loop, variables: Variables, counters: dict[str, int]) -> Iterator[Variables]:
    """Yield the variables of each iteration of a loop, given those around the loop.

    counters: the counters of the loops around this one, which change as the iterations proceed."""
    counters |= {counter.name: counter.begin for counter in loop.counters}
    lower, upper = evaluate(loop.lower, {**variables, **counters}), evaluate(loop.upper, variables)
    inside = variables if loop.counted is None else {**variables, loop.counted.limit: upper}
    for value in range(lower, upper, loop.step):
        yield {**inside, loop.variable: value}
    if loop.counted is not None:
        counters[loop.counted.counter] = max(lower, upper)


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
