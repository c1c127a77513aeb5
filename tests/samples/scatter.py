"""Samples of the operators of `penstock.ops.scatter`."""

from __future__ import annotations

from benchmarks.small_tensors import integers, reals, sample
from penstock.ops.scatter import Reduction, ScatterNd

SAMPLES = (
    sample(ScatterNd(), reals(4, 3, 5), integers(2, 1), reals(2, 3, 5)),
    sample(ScatterNd(Reduction.ADD), reals(2, 7), integers(3, 2), reals(3)),
    *(
        sample(ScatterNd(r), integers(4, 5), integers(3, 1), integers(3, 5))
        for r in list(Reduction)[1:]
    ),
    sample(ScatterNd(Reduction.MAX), reals(9), integers(6, 1), reals(6)),
)
