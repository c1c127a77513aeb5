"""Samples of the operators of `penstock.ops.tile`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ops.tile import Tile

SAMPLES = (
    sample(Tile((1, 2, 1, 3)), int8(1, 3, 4, 2)),
    sample(Tile((2, 1, 5, 1)), int8(2, 3, 1, 4)),
    sample(Tile((2, 1, 1, 1, 2)), int8(2, 2, 1, 3, 2)),
    sample(Tile((3, 2)), int8(1, 4)),
)
