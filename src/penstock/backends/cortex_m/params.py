"""Parameters that kernels of several families have."""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.ir.op import Site, row_count
from penstock.ir.region import Region
from penstock.ops.add import Add
from penstock.ops.sub import Sub
from penstock.ops.window import Window
from penstock.requantisation.pairs import INPUTS, weighted_sum


def inner_columns(window: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """Members that say which output columns' windows lie inside an axis of `extent`."""
    lower = -(-window.before // window.stride)
    upper = (extent - window.extent + window.before) // window.stride + 1
    return ("inner_lower", lower), ("inner_upper", max(0, upper))


def sum_params(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Members of a kernel that adds tensors of one shape as a weighted sum and a shift; None where
    that is not what the operator says."""
    shape = site.output.shape
    if any(x.shape != shape for x in site.inputs):
        return None
    found = weighted_pairs(op, site)
    least, most = op.activation.bounds(site.output)
    row = (("row_elements", math.prod(shape) // row_count(shape)),)
    return None if found is None else (*row, *found, ("least", least), ("most", most))


def weighted_pairs(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Members that say which weighted sum and shift an operator is; None where it is none."""
    least, most = op.activation.bounds(site.output)
    scales = [x.scale / site.output.scale for x in site.inputs]
    outputs = _every_pair(op, site)
    found = weighted_sum(outputs, scales[0], op.SIGN * scales[1], least, most)
    if found is None:
        return None
    return (
        ("left", found.left),
        ("right", found.right),
        ("offset", found.offset),
        ("shift", found.shift),
    )


def _every_pair(op: Add | Sub, site: Site) -> Int64s:
    """Outputs (256, 256) of all pairs of inputs, by the operator's own arithmetic."""
    shape = (256, 256)
    left, right, output = (type.with_shape(shape) for type in (*site.inputs, site.output))
    a, b = np.broadcast_arrays(INPUTS[:, None], INPUTS)
    inputs = (a.astype(np.int8), b.astype(np.int8))
    pairs = Site((left, right), output, (None, None))
    return op.evaluate(pairs, inputs, Region.whole(shape)).astype(np.int64)
