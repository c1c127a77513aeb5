"""Formats loops as C; a callback formats the commands in their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from penstock.codegen import c_text
from penstock.codegen.c_expr import Scope, expression
from penstock.program.program import Command, Loop

Lines = Callable[[Command, Scope, int], Iterable[str]]
"""Formats a command in a scope, indented by the given number of levels, as lines of C."""


def loop_lines(loop: Loop, scope: Scope, depth: int, lines: Lines) -> Iterator[str]:
    """The lines of a loop and its body."""
    lower, upper = expression(loop.lower, scope), expression(loop.upper, scope)
    inner = scope.inside(loop.variable)
    name = inner.variables[loop.variable]
    step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
    pad = c_text.INDENT * depth
    parts = (f"int32_t {name} = {lower};", f"{name} < {upper};", step)
    room = c_text.LINE_LENGTH - len(f"{pad}for (")
    fitted = (c_text.pieces(part) if len(part) > room else (part,) for part in parts)
    yield c_text.wrapped(f"{pad}for (", chain(*fitted), ") {")
    for command in loop.body:
        yield from lines(command, inner, depth + 1)
    yield f"{pad}}}"
