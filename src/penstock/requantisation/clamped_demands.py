"""Bounds on the offset of a clamped form, and its first feasible factor.

With a = accumulator - origin and t = a * factor + offset, plus a correction if the accumulator is
negative, t >= goal[level] must hold from the threshold of the level on, and not before.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s

_NONE = 2**60
"""The bound of levels that demand nothing."""


@compiled
def first_offsets(
    ends: Int64s,
    thresholds: Int64s,
    origin: Int64s,
    goal_bit: Int64s,
    factors: Int64s,
    start: Int64s,
    signed: bool,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return, per channel, the index of the first factor from `start` on that may be feasible (-1
    if there is none), its offset and its correction.

    Offsets are in the middle of the feasible interval. `ends` has shape (channels, 2): the
    accumulators of a channel are in [lower, upper). `thresholds` has shape (channels, levels), and
    `factors` (channels, tries); the others have shape (channels,). The goal of a level is its
    index shifted left by `goal_bit`.

    A factor is infeasible if the bounds contradict each other. In channels whose bounds may be too
    strict, every factor may be feasible.
    """
    first = np.full(len(ends), -1, np.int64)
    offset, correction = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    for c in range(len(ends)):
        lower, upper = ends[c]
        facts = thresholds[c], origin[c], goal_bit[c]
        turn = max(lower, 0) if signed else lower
        is_strict = _may_be_too_strict(thresholds[c], origin[c], lower, upper)
        for k in range(start[c], factors.shape[1]):
            factor = factors[c, k]
            low, high = _offsets(*facts, factor, turn, upper)
            is_feasible, middle = low <= high, (low + high) >> 1
            if signed:
                low, high = _offsets(*facts, factor, lower, min(upper, 0))
                is_feasible = is_feasible and low <= high
            if is_feasible or is_strict:
                first[c], offset[c] = k, middle
                if signed and lower < 0 < upper:
                    correction[c] = ((low + high) >> 1) - middle
                break
    return first, offset, correction


@compiled
def _offsets(
    thresholds: Int64s, origin: int, goal_bit: int, factor: int, lower: int, upper: int
) -> tuple[int, int]:
    """Return the least and greatest feasible offset for accumulators in [lower, upper).

    The interval may be empty. If only one end is bounded, or none, the other end is set close to
    it.
    """
    low, high = -_NONE, _NONE
    for level in range(len(thresholds)):
        goal, threshold = level << goal_bit, thresholds[level]
        if lower <= threshold < upper:
            low = max(low, goal - (threshold - origin) * factor)
        before = min(threshold, upper) - 1
        if before >= lower:
            high = min(high, goal - 1 - (before - origin) * factor)
    if low == -_NONE:
        low = 0 if high == _NONE else high - factor
    return low, low if high == _NONE else high


@compiled
def _may_be_too_strict(thresholds: Int64s, origin: int, lower: int, upper: int) -> bool:
    """Return whether bounds ignore that the form clamps an accumulator: it clamps the threshold of
    the first level, or every accumulator has the same output."""
    for threshold in thresholds:
        if lower < threshold < upper:
            return thresholds[0] < origin - 1
    return True
