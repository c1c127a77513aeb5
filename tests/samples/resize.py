"""Samples of the operators of `penstock.ops.resize`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.opkit.resize import Sampling
from penstock.ops.resize import (
    Resample,
    ResizeBilinear,
    ResizeNearest,
    Taps,
    UnsignedResizeBilinear,
)

SAMPLES = (
    sample(
        Resample(
            Taps((0, 0, 1, 2, 2), (2048, 0, 1024, 1024, 819, 1229, 1500, 548, 0, 2048)),
            Taps((0, 1, 3), (1365, 683, 683, 1365, 1024, 1024)),
        ),
        int8(1, 4, 5, 3),
        scale=0.04,
        zero=7,
    ),
    sample(
        Resample(Taps((0, 1), (-192, 1216, 1024, 1000, 1240, -192)), Taps((0, 1), (2048, 2048))),
        int8(2, 4, 2, 2),
        scale=0.06,
    ),
    sample(ResizeBilinear(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeBilinear(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeBilinear(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
    sample(UnsignedResizeBilinear(8, 6), int8(1, 4, 3, 5)),
    sample(UnsignedResizeBilinear(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(UnsignedResizeBilinear(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
    sample(ResizeNearest(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeNearest(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeNearest(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
)
