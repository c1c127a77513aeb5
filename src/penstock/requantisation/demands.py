"""Demands: which offset each threshold of a channel asks for, and the first factor that serves all.

t * factor >= goal[level] is to hold from the level's threshold on, and not before, where
t = (accumulator << fraction_bits) + offset, less a correction where that is negative.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s

WIDE = 2**40
"""Beyond every offset."""


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
    """By channel, which of its `factors` (channels, tries) is the first that serves, -1 where none
    does, and the offset and correction that it needs; of channels with accumulators in
    [lower, upper) and these thresholds and `goals` (channels, levels)."""
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
    """The least and the greatest offset that does for accumulators in [lower, upper), of which
    there may be none; where only one end is demanded, or none, the other is near it."""
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
