"""Samples of the operators of `penstock.ops.transpose`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.transpose import ExchangeAxes, Transpose

SAMPLES = (
    sample(Transpose((0, 2, 1, 3)), int8(1, 3, 4, 5)),
    sample(Transpose((0, 3, 1, 2)), int8(2, 3, 4, 5)),
    sample(Transpose((0, 1, 2, 4, 3)), int8(1, 2, 3, 2, 4)),
    sample(Transpose((1, 0)), TensorType((3, 4), DType.INT32)),
    sample(ExchangeAxes(), int8(1, 3, 5, 7)),
    sample(ExchangeAxes(), int8(1, 6, 4, 1)),
    sample(ExchangeAxes(), TensorType((9, 2, 5), DType.INT32)),
)
