"""The calls of a step whose command streams differ, and the number of the stream of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple, cast

from penstock.ir.op import row_axis, row_count
from penstock.program.expr import Expr, Var, binary, evaluate
from penstock.program.program import END, FIRST, Call
from penstock.program.steps import accessed_views


class SteppedCall(NamedTuple):
    """What distinguishes a call of a step from the others: it is encoded as a stream of its own.

    first, end: the rows that it computes.
    offsets: the values of the step's offsets (`offset_variables`), which differ between bands."""

    first: int
    end: int
    offsets: tuple[int, ...]

    def variables(self, offsets: Sequence[Var]) -> Mapping[str, int]:
        """Return the values of the variables in the body of the step, by name.

        offsets: the variables of `offset_variables`."""
        values = zip((offset.name for offset in offsets), self.offsets, strict=True)
        return {FIRST.name: self.first, END.name: self.end, **dict(values)}


def offset_variables(step: Call) -> tuple[Var, ...]:
    """Return the variables that stand for the offsets of views that depend on loop variables."""
    offsets = (view.offset for view in accessed_views(step))
    return tuple(offset for offset in offsets if isinstance(offset, Var))


def stream_index(calls: Sequence[SteppedCall], offsets: Sequence[Var], rows: int) -> Expr:
    """Return an expression of rows and offsets whose value differs for each of the calls.

    The value is at least 0.  It begins with the first of these terms that differs for all intervals
    [first, end) of rows: first; first + end; first * (rows + 1) + end.  While calls still share a
    value, a multiple of (offset - least value) / gcd of the differences is added for one offset
    after the other.

    calls: calls of one step, all different.
    rows: number of rows of the output."""

    def is_unique(index: Expr) -> bool:
        return len({evaluate(index, call.variables(offsets)) for call in calls}) == len(calls)

    intervals = {(call.first, call.end) for call in calls}
    index, count = cast(Expr, FIRST), rows
    if len({first for first, _ in intervals}) < len(intervals):
        index, count = binary("+", FIRST, END), 2 * rows
        if len({sum(one) for one in intervals}) < len(intervals):
            index, count = binary("+", binary("*", FIRST, rows + 1), END), (rows + 1) ** 2
    for k in sorted(range(len(offsets)), key=lambda k: -len({c.offsets[k] for c in calls})):
        values = sorted({call.offsets[k] for call in calls})
        if is_unique(index):
            break
        step = gcd(*(value - values[0] for value in values)) or 1
        rank = binary("//", binary("-", offsets[k], values[0]), step)
        index = binary("+", index, binary("*", rank, count))
        count *= (values[-1] - values[0]) // step + 1
    assert is_unique(index)
    return index


def computed_rows(call: Call, variables: Mapping[str, int]) -> tuple[int, int]:
    """Return the interval [first, end) of output rows that a call computes.

    variables: the values of the variables of the loops around the call."""
    shape = call.output.type.shape
    axis = row_axis(len(shape))
    if (call.out.lower, call.out.upper) == ((0,) * len(shape), shape):
        return 0, row_count(shape)
    lower, upper = call.out.lower[axis], call.out.upper[axis]
    return evaluate(lower, variables), evaluate(upper, variables)
