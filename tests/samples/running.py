"""Samples of the operators of `penstock.ops.running`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, integers, sample, weights
from penstock.choices import Rounding
from penstock.opkit.activation import Activation
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sliding import Window
from penstock.ops.running import AverageLast, RequantiseLast, RunningMax, RunningProduct, RunningSum

SAMPLES = (
    sample(RunningSum(7, Window(6), -3), int8(1, 7, 6, 3)),
    sample(RunningSum(4, Window(3, 2, 1, 1, 1)), int8(1, 5, 6, 2)),
    sample(RunningSum(4, Window(3, 1, 2, 2, 3)), int8(1, 5, 6, 2)),
    sample(RunningMax(7, Window(6)), int8(1, 7, 6, 3)),
    sample(RunningMax(4, Window(3, 2, 1, 1, 1), Activation.RELU), int8(1, 5, 6, 2)),
    sample(RunningMax(4, Window(3, 1, 2, 2, 3)), int8(1, 5, 6, 2)),
    sample(RunningProduct(), int8(1, 7, 3, 2), weights(5, 42), bias(5)),
    sample(RunningProduct(), int8(1, 4, 1, 3, zero=9), weights(2, 12, axis=0), bias(2)),
    sample(AverageLast((35,)), integers(1, 7, 1, 3)),
    sample(AverageLast((8, 12, 9), Activation.RELU), integers(1, 4, 3, 2)),
    sample(RequantiseLast(Multipliers.of([0.002, 0.0004, 0.0001])), integers(1, 7, 1, 3)),
    sample(
        RequantiseLast(Multipliers.of([0.0003] * 2), Activation.RELU, Rounding.SINGLE),
        integers(1, 4, 5, 2),
    ),
)
