"""sdp_sums: constants with which SDP adds two int8 tensors exactly as TFLite does.

    s = (main + (other << left1)) * factor1 + (again << left2)            units X1 and X2
    y = round(s * factor2 / 2**right)                                     unit X2
    element = saturate8(round((y - offset) * scale / 2**shift))           converter

`main` is the input at the beginning of SDP's data flow, `other` is the other input, and s is the
weighted sum of both.  SDP has three read engines, so it can read one input a second time, as
`again`.  `left1` may be missing: then unit X1 only multiplies.

The ratio of the two weights must be that of TFLite, with more precision than the 16 bits of a
factor.  Therefore, `left1` determines it roughly, as a power of two, and the term with `again`
corrects it, by an amount that depends on `left2` and `factor1`.  If the ratio is precise enough,
each output element corresponds to an interval of s.  The other constants are then chosen so that
rounding reproduces these intervals.  They are proved by computing all 65,536 pairs of inputs.

Where the ratio of two scales is a simple fraction, sums tie, and TFLite moves the intervals above
and below the zero point in opposite directions.  Such a sum takes two passes: the elements of one
saturate below the zero point, those of the other above it, and a third layer adds both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from penstock.uma import multiply, requantise
from penstock_nvdla.sdp_constants import (
    HIGHEST,
    LOWEST,
    MOST_FACTOR,
    MOST_RIGHT,
    RANGE_BITS,
    Int64s,
    factor_pairs,
    shifted,
)

TERM_BITS = 20  # The number of bits by which TFLite shifts the operands of a sum to the left.
MOST_LEFT = 23  # The largest shift of an int8 operand that fits into 32 bits.
FIRST_SHIFTS = (None, 0, 1, 2, 3)  # The values of `Ratio.left1` that are tried.
MOST_RATIOS = 24  # The number of ratios that are tried, the most precise first.
INPUTS = np.arange(LOWEST, HIGHEST + 1, dtype=np.int64)
Found = TypeVar("Found")


def searched_once(
    search: Callable[[Mapping[str, int], int], Found],
) -> Callable[[Mapping[str, int], int], Found]:
    """Return a search for constants that remembers its results, by the numbers of its arguments."""

    @lru_cache(maxsize=1 << 12)
    def known(numbers: tuple[tuple[str, int], ...], moved: int) -> Found:
        return search(dict(numbers), moved)

    return lambda p, moved: known(tuple(p.items()), moved)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The constants with which units X1 and X2 compute s, a weighted sum of both inputs:

        s = (main + (other << left1)) * factor1 + (again << left2)

    main: the index (0 or 1) of the input that passes through SDP.
    left1: the shift of the other input, which unit X1 adds; None if this unit adds nothing.
    factor1: the factor of unit X1.
    again: the index (0 or 1) of the input that unit X2 adds.
    left2: the shift of the input that unit X2 adds."""

    main: int
    left1: int | None
    factor1: int
    again: int
    left2: int

    @property
    def weights(self) -> tuple[int, int]:
        """The factors (a, b) for which s = a * first input + b * second input."""
        found = [0, 0]
        found[self.main] = self.factor1
        if self.left1 is not None:
            found[1 - self.main] = self.factor1 << self.left1
        found[self.again] += 1 << self.left2
        return found[0], found[1]

    def totals(self) -> Int64s:
        """Return the weighted sum s for all pairs of inputs, of shape (256, 256)."""
        # Entry [i, j] is for the element i - 128 of the first input and j - 128 of the second.
        first, second = self.weights
        return (INPUTS * first)[:, None] + (INPUTS * second)[None, :]


@dataclass(frozen=True, slots=True)
class SumSettings:
    """The constants with which SDP computes a sum or difference of two tensors.

    ratio: the constants of s, the weighted sum of both inputs.
    factor2, right: unit X2 computes y = round(s * factor2 / 2**right).
    offset, scale, shift: the output is round((y - offset) * scale / 2**shift), clamped."""

    ratio: Ratio
    factor2: int
    right: int
    offset: int
    scale: int
    shift: int

    @property
    def main(self) -> int:
        """The index (0 or 1) of the input at the beginning of SDP's data flow."""
        return self.ratio.main

    def elements(self) -> Int64s:
        """Return the output elements for all pairs of inputs, of shape (256, 256)."""
        # Entry [i, j] is that of i - 128 in the first input and j - 128 in the second.
        y = shifted(self.ratio.totals() * self.factor2, self.right)
        return np.clip(shifted((y - self.offset) * self.scale, self.shift), LOWEST, HIGHEST)


