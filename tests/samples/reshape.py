"""Samples of the operators of `penstock.ops.reshape`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType
from penstock.ops.reshape import Reshape, Shape

SAMPLES = (
    sample(Reshape((1, 40, 1, 6)), int8(1, 40, 6)),
    sample(Reshape((24,)), int8(1, 2, 3, 4)),
    sample(Reshape((2, 12)), int8(2, 3, 4)),
    sample(Shape(), int8(1, 3, 5, 2)),
    sample(Shape(DType.INT64), int8(4)),
)
