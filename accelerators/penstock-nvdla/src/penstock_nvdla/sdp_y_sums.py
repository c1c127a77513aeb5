"""sdp_y_sums: constants with which unit Y of SDP adds two int8 tensors exactly as TFLite does.

    s = main * factor + other * weight                                    unit Y
    element = saturate8(round((s - offset) * scale / 2**shift))           converter

`main` is the input that passes through SDP, `other` is the one that unit Y adds, and s is the
weighted sum of both.  The factor has 32 bits and the weight has 16, so factor / weight, the
ratio of the weights of both inputs, can be any fraction with a denominator of 16 bits.  For every
ratio, some of these fractions are precise to more than 20 bits.  The proof enumerates all 65,536
pairs of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock_nvdla.sdp_constants import (
    HIGHEST,
    LOWEST,
    MOST_FACTOR,
    MOST_RIGHT,
    RANGE_BITS,
    Int64s,
    shifted,
)
from penstock_nvdla.sdp_sums import INPUTS, Levels, expected_elements, slope

MOST_CANDIDATES = 24
"""The number of constants that are tried, the most precise first."""


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


def find_sum_in_y(p: Mapping[str, int]) -> UnitYSum | None:
    """Return constants that are proved for a sum or difference; None if none were found.

    p: the parameters of TFLite's arithmetic, by name."""
    expected = expected_elements(p)
    levels = Levels(expected)
    for candidate in _candidates(slope(p, 0), slope(p, 1)):
        lower, upper = levels.gaps(candidate.totals())
        heights = (levels.values[1:] - 0.5) * 2.0**candidate.shift / candidate.scale
        low, high = (lower - heights).max(), (upper - heights).min()
        offset = round((low + high) / 2)
        if low < high and abs(offset) < 1 << 31:
            found = replace(candidate, offset=offset)
            if (found.elements() == expected).all():
                return found
    return None


def _candidates(first: float, second: float) -> Iterator[UnitYSum]:
    """Yield up to `MOST_CANDIDATES` sets of constants; the caller still has to find their offset.

    The constants approximate both slopes; those with the least relative error come first.  The
    input with the larger slope is the main one: its slope is about factor * scale / 2**shift.  The
    slope of the other input is about weight * scale / 2**shift.

    first, second: the slopes: how much the output grows with the first and the second input."""
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
    for k in np.argsort(np.where(fits, errors, np.inf), kind="stable")[:MOST_CANDIDATES]:
        if fits[k]:
            weight = int(weights[k]) if small > 0 else -int(weights[k])
            yield UnitYSum(main, int(factors[k]), weight, int(scales[k]), shift)
