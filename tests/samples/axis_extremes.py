"""Samples of the operators of `penstock.ops.axis_extremes`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, reals, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.axis_extremes import ArgMax, ArgMin, ReduceMax, ReduceMin

SAMPLES = (
    sample(ReduceMax((1, 2)), int8(1, 5, 3, 4), scale=0.05, zero=-3),
    sample(ReduceMin((3,)), int8(2, 3, 2, 7), scale=0.05, zero=-3),
    sample(ReduceMin((0,)), int8(3, 4), scale=0.05, zero=-3),
    sample(ReduceMax((2,)), TensorType((1, 4, 3, 5), DType.BOOL)),
    sample(ArgMax(3), int8(2, 3, 4, 5)),
    sample(ArgMin(1), int8(2, 6, 3)),
    sample(ArgMax(1), int8(3, 9)),
    sample(ArgMin(2), reals(2, 3, 4, 5)),
    sample(ArgMax(1), reals(3, 9)),
)
