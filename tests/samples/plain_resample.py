"""Samples of the operators of `penstock.ops.plain_resample`."""

from __future__ import annotations

from benchmarks.small_tensors import reals, sample
from penstock.ops.plain_resample import PlainResample, RealTaps

SAMPLES = (
    sample(
        PlainResample(
            RealTaps((0, 1, 1, 2, 3, 3), (0.75, 0.25, 0.5, 0.5, 1.25, -0.25), 2),
            RealTaps((0, 4, 2), (1.0, 0.5, 2.0), 1),
        ),
        reals(2, 4, 5, 3),
    ),
    sample(
        PlainResample(
            RealTaps.unchanged(3), RealTaps((0, 1, 2, 2, 3, 3), (0.1, 0.7, 0.2, 0.3, 0.3, 0.4), 3)
        ),
        reals(1, 3, 4, 2),
    ),
)
