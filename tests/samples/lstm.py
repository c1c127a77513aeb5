"""Samples of the operators of `penstock.ops.lstm`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, sample, weights
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.ops.lstm import Lstm, LstmHidden


def _cell(batch: int, units: int, integer_bits: int = 4) -> TensorType:
    return TensorType(
        (batch, units), DType.INT16, Quantisation((2.0 ** (integer_bits - 15),), (0,))
    )


SAMPLES = (
    sample(LstmHidden(), TensorType((1, 4, 2, 6), DType.INT16)),
    sample(LstmHidden(), TensorType((1, 3, 1, 10), DType.INT16)),
    sample(
        Lstm(),
        int8(1, 5, 1, 3),
        int8(1, 4, scale=1 / 128, zero=3),
        _cell(1, 4),
        weights(16, 3, axis=0, scale=0.004),
        weights(16, 4, axis=0, scale=0.004),
        bias(16),
    ),
    sample(
        Lstm(4000),
        int8(1, 3, 2, 5, zero=9),
        int8(2, 3, scale=0.006, zero=-20),
        _cell(2, 3, 2),
        weights(12, 5, scale=0.01),
        weights(12, 3, scale=0.01),
        bias(12),
    ),
)