class Levels:
    """The different results of a sum, in ascending order (`values`), and the pairs of inputs that
    yield each.  A level is any result but the least."""

    def __init__(self, p: Mapping[str, int], moved: int) -> None:
        """p: the parameters of TFLite's arithmetic, by name.
        moved: what is added to the results.  They saturate on one side; what saturates on the other
            side without it may exceed the limit."""
        self.bounds = LOWEST + max(moved, 0), HIGHEST + min(moved, 0)
        self.expected = np.clip(expected_elements(p) + moved, LOWEST, HIGHEST)
        self.values: Int64s = np.unique(self.expected)
        self._order = np.argsort(self.expected, axis=None, kind="stable")
        self._starts = np.searchsorted(self.expected.ravel()[self._order], self.values)

    def are_those_of(self, found: SumSettings | UnitYSum) -> bool:
        """Return whether the constants yield the results of all pairs of inputs."""
        return bool((np.clip(found.elements(), *self.bounds) == self.expected).all())

    def offset(self, gaps: tuple[Int64s, Int64s], step: float) -> float | None:
        """Return an offset of weighted sums with which all thresholds are in their `gaps`; None if
        there is none.  step: the weighted sum per unit of the result."""
        heights = (self.values[1:] - 0.5) * step
        low, high = (gaps[0] - heights).max(), (gaps[1] - heights).min()
        return float(low + high) / 2 if low < high else None

    def gaps(self, totals: Int64s) -> tuple[Int64s, Int64s]:
        """Return (lower, upper): for each level, two weighted sums between which its threshold must
        be, so that the constants are exact.

        lower: the largest weighted sum of a pair of inputs whose result is the next lower one.
        upper: the least weighted sum of a pair of inputs whose result is the level.

        totals: the weighted sums of all pairs, with the shape and axes of `Ratio.totals`."""
        ordered = totals.ravel()[self._order]
        lower = np.maximum.reduceat(ordered, self._starts)[:-1]
        return lower, np.minimum.reduceat(ordered, self._starts)[1:]

    def edges(self, totals: Int64s) -> Int64s:
        """Return the pairs of inputs that have the largest or the least weighted sum of a result,
        each as the index of an entry of `totals`."""
        ordered = totals.ravel()[self._order]
        count = np.diff(self._starts, append=len(ordered))
        most, least = (
            np.repeat(extreme.reduceat(ordered, self._starts), count)
            for extreme in (np.maximum, np.minimum)
        )
        return self._order[(ordered == most) | (ordered == least)]


@searched_once
def find_sum(p: Mapping[str, int], moved: int) -> SumSettings | None:
    """Return constants that are proved for a sum or difference; None if none were found.

    p: the parameters of TFLite's arithmetic, by name.
    moved: as of `Levels`."""
    levels = Levels(p, moved)
    for ratio in _ratios(slope(p, 0), slope(p, 1)):
        totals = ratio.totals()
        growth = slope(p, 0) / ratio.weights[0]
        sign = 1 if growth > 0 else -1
        lower, upper = levels.gaps(sign * totals)
        if (lower < upper).all():
            gaps, farthest = (lower, upper), float(np.abs(totals).max())
            for found in _placed(ratio, abs(growth), sign, farthest, levels, gaps):
                if levels.are_those_of(found):
                    return found
    return None


def expected_elements(p: Mapping[str, int]) -> Int64s:
    """Return TFLite's results for all pairs of inputs, of shape (256, 256).

    Entry [i, j] is the result for i - 128 in the first input and j - 128 in the second.

    p: the parameters of TFLite's arithmetic, by name."""
    terms = [
        multiply((INPUTS - p[f"zero{k}"]) << TERM_BITS, p[f"multiplier{k}"], p[f"shift{k}"])
        for k in (0, 1)
    ]
    sums = terms[0][:, None] + p["sign1"] * terms[1][None, :]
    bounds = (p["least"], p["most"])
    found = requantise(sums, p["out_multiplier"], p["out_shift"], p["out_zero"], bounds)
    return found.astype(np.int64)


