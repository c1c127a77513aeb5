"""Bounds on the offset from each threshold of a channel, and the first feasible factor.

With t = (accumulator << fraction_bits) + offset, minus a correction if t is negative, t * factor >=
goal[level] must hold from the threshold of the level on, and not before.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s

WIDE = 2**40
"""Greater than every offset."""


@compiled
def first_factors(
    lower: Int64s,
    upper: Int64s,
    thresholds: Int64s,
    goals: Int64s,
    factors: Int64s,
    fraction_bits: int,
    signed: bool,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return, per channel, the index of the first feasible factor (-1 if there is none), its offset
    and its correction.

    `factors` has shape (channels, tries); `thresholds` and `goals` have shape (channels, levels).
    The accumulators are in [lower, upper).
    """
    first = np.full(len(lower), -1, np.int64)
    offset, correction = np.zeros(len(lower), np.int64), np.zeros(len(lower), np.int64)
    one = 1 << fraction_bits
    for c in range(len(lower)):
        facts = thresholds[c], goals[c]
        for k in range(factors.shape[1]):
            factor = factors[c, k]
            if not signed:
                low, high = _offsets(*facts, factor, fraction_bits, lower[c], upper[c])
                if low <= high:
                    first[c], offset[c] = k, (low + high) >> 1
                    break
                continue
            low, high = _offsets(*facts, factor, fraction_bits, max(lower[c], 0), upper[c])
            low, high = max(low, 0), min(high, one - 1)
            if low > high:
                continue
            below = _offsets(*facts, factor, fraction_bits, lower[c], min(upper[c], 0))
            if below[0] <= below[1]:
                first[c], offset[c] = k, (low + high) >> 1
                if lower[c] < 0:
                    correction[c] = offset[c] - ((below[0] + below[1]) >> 1)
                break
    return first, offset, correction


@compiled
def _offsets(
    thresholds: Int64s, goals: Int64s, factor: int, fraction_bits: int, lower: int, upper: int
) -> tuple[int, int]:
    """Return the least and greatest feasible offset for accumulators in [lower, upper).

    The interval may be empty. If only one end is bounded, or none, the other end is set close to
    it.
    """
    low, high = -WIDE, WIDE
    for level in range(len(thresholds)):
        reached = -(-goals[level] // factor)
        at = max(thresholds[level], lower)
        if at < upper:
            low = max(low, reached - (at << fraction_bits))
        before = min(thresholds[level], upper) - 1
        if before >= lower:
            high = min(high, reached - 1 - (before << fraction_bits))
        if low > high:
            return low, high
    if low == -WIDE:
        low = 0 if high == WIDE else high - (1 << fraction_bits)
    return low, low + (1 << fraction_bits) if high == WIDE else high
