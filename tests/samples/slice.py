"""Samples of the operators of `penstock.ops.slice`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.slice import Slice

SAMPLES = (
    sample(Slice((0, 2, 1, 1), (1, 3, 3, 2), (1, 1, 1, 1)), int8(1, 6, 5, 4)),
    sample(Slice((0, 1, 4, 0), (1, 3, 2, 3), (1, 2, -2, 1)), int8(1, 7, 6, 3)),
    sample(Slice((0, 0, 0, 1), (1, 3, 2, 2), (1, 1, 1, 1)), int8(1, 3, 2, 4)),
    sample(Slice((2, 3), (2, 2), (-1, -2)), int8(4, 5)),
    sample(Slice((1,), (2,), (2,)), TensorType((5,), DType.INT32)),
)