def slope(p: Mapping[str, int], k: int) -> float:
    """Return how much the output grows with input `k`, as a real number."""
    own = p[f"multiplier{k}"] * 2.0 ** (p[f"shift{k}"] - 31)
    out = p["out_multiplier"] * 2.0 ** (p["out_shift"] - 31)
    return own * out * 2.0**TERM_BITS * (p["sign1"] if k else 1)


def _ratios(first: float, second: float) -> Iterator[Ratio]:
    """Yield up to `MOST_RATIOS` ratios whose weights are nearly proportional to `first` and
    `second`, the most precise ratio first."""
    slopes = (first, second)
    found: list[tuple[float, Ratio]] = []
    for main in (0, 1):
        goal = slopes[1 - main] / slopes[main]
        for left1 in FIRST_SHIFTS:
            plain = 0.0 if left1 is None else 2.0**left1
            for again, part in ((1 - main, goal - plain), (main, plain / goal - 1)):
                found += _tuned(main, left1, again, part, slopes)
    found.sort(key=lambda pair: pair[0])
    yield from (one for _, one in found[:MOST_RATIOS])


def _tuned(
    main: int, left1: int | None, again: int, part: float, slopes: tuple[float, float]
) -> Iterator[tuple[float, Ratio]]:
    """(relative error, ratio) for up to three ratios with the given fields."""
    # `left2` is the largest shift with which `factor1` fits into 16 bits.  The ratios differ in
    # `factor1`: the nearest integer to 2**left2 / part, and its neighbours.
    left2 = int(np.floor(np.log2(MOST_FACTOR * abs(part)))) if part else -1
    if not 0 <= left2 <= MOST_LEFT:
        return
    nearest = round(2.0**left2 / part)
    for factor1 in (nearest, nearest + 1, nearest - 1):
        ratio = Ratio(main, left1, factor1, again, left2)
        first, second = ratio.weights
        if abs(factor1) <= MOST_FACTOR and first and second:
            yield abs(second * slopes[0] / (first * slopes[1]) - 1), ratio


def _placed(
    ratio: Ratio,
    slope: float,
    sign: int,
    farthest: float,
    levels: Levels,
    gaps: tuple[Int64s, Int64s],
) -> Iterator[SumSettings]:
    right = max(0, int(np.ceil(np.log2(farthest * MOST_FACTOR))) - RANGE_BITS)
    total = int(np.floor(np.log2(MOST_FACTOR**2 * 0.999 / slope)))
    shift = total - right
    if not 0 <= shift <= MOST_RIGHT:
        return
    products, most = np.array([slope * 2.0**total]), np.array([float(MOST_FACTOR)])
    for factor2, scale in factor_pairs(products, most)[0].tolist():
        middle = levels.offset(gaps, 2.0**total / (factor2 * scale))
        offset = None if middle is None else round(middle * factor2 / 2.0**right)
        if offset is not None and abs(offset) < 1 << 31:
            yield SumSettings(ratio, sign * factor2, right, offset, scale, shift)


# Constants with which unit Y of SDP adds two int8 tensors exactly as TFLite does.
#
#     s = main * factor + other * weight                                    unit Y
#     element = saturate8(round((s - offset) * scale / 2**shift))           converter
#
# `main` is the input that passes through SDP, `other` is the one that unit Y adds, and s is the
# weighted sum of both.  The factor has 32 bits and the weight has 16, so factor / weight, the
# ratio of the weights of both inputs, can be any fraction with a denominator of 16 bits.  For every
# ratio, some of these fractions are precise to more than 20 bits.  The proof enumerates all 65,536
# pairs of inputs.


# The numbers of constants, the most precise first, of which those are tried whose offset may vary
# most; of those that yield pairs of inputs for this; and of those that are tried.
PRECISE_CANDIDATES, FEW_CANDIDATES, MOST_CANDIDATES = 2048, 8, 24


