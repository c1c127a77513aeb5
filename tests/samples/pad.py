"""Samples of the operators of `penstock.ops.pad`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.pad import MirrorPad, Pad

SAMPLES = (
    sample(MirrorPad((0, 1, 2, 0), (0, 2, 3, 0), 1), int8(1, 5, 4, 3)),
    sample(MirrorPad((0, 2, 0, 1), (1, 0, 3, 2), 0), int8(1, 3, 4, 2)),
    sample(Pad((0, 1, 2, 0), (0, 2, 1, 0), -7), int8(1, 5, 4, 3)),
    sample(Pad((1, 0, 0, 1), (0, 3, 0, 2), 9), int8(2, 3, 2, 2)),
    sample(Pad((0, 0, 0, 0), (0, 0, 0, 5), -7), int8(1, 5, 4, 3)),
    sample(Pad((0, 0, 0, 0), (0, 0, 0, 1), 4), int8(2, 3, 4, 6)),
    sample(Pad((2, 1), (0, 3), 0), TensorType((3, 4), DType.INT16)),
)
