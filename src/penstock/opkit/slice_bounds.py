"""Bounds of a strided slice, from begins, ends, strides and masks of the format.

Source: TFLite STRIDED_SLICE, `internal/strided_slice_logic.h`: negative indices count from the end,
indices outside are clamped, a masked index is the end of the axis at which the slice starts or
stops.
"""

from __future__ import annotations

from penstock.ir.foreign import ForeignNode
from penstock.opkit.checks import require

Bounds = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def strided_bounds(node: ForeignNode) -> Bounds:
    """(starts, extents, steps) of the node's slice, including axes that the output drops."""
    shape = node.input(0).type.shape
    begins, ends, steps = (node.constant_ints(k) for k in (1, 2, 3))
    require(
        len(begins) == len(ends) == len(steps) == len(shape),
        f"slice has {len(begins)} begins, {len(ends)} ends and {len(steps)} strides, must have "
        f"{len(shape)} of each",
    )
    _refuse_masks(node)
    begin_mask, end_mask = node.integer("begin_mask"), node.integer("end_mask")
    dropped, offset = node.integer("shrink_axis_mask"), node.integer("offset")
    starts: list[int] = []
    extents: list[int] = []
    for axis, (begin, end, step, extent) in enumerate(zip(begins, ends, steps, shape, strict=True)):
        require(step != 0, f"stride of axis {axis} is 0, must not be")
        bit = 1 << axis
        start = _clamped(None if begin_mask & bit else begin, step, extent, first=True)
        stop = _clamped(None if end_mask & bit else end + offset * start, step, extent, first=False)
        starts.append(start)
        extents.append(1 if dropped & bit else max(0, -((start - stop) // step)))
    return tuple(starts), tuple(extents), steps


def _clamped(index: int | None, step: int, extent: int, *, first: bool) -> int:
    """The index clamped to the axis; None stands for a masked index."""
    lower, upper = (0, extent) if step > 0 else (-1, extent - 1)
    if index is None:
        return lower if first == (step > 0) else upper
    return min(max(index + extent if index < 0 else index, lower), upper)


def _refuse_masks(node: ForeignNode) -> None:
    for mask in ("ellipsis_mask", "new_axis_mask"):
        if node.integer(mask):
            raise node.unsupported(f"{mask} is {node.integer(mask)}, must be 0")
