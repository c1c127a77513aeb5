"""AxisMap: the input index that each output index of one axis reads.

Output index o reads start + step * o (`StridedMap`) or the o-th entry of a list (`ListedMap`).
Where that is outside [0, extent), the output holds the fill value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from penstock.ir.region import Interval

Indices = NDArray[np.int64]
Number = int | Fraction
Form = tuple[Number, Number, Number]
"""(factor, extra, offset): the interval [a, b) reads [factor * a + offset, factor * b + offset +
extra)."""
OUTSIDE = -1
"""An index that reads nothing."""


@dataclass(frozen=True, slots=True)
class StridedMap:
    """Output index o reads input index start + step * o; `step` may be zero or negative."""

    start: int = 0
    step: int = 1

    def indices(self, out: Interval) -> Indices:
        """Input index of every output index in `out`."""
        return self.start + self.step * np.arange(*out, dtype=np.int64)

    def needs(self, out: Interval, extent: int) -> Interval:
        """The smallest input interval that contains every index that is read; empty if none is."""
        (lower, upper), start, step = out, self.start, self.step
        if step < 0:  # the same indices in ascending order
            start, step = start + step * (lower + upper - 1), -step
        if step:
            lower, upper = max(lower, -(start // step)), min(upper, -((start - extent) // step))
        elif not 0 <= start < extent:
            upper = lower
        return (start + step * lower, start + step * (upper - 1) + 1) if lower < upper else (0, 0)

    def affine(self, extent: int) -> Form:
        """(factor, extra, offset) of the input interval; the whole axis if indices descend."""
        if self.step < 0:
            return 0, extent, 0
        return self.step, 1 - self.step, self.start


@dataclass(frozen=True, slots=True)
class ListedMap:
    """Output index o reads input index entries[o].

    `factor`: approximate input step per output index; the affine bound is fitted with it."""

    entries: tuple[int, ...]
    factor: Number = 0

    def indices(self, out: Interval) -> Indices:
        """Input index of every output index in `out`."""
        return np.array(self.entries[slice(*out)], np.int64)

    def needs(self, out: Interval, extent: int) -> Interval:
        """The smallest input interval that contains every index that is read; empty if none is."""
        inside = [k for k in self.entries[slice(*out)] if 0 <= k < extent]
        return (min(inside), max(inside) + 1) if inside else (0, 0)

    def affine(self, extent: int) -> Form:
        """(factor, extra, offset) of the tightest interval that contains what is read."""
        return fitted(
            [(o, k, k + 1) for o, k in enumerate(self.entries) if 0 <= k < extent], self.factor
        )


AxisMap = StridedMap | ListedMap


def fitted(reads: list[tuple[int, int, int]], factor: Number) -> Form:
    """The tightest form of this factor for an axis whose output index o reads [lower, upper), for
    every (o, lower, upper) of `reads`.

    Bounds are rounded outwards where the form is applied, so each may lie short of its integer by
    what rounding adds: all but one grain, where the grain is 1 / denominator of the factor."""
    if not reads:
        return 0, 0, 0
    slack = 1 - Fraction(1, Fraction(factor).denominator)
    offset = min(lower - factor * o for o, lower, _ in reads) + slack
    end = max(upper - factor * (o + 1) for o, _, upper in reads) - slack
    return factor, end - offset, offset