@dataclass(frozen=True, slots=True)
class UnitYSum:
    """The constants with which SDP computes a sum or difference of two inputs.

    main: the index (0 or 1) of the input that passes through SDP; unit Y adds the other one.
    factor, weight: the factors of the main and of the other input in the weighted sum s.
    offset, scale, shift: the output is round((s - offset) * scale / 2**shift), clamped."""

    main: int
    factor: int
    weight: int
    scale: int
    shift: int
    offset: int = 0

    def totals(self) -> Int64s:
        """Return the result of unit Y (s in the module's formulas) for every pair of int8 elements.

        Entry [i, j] of the result, of shape (256, 256), belongs to the elements i - 128 of the
        first input and j - 128 of the second."""
        main, other = INPUTS * self.factor, INPUTS * self.weight
        first, second = (main, other) if self.main == 0 else (other, main)
        return first[:, None] + second[None, :]

    def elements(self) -> Int64s:
        """Return the output elements for all pairs of inputs, with axes as in `totals`."""
        scaled = shifted((self.totals() - self.offset) * self.scale, self.shift)
        return np.clip(scaled, LOWEST, HIGHEST)


@searched_once
def find_sum_in_y(p: Mapping[str, int], moved: int) -> UnitYSum | None:
    """Return constants that are proved for a sum or difference; None if none were found.

    p: the parameters of TFLite's arithmetic, by name.
    moved: as of `Levels`."""
    levels = Levels(p, moved)
    every = list(_candidates(slope(p, 0), slope(p, 1)))
    few = [levels.edges(one.totals()) for one in every[:FEW_CANDIDATES]]
    edges = np.unique(np.concatenate(few)) if few else np.zeros(0, np.int64)
    results = levels.expected.ravel()[edges]
    every.sort(key=lambda one: _slack(one, edges, results), reverse=True)
    for candidate in every[:MOST_CANDIDATES]:
        step = 2.0**candidate.shift / candidate.scale
        middle = levels.offset(levels.gaps(candidate.totals()), step)
        if middle is not None and abs(middle) < (1 << 31) - 1:
            found = replace(candidate, offset=round(middle))
            if levels.are_those_of(found):
                return found
    return None


def _slack(candidate: UnitYSum, edges: Int64s, results: Int64s) -> float:
    """How much the offset may vary so that some pairs of inputs have their results; negative if no
    offset fits."""
    first, second = (INPUTS[index] for index in np.divmod(edges, len(INPUTS)))
    main, other = (first, second) if candidate.main == 0 else (second, first)
    step = 2.0**candidate.shift / candidate.scale
    sums = main * candidate.factor + other * candidate.weight - results * step
    above = sums.min(where=results > results.min(), initial=np.inf)
    return float(above - sums.max(where=results < results.max(), initial=-np.inf) + step)


def _candidates(first: float, second: float) -> Iterator[UnitYSum]:
    """Yield up to `PRECISE_CANDIDATES` sets of constants; the caller still has to find their
    offset."""
    # The constants approximate both slopes; those with the least relative error come first.  The
    # input with the larger slope is the main one: its slope is about factor * scale / 2**shift.
    # The slope of the other input is about weight * scale / 2**shift.
    main = 0 if abs(first) >= abs(second) else 1
    large, small = (first, second) if main == 0 else (second, first)
    shift = int(np.floor(np.log2(MOST_FACTOR**2 * 0.999 / abs(small))))
    if not 0 <= shift <= MOST_RIGHT:
        return
    weights = np.arange(MOST_FACTOR // 2 + 1, MOST_FACTOR + 1, dtype=np.float64)
    scales = np.rint(abs(small) * 2.0**shift / weights)
    factors = np.rint(large * 2.0**shift / scales)
    errors = np.maximum(
        np.abs(weights * scales / (abs(small) * 2.0**shift) - 1),
        np.abs(factors * scales / (large * 2.0**shift) - 1),
    )
    fits = (scales <= MOST_FACTOR) & (np.abs(factors) < 1 << RANGE_BITS - 8)
    for k in np.argsort(np.where(fits, errors, np.inf), kind="stable")[:PRECISE_CANDIDATES]:
        if fits[k]:
            weight = int(weights[k]) if small > 0 else -int(weights[k])
            yield UnitYSum(main, int(factors[k]), weight, int(scales[k]), shift)
