"""Samples of the operators of `penstock.ops.pool`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, reals, sample
from penstock.opkit.activation import Activation, Limits
from penstock.opkit.sliding import Window
from penstock.ops.pool import (
    AveragePool2D,
    MaxPool2D,
    PlainAveragePool2D,
    PlainMaxPool2D,
    UnsignedAveragePool2D,
)

SAMPLES = (
    sample(AveragePool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)), int8(1, 7, 6, 3)),
    sample(AveragePool2D(Window(4, 4), Window(5, 5), Activation.RELU), int8(2, 4, 5, 2)),
    sample(UnsignedAveragePool2D(Window(2, 2, 2, 1, 1), Window(2, 1, 1, 1, 1)), int8(1, 6, 5, 3)),
    sample(AveragePool2D(Window(3, 2, 2, 2, 1), Window(2, 1, 3, 1, 2)), int8(2, 7, 6, 9)),
    sample(AveragePool2D(Window(4, 1, 2, 2, 1), Window(4, 2, 2, 1, 2)), int8(1, 7, 6, 16)),
    sample(MaxPool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)), int8(1, 7, 6, 3)),
    sample(MaxPool2D(Window(2, 2), Window(2, 2), Activation.RELU), int8(2, 4, 6, 2)),
    sample(MaxPool2D(Window(3, 2, 2, 2, 1), Window(2, 1, 3, 1, 4)), int8(2, 7, 6, 9)),
    *(
        sample(op, reals(2, 7, 6, 3))
        for op in (
            PlainAveragePool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)),
            PlainAveragePool2D(Window(3, 1, 1, 1, 1), Window(2, 2), Limits(-0.2, 0.3), divisor=6),
            PlainMaxPool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)),
            PlainMaxPool2D(Window(3, 2, 2, 2, 1), Window(2, 1, 3, 1, 2), Limits(0.1, 0.5)),
        )
    ),
)
