"""Samples of the operators of `penstock.ops.gather`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, integers, reals, sample
from penstock.ops.gather import Gather, GatherNd

SAMPLES = (
    sample(GatherNd(), int8(2, 4, 3, 5), integers(1, 7, 4), scale=0.05, zero=-3),
    sample(GatherNd(), int8(4, 3, 5), integers(6, 1), scale=0.05, zero=-3),
    sample(GatherNd(), reals(4, 3, 5), integers(2, 3, 2)),
    sample(Gather(3, (3, 0, 3)), int8(1, 3, 4, 5)),
    sample(Gather(1, (2, 2, 0, 1)), int8(2, 3, 2, 4)),
    sample(Gather(0, (1, 3)), int8(4, 3)),
)
