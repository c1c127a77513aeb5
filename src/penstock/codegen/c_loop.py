"""Formats loops as C; a callback formats the commands in their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from penstock.codegen import c_text
from penstock.codegen.c_expr import Scope, expression
from penstock.program.expr import Var, binary
from penstock.program.program import Command, Loop

Lines = Callable[[Command, Scope, int], Iterable[str]]
"""Formats a command in a scope, indented by the given number of levels, as lines of C."""
COUNTERS = "made"
"""The array of the counters of a loop."""


def loop_lines(loop: Loop, scope: Scope, depth: int, lines: Lines) -> Iterator[str]:
    """The lines of a loop and its body."""
    lower, upper = expression(loop.lower, scope), expression(loop.upper, scope)
    inner = scope.inside(loop.variable)
    name = inner.variables[loop.variable]
    begins = [f"{name} = {lower}"]
    if loop.counters:
        inner = with_counters(loop, inner)
        values = ", ".join(str(counter.begin) for counter in loop.counters)
        begins.append(f"{COUNTERS}[{len(loop.counters)}] = {{{values}}}")
    if loop.counted is not None and loop.upper != Var(loop.counted.limit):
        inner = inner.inside(loop.counted.limit)
        begins.append(f"{inner.variables[loop.counted.limit]} = {upper}")
        upper = inner.variables[loop.counted.limit]
    step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
    pad = c_text.INDENT * depth
    parts = (f"int32_t {', '.join(begins)};", f"{name} < {upper};", step)
    room = c_text.LINE_LENGTH - len(f"{pad}for (")
    fitted = (c_text.pieces(part) if len(part) > room else (part,) for part in parts)
    yield c_text.wrapped(f"{pad}for (", chain(*fitted), ") {")
    for command in loop.body:
        yield from lines(command, inner, depth + 1)
    yield f"{pad}}}"
    if loop.counted is not None:
        end = expression(binary("max", loop.lower, loop.upper), scope)
        yield c_text.wrapped(f"{pad}{lower} = ", c_text.pieces(end), ";")


def with_counters(loop: Loop, scope: Scope) -> Scope:
    """The scope in which the counters of a loop are elements of the array `COUNTERS`."""
    named = {counter.name: f"{COUNTERS}[{k}]" for k, counter in enumerate(loop.counters)}
    return replace(scope, variables={**scope.variables, **named}, taken=scope.taken | {COUNTERS})
