"""Kernel parameters that several core families compute alike."""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.ir.op import Site, row_count
from penstock.ir.region import Region
from penstock.opkit.window import Window
from penstock.ops.add import Add
from penstock.ops.sub import Sub
from penstock.requantisation.pairs import INPUTS, weighted_sum


def inner_columns(window: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """Parameters `inner_lower`, `inner_upper`: the half-open range of outputs whose windows lie
    entirely inside an axis of `extent` elements."""
    lower = -(-window.before // window.stride)
    upper = (extent - window.extent + window.before) // window.stride + 1
    return ("inner_lower", lower), ("inner_upper", max(0, upper))


def sum_params(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Parameters of a kernel that adds tensors of equal shape as a weighted sum and a shift.

    Returns None if shapes differ or no weighted sum equals the operator on all inputs."""
    shape = site.output.shape
    if any(x.shape != shape for x in site.inputs):
        return None
    found = weighted_pairs(op, site)
    least, most = op.activation.bounds(site.output)
    row = (("row_elements", math.prod(shape) // row_count(shape)),)
    return None if found is None else (*row, *found, ("least", least), ("most", most))


def weighted_pairs(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Parameters of the weighted sum and shift that equals the operator on all pairs of int8
    inputs; None if there is none."""
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
    """Outputs (256, 256) for all pairs of int8 inputs, computed by the operator itself."""
    shape = (256, 256)
    left, right, output = (type.with_shape(shape) for type in (*site.inputs, site.output))
    a, b = np.broadcast_arrays(INPUTS[:, None], INPUTS)
    inputs = (a.astype(np.int8), b.astype(np.int8))
    pairs = Site((left, right), output, (None, None))
    return op.evaluate(pairs, inputs, Region.whole(shape)).astype(np.int64)
