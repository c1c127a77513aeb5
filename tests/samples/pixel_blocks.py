"""Samples of the operators of `penstock.ops.pixel_blocks`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ops.pixel_blocks import BatchToSpace, DepthToSpace, SpaceToBatch, SpaceToDepth

SAMPLES = (
    sample(BatchToSpace((2, 3)), int8(6, 2, 3, 2)),
    sample(BatchToSpace((2,)), int8(4, 3, 2)),
    sample(SpaceToBatch((2, 3)), int8(2, 4, 6, 2)),
    sample(SpaceToBatch((2,)), int8(1, 6, 3)),
    sample(DepthToSpace(2), int8(1, 3, 2, 12)),
    sample(DepthToSpace(3), int8(2, 2, 1, 9)),
    sample(DepthToSpace(2, channels_first=True), int8(1, 3, 2, 12)),
    sample(SpaceToDepth(2), int8(1, 4, 6, 3)),
    sample(SpaceToDepth(3), int8(2, 3, 6, 1)),
)
