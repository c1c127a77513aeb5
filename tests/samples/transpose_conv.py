"""Samples of the operators of `penstock.ops.transpose_conv`."""

from __future__ import annotations

from benchmarks.small_tensors import (
    bias,
    int8,
    narrow_weights,
    real_bias,
    real_weights,
    reals,
    sample,
    weights,
)
from penstock.opkit.activation import Activation, Limits
from penstock.ops.transpose_conv import PlainTransposeConv, Spread, TransposeConv

SAMPLES = (
    sample(
        TransposeConv(Spread(10, 3, 2, 0), Spread(8, 3, 2, 1), Activation.RELU),
        int8(1, 5, 4, 3),
        weights(4, 3, 3, 3, axis=0),
        bias(4),
    ),
    sample(
        TransposeConv(Spread(7, 2, 3, 0), Spread(4, 3, 1, 1)),
        int8(2, 3, 4, 2),
        weights(3, 2, 3, 2),
        bias(3),
    ),
    sample(
        PlainTransposeConv(Spread(9, 3, 2, 0), Spread(8, 2, 2, 0), Limits(-0.5, 0.75)),
        reals(1, 4, 4, 3),
        real_weights(5, 3, 2, 3),
        real_bias(5),
    ),
    sample(
        PlainTransposeConv(Spread(5, 3, 1, 1), Spread(9, 4, 2, 1)),
        reals(2, 5, 4, 2),
        real_weights(2, 3, 4, 2),
        real_bias(2),
    ),
    sample(
        PlainTransposeConv(Spread(5, 3, 1, 1), Spread(9, 4, 2, 1)),
        reals(1, 5, 4, 3),
        narrow_weights(5, 3, 4, 3),
        real_bias(5),
    ),
)
