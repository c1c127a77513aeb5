"""Numbers of command streams: which stream each call of a step submits.

A step represents all calls that differ only in their rows and in offsets that depend on loop
variables (`program/steps.py`).  Each combination of rows and offsets has a stream of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import NamedTuple, cast

from penstock.ir.op import row_axis, row_count
from penstock.program.expr import Expr, Var, binary, evaluate
from penstock.program.program import END, FIRST, Call
from penstock.program.steps import accessed_views


class RowsAndOffsets(NamedTuple):
    """The values by which a call of a step differs from the step's other calls.

    Each combination of these values is encoded as a command stream of its own.

    first, end: the call computes the output rows [first, end).
    offsets: where tensors of the call begin in their buffers, in bytes.  It contains the offsets
        that vary between calls, for example between bands of columns; `offset_variables` determines
        which and in what order."""

    first: int
    end: int
    offsets: tuple[int, ...]

    def variables(self, offsets: Sequence[Var]) -> Mapping[str, int]:
        """Return the values of the variables in the step's body for this call, by name.

        The variables are `FIRST` and `END`, for the interval of rows, and those for the offsets.

        offsets: the result of `offset_variables` for the step."""
        values = zip((offset.name for offset in offsets), self.offsets, strict=True)
        return {FIRST.name: self.first, END.name: self.end, **dict(values)}


def offset_variables(step: Call) -> tuple[Var, ...]:
    """Return the variables that stand for offsets of tensors in the body of a step.

    A call accesses each tensor at an offset, in bytes, in a buffer.  If this offset depends on loop
    variables, it differs between the calls of the step, so `as_step` replaces it by a variable.
    The variables are in the order of `accessed_views`: inputs first, the output last.

    step: the call that stands for all calls of the step (`as_step`)."""
    offsets = (view.offset for view in accessed_views(step))
    return tuple(offset for offset in offsets if isinstance(offset, Var))


def stream_index(calls: Sequence[RowsAndOffsets], offsets: Sequence[Var], rows: int) -> Expr:
    """Return the number of a call's stream, as an expression of the call's rows and offsets.

    The numbers are at least 0, and different for all `calls`.  They need not be consecutive.

    calls: the rows and offsets of calls of one step, all different.
    offsets: the result of `offset_variables` for the step.
    rows: number of rows of the output.

    For example, let the output have 4 rows, which two calls compute: [0, 2) and [2, 4).  They are
    executed for two bands: an offset is 16 bytes in the first one and 48 in the second.  The result
    is first + 4 * ((offset - 16) / 32), which is 0 and 2 in the first band, 4 and 6 in the second.
    """

    def is_unique(index: Expr) -> bool:
        return len({evaluate(index, call.variables(offsets)) for call in calls}) == len(calls)

    # The first term has a different value, less than `count`, for each interval [first, end).
    intervals = {(call.first, call.end) for call in calls}
    index, count = cast(Expr, FIRST), rows
    if len({first for first, _ in intervals}) < len(intervals):
        index, count = binary("+", FIRST, END), 2 * rows
        if len({sum(one) for one in intervals}) < len(intervals):
            index, count = binary("+", binary("*", FIRST, rows + 1), END), (rows + 1) ** 2
    # Each further term, for one offset, is rank * count: `rank` numbers the values of the offset,
    # and `count` exceeds every value of the sum so far, so different ranks give different sums.
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
