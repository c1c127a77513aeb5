"""Kernel parameters that several core families use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps

import numpy as np

from penstock.ir.element_types import ElementTypes
from penstock.ir.op import Kernel, Op, Site, row_count
from penstock.ir.region import Region
from penstock.opkit.sliding import Window
from penstock.ops.add import Add
from penstock.ops.sub import Sub
from penstock.requantisation.form import INPUTS, weighted_sum


def inner_columns(window: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """Return the kernel parameters (name, value) `inner_lower` and `inner_upper`.

    They are the half-open range of output columns whose windows are entirely inside the input, so
    that the kernel need not handle padding there.  Applied to rows, it is the range of output rows.

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
    Returns None if no constants yield the operator's outputs for all pairs of elements: of int8
    values or, if an input is constant, of its elements."""
    values = [
        INPUTS if constant is None else np.unique(site.constant(k))
        for k, constant in enumerate(site.constants)
    ]
    shape = len(values[0]), len(values[1])
    left, right, output = (type.with_shape(shape) for type in (*site.inputs, site.output))
    pairs = Site((left, right), output, (None, None))
    return _of_every_pair(op, pairs, tuple(values[0].tolist()), tuple(values[1].tolist()))


@lru_cache(maxsize=256)
def _of_every_pair(
    op: Add | Sub, site: Site, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[tuple[str, int], ...] | None:
    least, most = op.activation.bounds(site.output)
    scales = [x.scale / site.output.scale for x in site.inputs]
    inputs = np.array(left, np.int64), np.array(right, np.int64)
    a, b = (each.astype(np.int8) for each in np.meshgrid(*inputs, indexing="ij"))
    outputs = op.evaluate(site, (a, b), Region.whole(site.output.shape)).astype(np.int64)
    found = weighted_sum(inputs, outputs, scales[0], op.SIGN * scales[1], least, most)
    if found is None:
        return None
    return (
        ("left", found.left),
        ("right", found.right),
        ("offset", found.offset),
        ("shift", found.shift),
    )


# Restriction of functions that choose kernels to the element types that the kernels support.


# Returns a kernel for an operator, or None if there is none.
Choice = Callable[[Op, Site], Kernel | None]


def for_element_types(types: Mapping[type[Op], ElementTypes]) -> Callable[[Choice], Choice]:
    """Return a decorator that restricts a function that chooses kernels to some element types.

    The decorated function returns None ("no kernel of this family") for an operator that is not in
    `types`, or whose inputs or output have other element types."""

    def decorate(choose: Choice) -> Choice:
        @wraps(choose)
        def checked(op: Op, site: Site) -> Kernel | None:
            declared = types.get(type(op))
            if declared is None or declared.mismatch(site):
                return None
            return choose(op, site)

        return checked

    return decorate
