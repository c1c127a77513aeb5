"""Calibration: scales, zero points and biases such that activations use the range of int8.

Scales and bias of each output channel are chosen such that, on the calibration inputs, its values
before the activation have a random spread (from `SPREADS`) and mean (from `MEANS`), as they have
after folding a batch normalisation.  Signals then neither vanish nor explode with depth, and no
channel is dead.
Source: data-dependent initialisation, Krähenbühl et al. 2015 (arXiv:1511.06856) and Mishkin and
Matas 2015 (arXiv:1511.06422).

Spread is the mean absolute deviation, not the standard deviation: for integer accumulators it is a
quotient of two integers, and therefore identical on all machines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.frontends.seeded_random import SeededRandom
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation

SPREADS = {True: (0.7, 1.5), False: (0.8, 2.4)}
"""Interval of a channel's mean absolute deviation, in real units, by whether values are clamped at
0."""
MEANS = {True: (0.0, 1.5), False: (-1.0, 1.0)}
"""Interval of a channel's mean, likewise.  With a clamp at 0, about a third of the values become 0;
with ReLU6, as in MobileNets, less than 2 % reach 6."""
LEAST_SAMPLES = 16
"""With fewer values per channel, all channels share one deviation.  A single value per channel is
itself taken as the deviation, since its mean is unknown."""
MOST_SAMPLES = 4096
"""Upper bound of the number of values per channel, evenly spaced, that enter statistics."""
MARGIN = 1 / 16
"""Fraction by which the range exceeds the observed one, at each end that is not 0."""
SMALL_MARGIN = 1 / 3
"""The same if few values were observed, so that further ones may exceed them."""
FEW_ELEMENTS = 1024


@dataclass(frozen=True, slots=True)
class Fit:
    """Calibrated weight scales of a layer, one or one per channel, and biases."""

    scales: tuple[float, ...]
    bias: Array

    def interval(self, sums: Array, x_scale: float) -> tuple[float, float]:
        """Smallest and largest real value before the activation, given the accumulators."""
        rows = sums.reshape(-1, sums.shape[-1])
        units = np.array(self.scales) * x_scale
        least = (rows.min(axis=0).astype(np.float64) + self.bias) * units
        most = (rows.max(axis=0).astype(np.float64) + self.bias) * units
        return float(least.min()), float(most.max())

    def outputs(self, sums: Array, x_scale: float, y: TensorType, bounds: tuple[int, int]) -> Array:
        """Output elements of type `y`, exact to one rounding step."""
        factors = np.array(self.scales) * (x_scale / y.scale)
        offsets = self.bias * factors + y.zero_point
        scaled = sums * factors.astype(np.float32)
        scaled += offsets.astype(np.float32)
        np.rint(scaled, out=scaled)
        np.clip(scaled, *bounds, out=scaled)
        return scaled.astype(np.int8)


def fit(
    sums: Array, x_scale: float, activation: Activation, random: SeededRandom, per_channel: bool
) -> Fit:
    """Calibrates a layer whose accumulators on the samples are `sums` (..., channels)."""
    channels = sums.shape[-1]
    clamped = activation.value[0] == 0.0
    spreads = random.uniform(channels, *SPREADS[clamped])
    means = random.uniform(channels, *MEANS[clamped])
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
    """Whether too few values were observed to estimate their range."""
    return sums.size < max(FEW_ELEMENTS, LEAST_SAMPLES * sums.shape[-1])


def _statistics(rows: Array) -> tuple[Array, Array]:
    """Rounded mean and mean absolute deviation of each channel of `rows` (samples, channels).

    The deviation is corrected for the number of samples (expected deviation of a new sample)."""
    step = len(rows) // MOST_SAMPLES | 1  # odd, so as not to take the same columns of every row
    taken = rows[::step].astype(np.float64)
    count = len(taken)
    if count == 1:
        return np.zeros(rows.shape[1]), np.abs(taken[0])
    middle = np.rint(taken.sum(axis=0) / count)
    deviation = np.abs(taken - middle).sum(axis=0) / count
    return middle, deviation * math.sqrt((count + 1) / (count - 1))


def fitted_quantisation(lower: float, upper: float, dtype: DType, *, few: bool) -> Quantisation:
    """The quantisation that maps [lower, upper], with a margin, to the range of `dtype`."""
    margin = (SMALL_MARGIN if few else MARGIN) * (upper - lower)
    lower = lower - margin if lower < 0.0 else 0.0
    upper = upper + margin if upper > 0.0 else 0.0
    if dtype is DType.INT16:  # TFLite: symmetric
        return quantisation(max(-lower, upper, 1e-6) / 32767, 0)
    scale = float(np.float32(max(upper - lower, 1e-6) / 255))
    return quantisation(scale, dtype.lower + round(-lower / scale))


def quantisation(scale: float, zero_point: int) -> Quantisation:
    """Per-tensor quantisation; the scale is rounded to single precision, as in model files."""
    return Quantisation((float(np.float32(scale)),), (zero_point,))


def layer_quantisation(
    reals: tuple[float, float], activation: Activation, *, few: bool
) -> Quantisation:
    """Quantisation of the output of a layer whose values before the activation are in `reals`.

    An activation with two bounds determines it: ReLU6 has scale 6/255 and zero point -128."""
    least, most = activation.value
    if least is not None and most is not None:
        scale = (most - least) / 255
        return quantisation(scale, -128 + round(-least / scale))
    lower = reals[0] if least is None else max(least, reals[0])
    return fitted_quantisation(lower, max(reals[1], lower), DType.INT8, few=few)
