"""Bank groups hold one tensor at a time and need the fewest bytes; all splits are tried."""

from __future__ import annotations

from itertools import product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_graphs import FAMILIES, random_problem
from penstock.errors import CapacityError
from penstock.scheduling.grouping.banks import (
    BankGroups,
    TensorLiveRange,
    best_groups,
    best_split,
    live_ranges,
    paper_groups,
    proportional,
    splits,
)
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode


@st.composite
def some_live_ranges(draw: st.DrawFn, most: int) -> tuple[TensorLiveRange, ...]:
    family = draw(st.sampled_from(sorted(FAMILIES)))
    problem = random_problem(family, draw(st.integers(0, 10**6)), draw(st.integers(1, most)))
    return live_ranges(problem, problem.everything, tuple(range(len(problem.nodes))))


def is_sound(found: BankGroups, some: tuple[TensorLiveRange, ...]) -> bool:
    """Every live range once, and no two of a group in one step."""
    listed = [live_range for group in found.groups for live_range in group]
    if sorted(one.tensor for one in listed) != sorted(one.tensor for one in some):
        return False
    return not any(
        a.tensor != b.tensor and a.first <= b.last and b.first <= a.last
        for group in found.groups
        for a in group
        for b in group
    )


@given(some_live_ranges(most=7))
def test_the_best_groups_are_the_best_of_all(some: tuple[TensorLiveRange, ...]) -> None:
    paper, found = paper_groups(some), best_groups(some, 10**6)
    assert is_sound(paper, some)
    assert is_sound(found, some)
    assert found.optimal
    count = len(paper.groups)
    keys: list[tuple[int, int]] = []
    for colours in product(range(count), repeat=len(some)):
        groups = [
            tuple(live_range for live_range, g in zip(some, colours, strict=True) if g == colour)
            for colour in range(count)
        ]
        candidate = BankGroups(tuple(group for group in groups if group))
        if is_sound(candidate, some):
            keys.append(candidate.key)
    assert found.key == min(keys)


@given(some_live_ranges(most=30), st.integers(1, 50))
def test_a_search_cut_short_is_no_worse_than_the_paper(
    some: tuple[TensorLiveRange, ...], max_states: int
) -> None:
    found = best_groups(some, max_states)
    assert is_sound(found, some)
    assert found.key <= paper_groups(some).key


def test_live_ranges_of_a_chain() -> None:
    nodes = (GroupNode("a", 5, 0, (3,)), GroupNode("b", 6, 0, (0,)), GroupNode("c", 7, 0, (1, 3)))
    problem = GroupingProblem(nodes, (4,), frozenset({1, 2}))
    assert live_ranges(problem, 0b111, (0, 1, 2)) == (
        TensorLiveRange(0, 5, 0, 1),
        TensorLiveRange(3, 4, 0, 2),
        TensorLiveRange(1, 6, 1, 2, drained=2),
        TensorLiveRange(2, 7, 2, 2, drained=3),
    )


def test_the_paper_prefers_what_is_not_drained_to_the_closest_size() -> None:
    drained, other = TensorLiveRange(0, 8, 0, 0, drained=1), TensorLiveRange(1, 2, 0, 0)
    late = TensorLiveRange(2, 8, 1, 1)
    assert paper_groups((drained, other, late)).groups == ((drained,), (other, late))
    quiet = TensorLiveRange(0, 8, 0, 0)
    assert paper_groups((quiet, other, late)).groups == ((quiet, late), (other,))


def test_banks_are_dealt_in_proportion() -> None:
    assert proportional((20, 10), 32) == (21, 11)
    assert proportional((1, 1, 1000), 8) == (1, 1, 6)
    assert proportional((0, 0), 4) == (2, 2)
    with pytest.raises(CapacityError) as caught:
        proportional((1, 1, 1), 2)
    assert caught.value.code == "grouping-004"


@given(st.lists(st.integers(1, 99), min_size=1, max_size=5), st.integers(5, 12))
def test_the_best_split_is_the_best_of_all(sizes: list[int], banks: int) -> None:
    def cost(split: tuple[int, ...]) -> int:
        return sum(-(-size // (3 * n)) for size, n in zip(sizes, split, strict=True))

    every = [
        split for split in product(range(1, banks + 1), repeat=len(sizes)) if sum(split) == banks
    ]
    assert sorted(splits(banks, len(sizes))) == sorted(every)
    assert len(every) == comb(banks - 1, len(sizes) - 1)
    found = best_split(sizes, banks, cost)
    assert found is not None
    assert (found.cost, found.optimal) == (min(map(cost, every)), True)
    assert found.cost <= cost(proportional(sizes, banks))


def test_many_groups_are_dealt_banks_by_moves() -> None:
    sizes = [40, 3, 3, 3, 3, 3, 3, 90]

    def cost(split: tuple[int, ...]) -> int:
        return sum(-(-size // n) for size, n in zip(sizes, split, strict=True))

    found = best_split(sizes, 32, cost)
    assert found is not None
    assert not found.optimal
    assert found.cost <= cost(proportional(sizes, 32))


def test_there_may_be_no_split_that_will_do() -> None:
    assert best_split((4, 4), 8, lambda split: None) is None
