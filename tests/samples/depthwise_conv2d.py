"""Samples of the operators of `penstock.ops.convolutions`."""

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
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import DepthwiseConv2D, PlainDepthwiseConv2D

SAMPLES = (
    sample(
        DepthwiseConv2D(Window(3, 2, 1, 0, 1), Window(3, 1, 1, 1, 1), 1, Activation.RELU6),
        int8(1, 8, 5, 4),
        weights(1, 3, 3, 4, axis=3),
        bias(4),
    ),
    sample(
        DepthwiseConv2D(Window(2, 1, 2, 1, 1), Window(4, 2, 1, 1, 2), 3),
        int8(2, 5, 7, 2),
        weights(1, 2, 4, 6, axis=3),
        bias(6),
    ),
    sample(
        PlainDepthwiseConv2D(Window(3, 2, 1, 0, 1), Window(3, 1, 1, 1, 1), 1, Limits(-0.25, 0.5)),
        reals(1, 8, 5, 7),
        real_weights(1, 3, 3, 7),
        real_bias(7),
    ),
    sample(
        PlainDepthwiseConv2D(Window(2, 1, 2, 1, 1), Window(4, 2, 1, 1, 2), 3),
        reals(2, 5, 7, 2),
        real_weights(1, 2, 4, 6),
        real_bias(6),
    ),
    sample(
        PlainDepthwiseConv2D(Window(3, 1, 1, 1, 1), Window(2, 1, 1, 0, 1), 1),
        reals(1, 4, 5, 6),
        narrow_weights(1, 3, 2, 6),
        real_bias(6),
    ),
    sample(
        DepthwiseConv2D(Window(3, 2, 1, 1, 1), Window(2, 1, 2, 1, 2), 2),
        int8(1, 7, 6, 3),
        wide_weights(1, 3, 2, 6),
        bias(6),
    ),
    sample(
        DepthwiseConv2D(
            Window(3, 1, 1, 1, 1),
            Window(3),
            stated=Multipliers((514, 2900), (15, 15), (-90000, 2**20)).repeated(2),
        ),
        int8(1, 6, 5, 4),
        weights(1, 3, 3, 4),
        bias(4),
    ),
)
