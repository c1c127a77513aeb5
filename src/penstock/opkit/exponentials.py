"""Tables of exponentials of int8 differences to a row's maximum, for Softmax and LogSoftmax.

Source: TFLite, `PreprocessSoftmaxScaling` and `CalculateInputRadius` (quantization_util.cc).
"""

from __future__ import annotations

import numpy as np

from penstock.fixedpoint import Int64s, multiply, quantise_multiplier
from penstock.opkit.transcendental import exp_on_negative_values

DIFFERENCE_BITS = 5
"""Integer bits of the scaled difference: Q5.26."""
SUM_BITS = 12
"""Integer bits of the sum of exponentials: Q12.19."""
MOST_ELEMENTS = 4095
"""Exponentials, each at most 1, whose sum fits Q12.19."""

_COUNTLESS = -(1 << 31)


def scaled_differences(scale: float) -> Int64s:
    """-d * scale in Q5.26 for d = 0 .. 255; -2**31 where d exceeds the input radius."""
    real = min(scale * 2 ** (31 - DIFFERENCE_BITS), 2**31 - 1.0)
    multiplier, shift = quantise_multiplier(real)
    largest = ((1 << DIFFERENCE_BITS) - 1) * 2.0 ** (31 - DIFFERENCE_BITS) / 2.0**shift
    differences = -np.arange(256, dtype=np.int64)
    counted = differences >= -int(largest)
    scaled = multiply(np.where(counted, differences, 0), multiplier, shift)
    return np.where(counted, scaled, _COUNTLESS)


def exp_table(scale: float) -> Int64s:
    """exp(-d * scale) in Q0.31 for d = 0 .. 255; 0 where d exceeds the input radius."""
    scaled = scaled_differences(scale)
    counted = scaled > _COUNTLESS
    return np.where(
        counted, exp_on_negative_values(np.where(counted, scaled, 0), DIFFERENCE_BITS), 0
    )
