"""Bounds on the offset from each threshold of a channel, and the feasible factors and bases.

With t = (accumulator << fraction_bits) + offset, minus a correction if t is negative, t * factor >=
goal[level] - (base << 32) must hold from the threshold of the level on, and not before.

A bound on the offset is ceil((goal - (base << 32)) / factor) minus an integer. It is non-decreasing
in goal / factor minus this integer, for every base. Therefore the level with the strictest bound is
the same for every base, and is determined once per factor.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s
from penstock.requantisation.channels import Booleans

WIDE = 2**40  # Greater than every offset.
_NONE = 2**62  # The bound of levels that demand nothing.
# A bound before it is rounded up: (n, m) is n - m / factor, with 0 <= m < factor.
_Bound = tuple[int, int]
_Bounds = tuple[_Bound, _Bound]  # The lower and the upper bound on an offset.


@compiled
def first_factors(
    ends: Int64s,
    thresholds: Int64s,
    goals: Int64s,
    factors: Int64s,
    bases: Int64s,
    fraction_bits: int,
    signed: bool,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return, per channel, the index of the first feasible factor (-1 if there is none), its offset
    and its correction.

    `ends` has shape (channels, 2): the accumulators of a channel are in [lower, upper). `factors`
    has shape (channels, tries), `thresholds` (channels, levels), `goals` (levels,) and `bases`
    (channels,).
    """
    first = np.full(len(ends), -1, np.int64)
    offset, correction = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    one = 1 << fraction_bits
    for c in range(len(ends)):
        facts, (lower, upper) = (thresholds[c], goals), ends[c]
        turn = _turn(lower, signed)
        for k in range(factors.shape[1]):
            factor = factors[c, k]
            bounds = _strictest(*facts, factor, fraction_bits, turn, upper)
            low, high = _offsets(bounds, factor, bases[c], one)
            if signed:
                low, high = max(low, 0), min(high, one - 1)
            if low > high:
                continue
            middle = (low + high) >> 1
            if signed:
                bounds = _strictest(*facts, factor, fraction_bits, lower, min(upper, 0))
                low, high = _offsets(bounds, factor, bases[c], one)
                if low > high:
                    continue
                if lower < 0:
                    correction[c] = middle - ((low + high) >> 1)
            first[c], offset[c] = k, middle
            break
    return first, offset, correction


@compiled
def served_bases(
    ends: Int64s,
    thresholds: Int64s,
    goals: Int64s,
    factors: Int64s,
    count: int,
    fraction_bits: int,
    signed: bool,
) -> Booleans:
    """Return whether a factor is feasible, per channel and base less than `count`.

    The arguments are those of `first_factors`. The result has shape (channels, count).
    """
    served = np.zeros((len(ends), count), np.bool_)
    for c in range(len(ends)):
        lower, upper = ends[c]
        turn = _turn(lower, signed)
        for k in range(factors.shape[1]):
            factor = factors[c, k]
            above = _strictest(thresholds[c], goals, factor, fraction_bits, turn, upper)
            below = above
            if signed and not _hopeless(above):
                end = min(upper, 0)
                below = _strictest(thresholds[c], goals, factor, fraction_bits, lower, end)
            if _hopeless(above) or _hopeless(below):
                continue
            if _mark_bases(served[c], above, below, factor, 1 << fraction_bits, signed):
                break
    return served


@compiled
def _mark_bases(
    served: Booleans, above: _Bounds, below: _Bounds, factor: int, one: int, signed: bool
) -> bool:
    """Mark the bases for which a factor is feasible, and return whether all are marked."""
    # `above` and `below` are the bounds on the offset of accumulators without and with a
    # correction; they are equal unless `signed`.
    for base in range(len(served)):
        if not served[base]:
            low, high = _offsets(above, factor, base, one)
            if signed and max(low, 0) <= min(high, one - 1):
                low, high = _offsets(below, factor, base, one)
            elif signed:
                continue
            served[base] = low <= high
    return bool(served.all())


@compiled
def _turn(lower: int, signed: bool) -> int:
    return max(lower, 0) if signed else lower


@compiled
def _strictest(
    thresholds: Int64s, goals: Int64s, factor: int, fraction_bits: int, lower: int, upper: int
) -> _Bounds:
    """The strictest lower bound and the strictest upper bound on the offset, for base 0 and
    accumulators in [lower, upper). If no base satisfies both, they need not be the strictest."""
    low, low_part, high, high_part = -_NONE, 0, _NONE, 0
    for level in range(len(thresholds)):
        reached = -(-goals[level] // factor)
        part = reached * factor - goals[level]
        at = max(thresholds[level], lower)
        if at < upper:
            bound = reached - (at << fraction_bits)
            if bound > low or (bound == low and part < low_part):
                low, low_part = bound, part
        before = min(thresholds[level], upper) - 1
        if before >= lower:
            bound = reached - 1 - (before << fraction_bits)
            if bound < high or (bound == high and part > high_part):
                high, high_part = bound, part
        if _hopeless(((low, low_part), (high, high_part))):
            break
    return (low, low_part), (high, high_part)


@compiled
def _hopeless(bounds: _Bounds) -> bool:
    # A base moves both by the same real number, so that their difference after rounding changes by
    # less than one.
    (low, low_part), (high, high_part) = bounds
    return low > high + 1 or (low == high + 1 and low_part <= high_part)


@compiled
def _offsets(bounds: _Bounds, factor: int, base: int, one: int) -> tuple[int, int]:
    # The interval may be empty.  If only one end is bounded, or none, the other end is set close to
    # it: at a distance of `one` accumulator unit.
    (low, low_part), (high, high_part) = bounds
    low = max(low - (low_part + (base << 32)) // factor, -WIDE)
    high = min(high - (high_part + (base << 32)) // factor, WIDE)
    if low > high:
        return low, high
    if low == -WIDE:
        low = 0 if high == WIDE else high - one
    return low, low + one if high == WIDE else high
