"""Samples of the operators of `penstock.ops.row_vectors`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, reals, sample
from penstock.ir.tensor import DType
from penstock.ops.row_vectors import (
    L2Normalization,
    LogSoftmax,
    PlainL2Normalization,
    PlainLogSoftmax,
    PlainSoftmax,
    Softmax,
)

SAMPLES = (
    sample(Softmax(), int8(1, 10, scale=0.1), scale=1 / 256, zero=-128),
    sample(Softmax(2.0), int8(2, 3, 4, 7, scale=0.02), scale=1 / 256, zero=-128),
    sample(PlainSoftmax(), reals(2, 3, 4, 7)),
    sample(PlainSoftmax(0.5), reals(13)),
    sample(Softmax(1.0, DType.INT16), int8(3, 2, 5, scale=0.1), scale=1 / 65536, zero=-32768),
    sample(LogSoftmax(), int8(2, 10, scale=0.1), scale=1 / 16, zero=127),
    sample(LogSoftmax(), int8(2, 3, 4, 7, scale=0.02), scale=1 / 16, zero=127),
    sample(PlainLogSoftmax(), reals(2, 3, 4, 7)),
    sample(PlainLogSoftmax(), reals(13)),
    sample(L2Normalization(), int8(3, 11), scale=1 / 128, zero=0),
    sample(L2Normalization(), int8(2, 3, 4, 7, zero=0), scale=1 / 128, zero=0),
    sample(PlainL2Normalization(), reals(2, 3, 4, 7)),
)
