"""Sigmoid: shared by Logistic and Tanh: input in Q4.27, and saturation of the output.

Source: TFLite Micro, `micro/kernels/logistic_common.cc` and `tanh.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from penstock.fixedpoint import Int64s, multiply, quantise_multiplier, rounding_shift
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.lookup import ELEMENTS, saturated

INTEGER_BITS = 4
INT8_MIN, INT8_MAX = -128, 127


def table(
    function: Callable[[Int64s, int], Int64s], x: TensorType, fraction_bits: int, zero: int
) -> Array:
    """Table of a function from Q4.27 to Q0.31, rounded to `fraction_bits`.

    The output saturates where the reference considers the input too large for Q4.27."""
    real = x.scale * 2.0 ** (31 - INTEGER_BITS)
    largest = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS)
    radius = math.floor(math.ldexp(largest, -math.frexp(real)[1]))
    centred = ELEMENTS - x.zero_point
    below, above = centred <= -radius, centred >= radius
    if radius == 0:  # the scale is 8 or more: a step, low at the zero point itself
        return np.where(below, INT8_MIN, INT8_MAX).astype(np.int8)
    q4 = multiply(np.where(below | above, 0, centred), *quantise_multiplier(real))
    rounded = rounding_shift(function(q4, INTEGER_BITS), 31 - fraction_bits) + zero
    return saturated(np.select([below, above], [INT8_MIN, INT8_MAX], rounded))
