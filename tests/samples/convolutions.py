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
from penstock.ops.convolutions import (
    Conv2D,
    DepthwiseConv2D,
    PlainConv2D,
    PlainDepthwiseConv2D,
)

_STATED = Multipliers((514, -577, 901, 700), (15,) * 4, (-90000, 2**21, 77, -40000))

SAMPLES = (
    sample(
        Conv2D(Window(3, 2, 1, 1, 1), Window(3, 1, 1, 1, 0), Activation.RELU),
        int8(1, 7, 6, 3),
        weights(5, 3, 3, 3, axis=0),
        bias(5),
    ),
    sample(
        Conv2D(Window(2, 1, 2, 1, 1), Window(3, 2, 2)),
        int8(2, 6, 9, 4),
        weights(6, 2, 3, 2),
        bias(6),
    ),
    sample(
        Conv2D(Window(2, 1, 2, 1, 1), Window(3, 2, 1, 0, 2)),
        int8(1, 6, 5, 4),
        wide_weights(6, 2, 3, 2),
        bias(6),
    ),
    sample(Conv2D(Window(1), Window(1)), int8(1, 5, 4, 8), weights(3, 1, 1, 8, axis=0), bias(3)),
    sample(
        Conv2D(Window(3, 1, 1, 1, 1), Window(3), stated=_STATED),
        int8(1, 6, 5, 5),
        weights(4, 3, 3, 5),
        bias(4),
    ),
    sample(
        PlainConv2D(Window(3, 2, 1, 1, 1), Window(3, 1, 1, 1, 0), Limits(-0.5, 0.75)),
        reals(1, 7, 6, 3),
        real_weights(5, 3, 3, 3),
        real_bias(5),
    ),
    sample(
        PlainConv2D(Window(2, 1, 2, 1, 1), Window(3, 2, 2)),
        reals(2, 6, 9, 4),
        real_weights(6, 2, 3, 2),
        real_bias(6),
    ),
    sample(
        PlainConv2D(Window(2, 1, 1, 1, 0), Window(3, 1, 1, 1, 1)),
        reals(1, 4, 5, 3),
        narrow_weights(5, 2, 3, 3),
        real_bias(5),
    ),
    sample(
        PlainConv2D(Window(1), Window(1)), reals(1, 5, 4, 8), real_weights(3, 1, 1, 8), real_bias(3)
    ),
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
