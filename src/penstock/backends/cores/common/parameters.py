"""Kernel parameters that several core families use."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from penstock.ir.op import Site, row_count
from penstock.ir.region import Region
from penstock.opkit.window import Window
from penstock.ops.add import Add
from penstock.ops.sub import Sub
from penstock.requantisation.pairs import INPUTS, weighted_sum

PAIRS = (256, 256)
"""Shape of tensors that contain each pair of int8 elements a, b once, at [a + 128, b + 128]."""


def inner_columns(window: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """Return the kernel parameters (name, value) `inner_lower` and `inner_upper`.

    They are the half-open range of output columns whose windows are entirely inside the input, so
    that the kernel need not handle padding there.  Applied to rows, it is the range of output rows.

    window: the windows along the axis.
    extent: number of input columns (or rows)."""
    lower = -(-window.before // window.stride)
    upper = (extent - window.extent + window.before) // window.stride + 1
    return ("inner_lower", lower), ("inner_upper", max(0, upper))


def sum_params(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Return the kernel parameters (name, value) with which an addition or subtraction is computed.

    The kernel computes (a * left + b * right + offset) >> shift for input elements a and b, and
    clamps the result.  Returns None if an input differs in shape from the output, or if no values
    of these constants yield the operator's outputs for all pairs of int8 elements."""
    shape = site.output.shape
    if any(x.shape != shape for x in site.inputs):
        return None
    found = weighted_pairs(op, site)
    least, most = op.activation.bounds(site.output)
    row = (("row_elements", math.prod(shape) // row_count(shape)),)
    return None if found is None else (*row, *found, ("least", least), ("most", most))


def weighted_pairs(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Return the constants of integer arithmetic that equals an addition or subtraction.

    The result contains the (name, value) pairs of `left`, `right`, `offset` and `shift`.  For input
    elements a and b, the output is (a * left + b * right + offset) >> shift, before clamping.
    Returns None if no constants yield the operator's outputs for all pairs of int8 elements."""
    left, right, output = (type.with_shape(PAIRS) for type in (*site.inputs, site.output))
    return _of_every_pair(op, Site((left, right), output, (None, None)))


@lru_cache(maxsize=256)
def _of_every_pair(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Return the result of `weighted_pairs`, derived from the outputs for all pairs of elements.

    site: the types of the operator's tensors with their shape replaced by `PAIRS`, so that the
        inputs contain each pair of int8 elements once.  Operators that differ only in the shapes of
        their tensors therefore share a cached result."""
    least, most = op.activation.bounds(site.output)
    scales = [x.scale / site.output.scale for x in site.inputs]
    a, b = np.broadcast_arrays(INPUTS[:, None], INPUTS)
    inputs = (a.astype(np.int8), b.astype(np.int8))
    outputs = op.evaluate(site, inputs, Region.whole(PAIRS)).astype(np.int64)
    found = weighted_sum(outputs, scales[0], op.SIGN * scales[1], least, most)
    if found is None:
        return None
    return (
        ("left", found.left),
        ("right", found.right),
        ("offset", found.offset),
        ("shift", found.shift),
    )
