"""Samples of the operators of `penstock.ops.dynamic_range`."""

from __future__ import annotations

from benchmarks.small_tensors import reals, sample
from penstock.ops.dynamic_range import DynamicZero

SAMPLES = (
    sample(DynamicZero(), reals(1, 4, 1, 1), reals(1, 4, 1, 1)),
    sample(DynamicZero(), reals(2, 3, 1, 5), reals(2, 1, 1, 5)),
)
