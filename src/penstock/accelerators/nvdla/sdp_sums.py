"""sdp_sums: constants with which SDP adds two int8 tensors exactly as TFLite does.

    s = (main + (other << left1)) * factor1 + (again << left2)            units X1 and X2
    y = round(s * factor2 / 2**right)                                     unit X2
    element = saturate8(round((y - offset) * scale / 2**shift))           converter

`main` is the input at the beginning of SDP's data flow, and s is the weighted sum of both inputs.
SDP has three read engines, so `again` is one of both tensors a second time.  `left1` may be
missing: then unit X1 only multiplies.  The ratio of the weights of both inputs in s is a power of
two, plus a part that `factor1` tunes, and so is more precise than the 16 bits of `factor1`.  If it
is precise enough, the other constants can place all thresholds.  The proof enumerates all 65,536
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.accelerators.nvdla.sdp_constants import (
    HIGHEST,
    LOWEST,
    MOST_FACTOR,
    MOST_RIGHT,
    RANGE_BITS,
    Int64s,
    factor_pairs,
    shifted,
)
from penstock.uma import multiply, requantise

TERM_BITS = 20
"""The number of bits by which TFLite shifts the operands of a sum to the left."""
MOST_LEFT = 23
"""The largest shift of an int8 operand that fits into 32 bits."""
FIRST_SHIFTS = (None, 0, 1, 2, 3)
"""The values of `Ratio.left1` that are tried."""
MOST_RATIOS = 24
"""The number of ratios that are tried, the most precise first."""
INPUTS = np.arange(LOWEST, HIGHEST + 1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How units X1 and X2 weight both inputs, in

        s = (main + (other << left1)) * factor1 + (again << left2)

    main: the index (0 or 1) of the input at the beginning of SDP's data flow.
    left1: the shift of the other input in unit X1; None if this unit adds nothing.
    factor1: the factor of unit X1.
    again: the index of the input that unit X2 adds.
    left2: the shift of this input in unit X2."""

    main: int
    left1: int | None
    factor1: int
    again: int
    left2: int

    @property
    def weights(self) -> tuple[int, int]:
        """The weights of the first and the second input in s."""
        found = [0, 0]
        found[self.main] = self.factor1
        if self.left1 is not None:
            found[1 - self.main] = self.factor1 << self.left1
        found[self.again] += 1 << self.left2
        return found[0], found[1]

    def totals(self) -> Int64s:
        """Return the weighted sum s for all pairs of inputs, of shape (256, 256).

        Entry [i, j] is that of i - 128 in the first input and j - 128 in the second."""
        first, second = self.weights
        return (INPUTS * first)[:, None] + (INPUTS * second)[None, :]


@dataclass(frozen=True, slots=True)
class SumSettings:
    """The constants of a sum or difference, by their names in the module's formulas."""

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
        """Return the output elements for all pairs of inputs, of shape (256, 256).

        Entry [i, j] is that of i - 128 in the first input and j - 128 in the second."""
        y = shifted(self.ratio.totals() * self.factor2, self.right)
        return np.clip(shifted((y - self.offset) * self.scale, self.shift), LOWEST, HIGHEST)


class Levels:
    """The different results of a sum, in ascending order (`values`), and the pairs of inputs that
    yield each."""

    def __init__(self, expected: Int64s) -> None:
        """`expected`: the results of all pairs of inputs, of shape (256, 256).

        Entry [i, j] is that of i - 128 in the first input and j - 128 in the second."""
        self.values: Int64s = np.unique(expected)
        self._order = np.argsort(expected, axis=None, kind="stable")
        self._starts = np.searchsorted(expected.ravel()[self._order], self.values)

    def gaps(self, totals: Int64s) -> tuple[Int64s, Int64s]:
        """Return two bounds for each level (each result but the least): the largest weighted sum of
        inputs that yield the level below, and the least weighted sum of inputs that yield the
        level.  Constants are exact if the threshold of each level is between its bounds.

        totals: the weighted sums of all pairs of inputs, of shape (256, 256)."""
        ordered = totals.ravel()[self._order]
        lower = np.maximum.reduceat(ordered, self._starts)[:-1]
        return lower, np.minimum.reduceat(ordered, self._starts)[1:]


def find_sum(p: Mapping[str, int]) -> SumSettings | None:
    """Return constants that are proved for a sum or difference; None if none were found.

    p: the parameters of TFLite's arithmetic, by name."""
    expected = expected_elements(p)
    levels = Levels(expected)
    for ratio in _ratios(slope(p, 0), slope(p, 1)):
        totals = ratio.totals()
        growth = slope(p, 0) / ratio.weights[0]
        sign = 1 if growth > 0 else -1
        lower, upper = levels.gaps(sign * totals)
        if (lower < upper).all():
            gaps, farthest = (lower, upper), float(np.abs(totals).max())
            for found in _placed(ratio, abs(growth), sign, farthest, levels.values[1:], gaps):
                if (found.elements() == expected).all():
                    return found
    return None


def expected_elements(p: Mapping[str, int]) -> Int64s:
    """Return TFLite's results for all pairs of inputs, of shape (256, 256)."""
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
    """Yield up to `MOST_RATIOS` ratios whose weights are nearly proportional to the slopes `first`
    and `second` of the inputs, the most precise ratio first."""
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
    """Yield (relative error, ratio) for each `factor1` next to 2**left2 / part, where `left2` is as
    large as possible.

    main, left1, again: these fields of the ratios.
    part: the weight 2**left2 that unit X2 adds, as a multiple of `factor1`.
    slopes: the numbers to which the weights of both inputs should be proportional."""
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
    levels: Int64s,
    gaps: tuple[Int64s, Int64s],
) -> Iterator[SumSettings]:
    """Yield the other constants for a ratio.  They should be exact, but the caller must check them.

    slope, sign: the magnitude and the sign of the growth of the output with s.
    farthest: the largest magnitude of s.
    levels: the levels of the output (each result but the least).
    gaps: the result of `Levels.gaps` for the weighted sums sign * s."""
    lower, upper = gaps
    right = max(0, int(np.ceil(np.log2(farthest * MOST_FACTOR))) - RANGE_BITS)
    total = int(np.floor(np.log2(MOST_FACTOR**2 * 0.999 / slope)))
    shift = total - right
    if not 0 <= shift <= MOST_RIGHT:
        return
    for pair in factor_pairs(np.array([slope * 2.0**total]), np.array([float(MOST_FACTOR)])):
        factor2, scale = int(pair[0, 0]), int(pair[0, 1])
        heights = (levels - 0.5) * 2.0**total / (factor2 * scale)
        low, high = (lower - heights).max(), (upper - heights).min()
        offset = round((low + high) / 2 * factor2 / 2.0**right)
        if low < high and abs(offset) < 1 << 31:
            yield SumSettings(ratio, sign * factor2, right, offset, scale, shift)
