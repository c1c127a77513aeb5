"""SeededRandom: random numbers that are identical on all machines and NumPy releases.

Only the raw 64-bit words of the generator PCG64 are used, whose stream NumPy promises to keep
(NEP 19: bit generators are stable, the distributions built on them are not).  Everything else is
integer arithmetic and table look-ups.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from penstock.ir.tensor import Array

WEIGHT_DEVIATION = 127 / 3
"""Standard deviation of random weights: the range of int8 is three deviations to either side."""

PATCH = 16
"""Edge of the uniform patches in a calibration input, in elements."""


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
