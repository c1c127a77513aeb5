"""Samples of the operators of `penstock.ops.integer_vectors`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, sample
from penstock.ops.integer_vectors import DIFFERENCES, IntegerNorm, RatioSoftmax, ShiftSoftmax

_POWERS = tuple((90 - d) ** 2 + 4000 >> d // 30 for d in range(DIFFERENCES))

SAMPLES = (
    sample(RatioSoftmax(_POWERS, 255), int8(2, 3, 4, 7), zero=-128),
    sample(RatioSoftmax(_POWERS, 15), int8(5, 11), zero=0),
    sample(ShiftSoftmax(255), int8(2, 3, 4, 7), zero=-128),
    sample(ShiftSoftmax(127, 3), int8(5, 12), zero=0),
    sample(IntegerNorm(True, 6), int8(2, 3, 4, 7, zero=-128), bias(7), bias(7), zero=0),
    sample(IntegerNorm(False, 7), int8(5, 11), bias(11), bias(11), zero=3),
)
