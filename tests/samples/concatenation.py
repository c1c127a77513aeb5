"""Samples of the operators of `penstock.ops.concatenation`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.concatenation import Concatenation

SAMPLES = (
    sample(Concatenation(1), int8(1, 3, 2, 4), int8(1, 1, 2, 4), int8(1, 2, 2, 4)),
    sample(Concatenation(3), int8(2, 3, 2, 3), int8(2, 3, 2, 5)),
    sample(Concatenation(2), int8(1, 3, 2, 3), int8(1, 3, 1, 3)),
    sample(Concatenation(0), TensorType((3,), DType.INT32), TensorType((1,), DType.INT32)),
)
