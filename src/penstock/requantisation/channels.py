"""Channels: the reference's requantisation of a layer, over the range of its accumulators.

An accumulator of channel c is in [lower[c], upper[c]). The reference computes

    y = clamp(zero + multiply(accumulator, multiplier[c], shift[c], addend[c]), least, most)

which is non-decreasing in the accumulator unless the multiplier is negative, so `most - least`
thresholds per channel determine it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.choices import Rounding
from penstock.fixedpoint import INT32_MAX, Int64s, multiply

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Channels:
    """Arrays of shape (channels,): real multipliers as (multiplier, shift), and the bounds of the
    accumulators; furthermore zero point and clamp of the output, and the rounding of products.

    addend: added to products; None if there are none to add."""

    multiplier: Int64s
    shift: Int64s
    lower: Int64s
    upper: Int64s
    zero: int
    least: int
    most: int
    rounding: Rounding = Rounding.DOUBLE
    addend: Int64s | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the other object has the same numbers, so that certificates can be cached."""
        return isinstance(other, Channels) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[bytes | int | Rounding, ...]:
        arrays = (self.multiplier, self.shift, self.lower, self.upper, self.addends)
        bounds = (self.zero, self.least, self.most, self.rounding)
        return *(np.asarray(array, np.int64).tobytes() for array in arrays), *bounds

    @property
    def addends(self) -> Int64s:
        """The addend of each channel."""
        return np.zeros(len(self.shift), np.int64) if self.addend is None else self.addend

    def outputs(self, accumulators: Int64s) -> Int64s:
        """Return the reference's outputs for accumulators of shape (channels, n)."""
        constants = (self.multiplier, self.shift, self.addends)
        multiplier, shift, addend = (array[:, None] for array in constants)
        scaled = multiply(accumulators, multiplier, shift, self.rounding, addend)
        return np.clip(scaled + self.zero, self.least, self.most)

    def only(self, chosen: Int64s) -> Channels:
        """Return a subset of the channels."""
        arrays = (self.multiplier, self.shift, self.lower, self.upper)
        multiplier, shift, lower, upper = (array[chosen] for array in arrays)
        addend = None if self.addend is None else self.addend[chosen]
        found = replace(self, multiplier=multiplier, shift=shift, lower=lower, upper=upper)
        return replace(found, addend=addend)

    @property
    def real(self) -> NDArray[np.float64]:
        """The multipliers as real numbers."""
        return self.multiplier * 2.0 ** (self.shift - 31.0)

    @property
    def monotone(self) -> Booleans:
        """Channels whose accumulators do not overflow int32 in the reference's left shift; with
        addends, whose products are not shifted, those whose multipliers are not negative."""
        if self.addend is not None:
            return self.multiplier >= 0
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return largest <= INT32_MAX >> np.maximum(self.shift, 0)

    @property
    def levels(self) -> Int64s:
        """The outputs above `least`; each has a threshold."""
        return np.arange(self.least + 1, self.most + 1, dtype=np.int64)

    def thresholds(self) -> Int64s:
        """Return the least accumulator whose output reaches each level, or `upper` if none does.

        The shape is (channels, levels). The thresholds are found by bisection.
        """
        shape = (len(self.multiplier), len(self.levels))
        low = np.broadcast_to(self.lower[:, None], shape).copy()
        high = np.broadcast_to(self.upper[:, None], shape).copy()
        while (low < high).any():
            middle = (low + high) >> 1
            reached = (self.outputs(middle) >= self.levels) | (low == high)
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle + 1)
        return low


def reachable(weights: Int64s, bias: Int64s, lower: int, upper: int) -> tuple[Int64s, Int64s]:
    """Return the exact bounds [lower, upper) of bias + sum of weights times inputs in [lower,
    upper).

    `weights` has shape (channels, taps). The bounds are attained, because inputs are independent.

    >>> reachable(np.array([[2, -1]]), np.array([10]), -3, 4)
    (array([1]), array([20]))
    """
    up, down = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    most = upper - 1
    return bias + up * lower + down * most, bias + up * most + down * lower + 1
