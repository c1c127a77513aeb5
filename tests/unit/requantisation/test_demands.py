"""Feasible factors and bases against every accumulator of small ranges, in Python integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.requantisation.certify import WIDE, first_factors, served_bases

BASES = 5


def by_hand(
    thresholds: list[int], goals: list[int], factor: int, bits: int, lower: int, upper: int
) -> tuple[int, int]:
    """The least and greatest offset with which each accumulator reaches exactly its levels. If one
    end is unbounded, it is one accumulator unit from the other."""
    low, high = -WIDE, WIDE
    for threshold, goal in zip(thresholds, goals, strict=True):
        for accumulator in range(lower, upper):
            needed = -(-goal // factor) - (accumulator << bits)
            if accumulator >= threshold:
                low = max(low, needed)
            else:
                high = min(high, needed - 1)
    if low == -WIDE:
        low = 0 if high == WIDE else high - (1 << bits)
    return low, low + (1 << bits) if high == WIDE else high


def is_feasible(
    thresholds: list[int],
    goals: list[int],
    factor: int,
    bits: int,
    ends: tuple[int, int],
    signed: bool,
) -> bool:
    lower, upper = ends
    facts = thresholds, goals, factor, bits
    if not signed:
        low, high = by_hand(*facts, lower, upper)
        return low <= high
    low, high = by_hand(*facts, max(lower, 0), upper)
    below, above = by_hand(*facts, lower, min(upper, 0))
    return max(low, 0) <= min(high, (1 << bits) - 1) and below <= above


@settings(deadline=None, max_examples=200)
@given(data=st.data(), signed=st.booleans())
def test_the_feasible_factors_and_bases_are_those_of_all_accumulators(
    data: st.DataObject, signed: bool
) -> None:
    """Thresholds and goals close to a straight line, so that some factors are feasible."""
    bits = data.draw(st.integers(0, 4))
    lower = data.draw(st.integers(-60, 40))
    upper = lower + data.draw(st.integers(1, 60))
    factor = data.draw(st.integers(2**24, 2**28))
    step = data.draw(st.integers(2**31, 2**35))
    start = data.draw(st.integers(-8, 2))
    goals = [level * step - data.draw(st.integers(0, 2**30)) for level in range(start, start + 12)]
    noise = data.draw(st.sampled_from((0, 0, 1)))
    thresholds = sorted(
        min(max(-(-goal // (factor << bits)) + data.draw(st.integers(-noise, noise)), lower), upper)
        for goal in goals
    )
    factors = [factor, *data.draw(st.lists(st.integers(2**24, 2**28), max_size=2)), factor + 1]
    facts = (
        np.array([[lower, upper]], np.int64),
        np.array([thresholds], np.int64),
        np.array(goals, np.int64),
        np.array([factors], np.int64),
    )
    served = served_bases(*facts, BASES, bits, signed)[0].tolist()
    for base in range(BASES):
        moved = [goal - (base << 32) for goal in goals]
        expected = [
            is_feasible(thresholds, moved, one, bits, (lower, upper), signed) for one in factors
        ]
        assert served[base] == any(expected)
        first, offset, correction = first_factors(*facts, np.array([base], np.int64), bits, signed)
        assert first[0] == (expected.index(True) if any(expected) else -1)
        if first[0] >= 0:
            one, offset, correction = factors[first[0]], int(offset[0]), int(correction[0])
            for accumulator in range(lower, upper):
                t = (accumulator << bits) + offset
                t -= correction if signed and t < 0 else 0
                levels = [t * one >= goal for goal in moved]
                assert levels == [accumulator >= threshold for threshold in thresholds]
