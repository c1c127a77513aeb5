"""Sigmoid: what Logistic and Tanh share: the input in Q4.27, and where the output saturates.

Source: TFLite Micro, `micro/kernels/logistic_common.cc` and `tanh.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from penstock.fixedpoint import Int64s, multiply, quantise_multiplier, rounding_shift
from penstock.ir.tensor import Array, TensorType
from penstock.ops.lookup import ELEMENTS, saturated

INTEGER_BITS = 4


def table(
    function: Callable[[Int64s, int], Int64s], x: TensorType, fraction_bits: int, zero: int
) -> Array:
    """Table of a function of Q4.27 that yields Q0.31, rounded to `fraction_bits`; the output
    saturates where the reference says that the input is too large for Q4.27."""
    multiplier, shift = quantise_multiplier(x.scale * 2.0 ** (31 - INTEGER_BITS))
    largest = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS)
    radius = math.floor(math.ldexp(largest, -shift))
    centred = ELEMENTS - x.zero_point
    inside = np.abs(centred) < radius
    q31 = function(multiply(np.where(inside, centred, 0), multiplier, shift), INTEGER_BITS)
    rounded = rounding_shift(q31, 31 - fraction_bits) + zero
    return saturated(np.where(inside, rounded, np.sign(centred) * 1024))
