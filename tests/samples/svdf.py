"""Samples of the operators of `penstock.ops.svdf`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, sample, weights, wide_weights
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.ops.svdf import SvdfFeature, SvdfTime


def _int16(*shape: int) -> TensorType:
    return TensorType(shape, DType.INT16, Quantisation((0.0004,), (0,)))


SAMPLES = (
    sample(SvdfFeature(), int8(1, 9), weights(6, 9), scale=0.0003, zero=0),
    sample(SvdfFeature(DType.INT8), int8(1, 4), weights(5, 4), scale=0.02, zero=-9),
    sample(SvdfTime(), _int16(1, 5, 1, 6), wide_weights(6, 5), bias(6), scale=0.2),
    sample(SvdfTime(2), _int16(1, 3, 1, 6), wide_weights(6, 3), bias(3), scale=0.3),
    sample(SvdfTime(3), int8(1, 4, 1, 9, zero=11), weights(9, 4), bias(3), scale=0.1),
)
