"""Samples of the operators of `penstock.ops.cumsum`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, integers, reals, sample
from penstock.ops.cumsum import Cumsum, PlainCumsum

SAMPLES = (
    sample(Cumsum(1), int8(2, 4, 3, 5)),
    sample(Cumsum(0, exclusive=True, reverse=True), int8(4, 5)),
    sample(PlainCumsum(1), reals(2, 4, 3, 5)),
    sample(PlainCumsum(3, exclusive=True), reals(1, 4, 3, 5)),
    sample(PlainCumsum(0, reverse=True), integers(4, 5)),
    sample(PlainCumsum(2, exclusive=True, reverse=True), reals(1, 4, 3, 5)),
)
