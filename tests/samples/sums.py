"""Samples of the operators of `penstock.ops.sums`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, reals, sample
from penstock.ops.sums import Mean, PlainSum, Sum

SAMPLES = (
    sample(PlainSum((1, 2)), reals(1, 5, 3, 4)),
    sample(PlainSum((3,)), reals(2, 3, 2, 7)),
    sample(PlainSum((0, 2)), reals(3, 2, 5)),
    sample(Mean((1, 2)), int8(1, 5, 3, 4), scale=0.03),
    sample(Mean((3,)), int8(2, 3, 2, 7), scale=0.03),
    sample(Mean((0, 2)), int8(3, 2, 5), scale=0.03),
    sample(Sum((1, 2)), int8(1, 5, 3, 4), scale=0.4),
    sample(Sum((1,)), int8(3, 9), scale=0.2),
)
