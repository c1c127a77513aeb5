"""Calibration: scales, zero points and biases by which activations use their range.

A layer's weights are int8 numbers without a unit until their scales are chosen.  Here the scales
and the bias of every output channel are chosen so that on the calibration inputs its values before
the activation have a spread and a mean of their own, drawn from `SPREADS` and `MEANS`: what folding
a batch normalisation leaves behind.  So signals neither fade nor explode with depth, and no channel
is dead.  Idea: data-dependent initialisation, Krähenbühl et al. 2015 (arXiv:1511.06856) and Mishkin
and Matas 2015 (arXiv:1511.06422).

Spread is the mean absolute deviation, not the standard deviation: of whole accumulators it is a
quotient of two whole numbers, and so the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.frontends.dice import Dice
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.ops.activation import Activation

SPREADS = {True: (0.7, 1.5), False: (0.8, 2.4)}
"""Interval of a channel's mean absolute deviation, in real units, with a clamp at 0 or without."""
MEANS = {True: (0.0, 1.5), False: (-1.0, 1.0)}
"""Interval of a channel's mean.  With a clamp, about a third of the values become 0, and of values
that are clamped at 6, as in MobileNets, less than one in fifty does."""
LEAST_SAMPLES = 16
"""Below so many values per channel, channels share one deviation.  With one value per channel its
mean cannot be taken off: the value itself counts as the deviation."""
MOST_SAMPLES = 4096
"""Statistics of a channel take about so many values, evenly spaced."""
MARGIN = 1 / 16
"""The range is wider by this share than what was seen, at each end that is not 0."""
SMALL_MARGIN = 1 / 3
"""The same where few values were seen, so that the next ones may well lie outside."""
FEW_ELEMENTS = 1024


@dataclass(frozen=True, slots=True)
class Fit:
    """Weight scales of a layer, one or one per channel, and its biases."""

    scales: tuple[float, ...]
    bias: Array

    def interval(self, sums: Array, x_scale: float) -> tuple[float, float]:
        """Smallest and largest real value before the activation."""
        rows = sums.reshape(-1, sums.shape[-1])
        units = np.array(self.scales) * x_scale
        least = (rows.min(axis=0).astype(np.float64) + self.bias) * units
        most = (rows.max(axis=0).astype(np.float64) + self.bias) * units
        return float(least.min()), float(most.max())

    def outputs(self, sums: Array, x_scale: float, y: TensorType, bounds: tuple[int, int]) -> Array:
        """The layer's elements as type `y`, up to one rounding step."""
        factors = np.array(self.scales) * (x_scale / y.scale)
        offsets = self.bias * factors + y.zero_point
        scaled = sums * factors.astype(np.float32)
        scaled += offsets.astype(np.float32)
        np.rint(scaled, out=scaled)
        np.clip(scaled, *bounds, out=scaled)
        return scaled.astype(np.int8)


def fit(sums: Array, x_scale: float, activation: Activation, dice: Dice, per_channel: bool) -> Fit:
    """Scales and biases of a layer whose accumulators are `sums` (..., channels)."""
    channels = sums.shape[-1]
    clamped = activation.value[0] == 0.0
    spreads = dice.uniform(channels, *SPREADS[clamped])
    means = dice.uniform(channels, *MEANS[clamped])
    rows = sums.reshape(-1, channels)
    middle, deviation = _statistics(rows)
    if len(rows) < LEAST_SAMPLES or not per_channel:
        deviation = np.full(channels, math.fsum(deviation) / channels)
    if not per_channel:
        spreads = np.full(channels, sum(SPREADS[clamped]) / 2)
    scales = (spreads / (np.maximum(deviation, 1.0) * x_scale)).astype(np.float32)
    bias = np.rint(means / (scales.astype(np.float64) * x_scale)) - middle
    kept = scales if per_channel else scales[:1]
    return Fit(tuple(float(s) for s in kept), bias.astype(np.int32))


def are_few(sums: Array) -> bool:
    """Whether so few values were seen that they say little about their range."""
    return sums.size < max(FEW_ELEMENTS, LEAST_SAMPLES * sums.shape[-1])


def _statistics(rows: Array) -> tuple[Array, Array]:
    """Per channel of `rows` (samples, channels), the mean, rounded, and the mean absolute
    deviation from it, as a new sample will have it."""
    step = len(rows) // MOST_SAMPLES | 1  # odd, so as not to take the same columns of every row
    taken = rows[::step].astype(np.float64)
    count = len(taken)
    if count == 1:
        return np.zeros(rows.shape[1]), np.abs(taken[0])
    middle = np.rint(taken.sum(axis=0) / count)
    deviation = np.abs(taken - middle).sum(axis=0) / count
    return middle, deviation * math.sqrt((count + 1) / (count - 1))


def quantisation_of(lower: float, upper: float, dtype: DType, *, few: bool) -> Quantisation:
    """The quantisation by which real values in [lower, upper] use the range of `dtype`."""
    margin = (SMALL_MARGIN if few else MARGIN) * (upper - lower)
    lower = lower - margin if lower < 0.0 else 0.0
    upper = upper + margin if upper > 0.0 else 0.0
    if dtype is DType.INT16:  # TFLite: symmetric
        return quantisation(max(-lower, upper, 1e-6) / 32767, 0)
    scale = float(np.float32(max(upper - lower, 1e-6) / 255))
    return quantisation(scale, dtype.lower + round(-lower / scale))


def quantisation(scale: float, zero_point: int) -> Quantisation:
    """One scale, as the single-precision number that model files hold, and one zero point."""
    return Quantisation((float(np.float32(scale)),), (zero_point,))


def layer_quantisation(
    reals: tuple[float, float], activation: Activation, *, few: bool
) -> Quantisation:
    """Quantisation of a layer whose values before the activation lie in `reals`.

    An activation with two ends fixes it: TFLite's ReLU6 has scale 6/255 and zero point -128."""
    least, most = activation.value
    if least is not None and most is not None:
        scale = (most - least) / 255
        return quantisation(scale, -128 + round(-least / scale))
    lower = reals[0] if least is None else max(least, reals[0])
    return quantisation_of(lower, max(reals[1], lower), DType.INT8, few=few)
