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
from functools import cache
from statistics import NormalDist

import numpy as np

from penstock.frozen import frozen
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation

# SeededRandom: random numbers that are identical on all machines and NumPy releases.
#
# Only the raw 64-bit words of the generator PCG64 are used, whose stream NumPy promises to keep
# (NEP 19: bit generators are stable, the distributions built on them are not).  Everything else is
# integer arithmetic and table look-ups.


# Standard deviation of random weights: the range of int8 is three deviations to either side.
WEIGHT_DEVIATION = 127 / 3

PATCH = 16  # Edge of the uniform patches in a calibration input, in elements.


class SeededRandom:
    """A stream of random numbers, identified by `seed` and `stream`."""

    def __init__(self, seed: int, *stream: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *stream]))

    def words(self, count: int) -> Array:
        """`count` integers, uniform in [0, 2**16)."""
        raw = self._bits.random_raw(-(-count // 4)).astype("<u8", copy=False)
        return raw.view("<u2")[:count]

    def uniform(self, count: int, lower: float, upper: float) -> Array:
        """`count` real numbers, uniform in [lower, upper)."""
        return lower + (upper - lower) * (self.words(count) / 2.0**16)

    def weights(self, shape: tuple[int, ...]) -> Array:
        """int8 weights, normally distributed, clipped to [-127, 127]."""
        return weight_table()[self.words(math.prod(shape))].reshape(shape)

    def activations(self, shape: tuple[int, ...]) -> Array:
        """An int8 calibration input: bands of `PATCH` rows alternate between uniform noise and
        uniform patches, because layers respond differently to the two."""
        noise = (self.words(math.prod(shape)) >> 8).astype(np.uint8).view(np.int8).reshape(shape)
        if len(shape) != 4:
            return noise
        rows = np.arange(shape[1])
        patched = noise.copy()
        for row in rows[(rows // PATCH) % 2 == 1]:
            columns = np.arange(shape[2]) // PATCH * PATCH
            patched[:, row] = noise[:, row // PATCH * PATCH, columns]
        return patched


@cache
def weight_table() -> Array:
    """Weight by uniform 16-bit number: rounded quantiles of the normal distribution.

    No quantile is so close to a tie that another math library could round it differently; a test
    checks that."""
    return np.clip(np.rint(weight_quantiles()), -127, 127).astype(np.int8)


def weight_quantiles() -> Array:
    """The 2**16 quantiles of the weight distribution, before rounding."""
    normal = NormalDist(0.0, WEIGHT_DEVIATION)
    upper = [normal.inv_cdf((i + 0.5) / 2**16) for i in range(2**15, 2**16)]
    return np.array([-x for x in reversed(upper)] + upper)


# Interval of a channel's mean absolute deviation, in real units, by whether values are clamped at
# 0.
SPREADS = {True: (0.7, 1.5), False: (0.8, 2.4)}
# Interval of a channel's mean, likewise. With a clamp at 0, about a third of the values become 0;
# with ReLU6, as in MobileNets, less than 2 % reach 6.
MEANS = {True: (0.0, 1.5), False: (-1.0, 1.0)}
# With fewer values per channel, all channels share one deviation. A single value per channel is
# itself taken as the deviation, since its mean is unknown.
LEAST_SAMPLES = 16
# Upper bound of the number of values per channel, evenly spaced, that enter statistics.
MOST_SAMPLES = 4096
MARGIN = 1 / 16  # Fraction by which the range exceeds the observed one, at each end that is not 0.
SMALL_MARGIN = 1 / 3  # The same if few values were observed, so that further ones may exceed them.
FEW_ELEMENTS = 1024


@frozen
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
    """Rounded mean and mean absolute deviation of each channel of `rows` (samples, channels)."""
    # The deviation is corrected for the number of samples (expected deviation of a new sample).
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
