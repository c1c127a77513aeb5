"""Merging and selection of points, against brute force that shares no code with them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.choices import Optimize
from penstock.pareto import merged, noticeably_faster
from penstock.pipeline.choosing import pick

Point = tuple[int, int]
"""Bytes and cycles."""

NEAR = st.tuples(st.integers(1, 60), st.integers(100_000, 100_900))
FAR = st.tuples(st.integers(1, 10**6), st.integers(1, 10**7))
POINTS = st.lists(NEAR | FAR, min_size=1, max_size=40)
CHAIN = [(k, 100_000 - 90 * k) for k in range(1, 60)]
"""Each 0.09 % faster than the one before; the last is 5 % faster than the first."""


def front(points: list[Point]) -> list[Point]:
    """Non-dominated points, by definition: each compared with each."""
    return sorted(
        {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    )


def close(slow: Point, fast: Point) -> bool:
    """Whether cycles differ by less than 0.1 % of the faster point's."""
    return Fraction(abs(slow[1] - fast[1]), min(slow[1], fast[1])) < Fraction(1, 1000)


def identity(point: Point) -> Point:
    return point


@given(POINTS)
@example(CHAIN)
def test_kept_points_are_apart_and_stand_for_every_dropped_one(points: list[Point]) -> None:
    kept = merged(points, identity)
    whole = front(points)
    assert set(kept) <= set(whole)
    assert list(kept) == sorted(kept)
    assert not any(close(p, q) for p in kept for q in kept if p != q)
    for p in whole:
        assert any(q == p or (close(q, p) and q[0] <= p[0]) for q in kept)


@given(POINTS)
def test_the_least_memory_is_kept_and_a_fastest_within_a_thousandth(points: list[Point]) -> None:
    kept = merged(points, identity)
    assert kept[0] == min(points)
    assert 1000 * kept[-1][1] < 1001 * min(cycles for _, cycles in points)


def test_a_chain_of_small_steps_does_not_collapse() -> None:
    kept = merged(CHAIN, identity)
    assert len(kept) == 30
    assert kept[:3] == ((1, 99_910), (3, 99_730), (5, 99_550))


@pytest.mark.parametrize(
    ("cycles", "than", "noticed"),
    [(1000, 1001, True), (1001, 1002, False), (1, 1, False), (0, 0, False), (0, 1, True),
     (19_000, 19_019, True), (19_000, 19_018, False), (10, 9, False)],
)  # fmt: skip
def test_a_difference_of_a_thousandth_is_the_first_that_counts(
    cycles: int, than: int, noticed: bool
) -> None:
    assert noticeably_faster(cycles, than) is noticed


@given(POINTS)
def test_each_goal_selects_what_it_says(points: list[Point]) -> None:
    kept = merged(points, identity)
    cycles = [count for _, count in kept]
    fastest = min(cycles)
    assert kept[pick(cycles, Optimize.SPEED)][1] == fastest
    assert kept[pick(cycles, Optimize.SIZE)][0] == min(size for size, _ in kept)
    near = [p for p in kept if Fraction(p[1], fastest) <= Fraction(101, 100)]
    assert kept[pick(cycles, Optimize.BALANCED)] == min(near)


def test_the_knee_follows_the_pace_that_it_is_given() -> None:
    """Points that spend memory on speed may be faster than the pace."""
    assert pick([1200, 1010, 900], Optimize.BALANCED, pace=1000) == 1
    assert pick([1200, 1010, 900], Optimize.SPEED, pace=1000) == 2
    assert pick([1200, 900, 890], Optimize.BALANCED, pace=1000) == 1
