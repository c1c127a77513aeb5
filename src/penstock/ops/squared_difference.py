"""SquaredDifference: element-wise (a - b)^2 with requantisation; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + My * (Ma * ((a - zero_a) << 7) - Mb * ((b - zero_b) << 7))^2)

    PlainSquaredDifference  int32 (modulo 2^32) or float32, all three   y = (a - b)^2

Source: TFLite SQUARED_DIFFERENCE; `micro/kernels/squared_difference.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise, Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.lookup import saturated
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.samples import int8, integers, reals, sample

EXTRA_BITS = 7
LARGEST = (255 << EXTRA_BITS) ** 2
"""Largest square of a difference: each term is at most half of 255 << EXTRA_BITS."""


@dataclass(frozen=True, slots=True)
class SquaredDifference(Elementwise):
    """The square of the difference of two tensors."""

    TFLITE = ("SQUARED_DIFFERENCE",)
    COMMUTATIVE = True

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, "squared difference")

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        multipliers, (result_m, result_s) = _multipliers(site)
        a, b = (
            multiply((broadcast.take(x, type, out) - type.zero_point) << EXTRA_BITS, *multiplier)
            for x, type, multiplier in zip(inputs, site.inputs, multipliers, strict=True)
        )
        return saturated(multiply((a - b) ** 2, result_m, result_s) + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        (left, right), (result_m, result_s) = _multipliers(site)
        return Kernel(
            "squared_difference_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("multiplier0", left[0]),
                ("multiplier1", right[0]),
                ("shift0", left[1]),
                ("shift1", right[1]),
                ("out_multiplier", result_m),
                ("out_shift", result_s),
                ("out_zero", site.output.zero_point),
            ),
            by_rows=True,
        )


def _multipliers(site: Site) -> tuple[tuple[tuple[int, int], tuple[int, int]], tuple[int, int]]:
    """(multiplier, shift) of each input and of the result."""
    a, b = (x.scale for x in site.inputs)
    twice_largest = 2 * max(a, b)
    unit = (1 << 2 * EXTRA_BITS) * site.output.scale
    inputs = quantise_multiplier(a / twice_largest), quantise_multiplier(b / twice_largest)
    return inputs, fitting_multiplier(twice_largest * twice_largest / unit, LARGEST)


def _squared(a: Array, b: Array) -> Array:
    return np.square(np.subtract(a, b))


@dataclass(frozen=True, slots=True)
class PlainSquaredDifference(Plain):
    """The square of the difference of two tensors of plain numbers."""

    INPUTS = 2
    ARITHMETIC = arithmetic("squared_difference", int32=_squared, float32=_squared)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SQUARED_DIFFERENCE."""
    yield from typed_nodes(node, PlainSquaredDifference(), SquaredDifference())


SAMPLES = (
    sample(SquaredDifference(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(SquaredDifference(), int8(2, 4, 3, 5), int8(4, 1, 1), scale=0.3, zero=-128),
    sample(PlainSquaredDifference(), reals(2, 4, 3, 5), reals(4, 1, 5)),
    sample(PlainSquaredDifference(), integers(1, 4, 3, 5), integers(1)),
)
