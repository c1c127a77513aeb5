"""Samples of the operators of `penstock.ops.fully_connected`."""

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
    wide_weights,
)
from penstock.opkit.activation import Activation, Limits
from penstock.opkit.requantise import Multipliers
from penstock.ops.fully_connected import FullyConnected, PlainFullyConnected

SAMPLES = (
    sample(FullyConnected(Activation.RELU), int8(1, 12), weights(5, 12), bias(5)),
    sample(FullyConnected(), int8(3, 2, 4), weights(7, 8, axis=0), bias(7)),
    sample(FullyConnected(), int8(2, 9), wide_weights(5, 9), bias(5)),
    sample(FullyConnected(keep_dimensions=True), int8(2, 3, 4), weights(5, 4), bias(5)),
    sample(PlainFullyConnected(Limits(-0.5, 0.5)), reals(1, 12), real_weights(5, 12), real_bias(5)),
    sample(PlainFullyConnected(), reals(3, 2, 4), real_weights(7, 8), real_bias(7)),
    sample(PlainFullyConnected(), reals(2, 9), narrow_weights(5, 9), real_bias(5)),
    sample(
        PlainFullyConnected(keep_dimensions=True), reals(2, 3, 4), real_weights(5, 4), real_bias(5)
    ),
    sample(
        FullyConnected(stated=Multipliers((514, -77, 901), (15,) * 3, (-90000, 2**21, 77))),
        int8(2, 12),
        weights(3, 12),
        bias(3),
    ),
)
