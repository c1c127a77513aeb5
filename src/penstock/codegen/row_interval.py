"""Converts regions of whole rows to intervals of flattened row indices, as kernels take them."""

from __future__ import annotations

import math

from penstock.errors import InternalError
from penstock.ir.op import row_axis, row_count
from penstock.program.expr import Expr, binary
from penstock.program.program import Box, Call, Copy, Pull

Interval = tuple[Expr, Expr]


def row_interval(command: Call | Copy | Pull) -> Interval:
    """Half-open interval of the rows that a command computes, copies or pulls.

    Row indices are flattened over the leading axes.  Raises InternalError unless the region
    consists of consecutive whole rows."""
    if isinstance(command, Call):
        return _interval(command.out, command.output.type.shape)
    shape = command.target.type.shape
    axis = row_axis(len(shape))
    ends = zip((0,) * len(shape), shape, strict=True)
    bounds = [(command.lower, command.upper) if k == axis else end for k, end in enumerate(ends)]
    return _interval(Box(*map(tuple, zip(*bounds, strict=True))), shape)


def all_rows(command: Call | Copy | Pull) -> bool:
    """Whether a command processes all rows of its tensor in every iteration."""
    view = command.output if isinstance(command, Call) else command.target
    return row_interval(command) == (0, row_count(view.type.shape))


def _interval(box: Box, shape: tuple[int, ...]) -> Interval:
    if (box.lower, box.upper) == ((0,) * len(shape), shape):
        return 0, row_count(shape)
    axis = row_axis(len(shape))
    leading = tuple(zip(box.lower[:axis], box.upper[:axis], strict=True))
    row = tuple(zip(box.lower[axis + 1 :], box.upper[axis + 1 :], strict=True))
    one_image = all(isinstance(a, int) and b == a + 1 for a, b in leading)
    whole_rows = len(shape) > 1 and row == tuple((0, extent) for extent in shape[axis + 1 :])
    if not (one_image and whole_rows):
        raise InternalError(
            "codegen-001", f"region {box} of {list(shape)} is no interval of rows for a kernel"
        )
    first = sum(
        a * math.prod(shape[k + 1 : axis + 1])
        for k, (a, _) in enumerate(leading)
        if isinstance(a, int)
    )
    lower, upper = box.lower[axis], box.upper[axis]
    return binary("+", lower, first), binary("+", upper, first)
