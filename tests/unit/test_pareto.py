"""Pareto: the efficient costs are those of brute force, for any number of components."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.pareto import (
    efficient,
    efficient_pairs,
    efficient_rows,
    frontier,
    frontier_of_groups,
    near_frontier,
    thinned,
)

Cost = tuple[int, ...]

costs = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(0, 6)] * size), max_size=40)
)

pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


def dominated(k: int, costs: list[Cost]) -> bool:
    """Whether another is nowhere worse, and better somewhere or came first."""
    return any(
        all(x <= y for x, y in zip(other, costs[k], strict=True)) and (other != costs[k] or j < k)
        for j, other in enumerate(costs)
        if j != k
    )


@given(costs=costs)
def test_the_efficient_costs_are_those_that_brute_force_keeps(costs: list[Cost]) -> None:
    kept = efficient(costs)
    assert sorted(kept) == [k for k in range(len(costs)) if not dominated(k, costs)]
    assert [costs[k] for k in kept] == sorted(costs[k] for k in kept)


@given(costs=costs)
def test_efficient_rows_are_the_efficient_vectors(costs: list[Cost]) -> None:
    rows = np.array(costs, np.int64).reshape(len(costs), len(costs[0]) if costs else 1)
    assert tuple(efficient_rows(rows).tolist()) == efficient(costs)


@given(costs=costs, data=st.data())
def test_the_frontier_does_not_depend_on_the_order_of_what_came(
    costs: list[Cost], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(costs))
    assert frontier(costs, tuple) == frontier(iter(shuffled), tuple)


def test_of_two_components_each_is_held_against_one_rival() -> None:
    looked = 0

    class Counted(int):
        def __le__(self, other: object) -> bool:
            nonlocal looked
            looked += 1
            return int(self) <= int(other)  # type: ignore[call-overload]

    chain = [(Counted(k), Counted(1000 - k)) for k in range(1000)]
    assert efficient(chain) == tuple(range(1000))
    assert looked <= 2 * 1000


@given(pairs=pairs)
def test_efficient_pairs_are_the_efficient_vectors(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    assert tuple(efficient_pairs(first, second).tolist()) == efficient(pairs)


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9))))
def test_efficient_pairs_compete_within_their_group(rows: list[Cost]) -> None:
    group, first, second = np.array(rows, np.int64).reshape(-1, 3).T
    expected = [
        members[k]
        for g in range(4)
        for members in [[i for i, row in enumerate(rows) if row[0] == g]]
        for k in efficient([rows[i][1:] for i in members])
    ]
    assert efficient_pairs(first, second, group).tolist() == expected


@given(pairs=pairs, slack=st.sampled_from((0.0, 0.2, 1.0)))
def test_items_near_the_frontier_are_within_the_slack_of_every_faster_one(
    pairs: list[tuple[int, int]], slack: float
) -> None:
    kept = near_frontier(pairs, lambda pair: pair, slack)
    assert kept == sorted(kept)
    assert set(frontier(pairs, tuple)) <= set(kept)
    for pair in pairs:
        ahead = [p for p in pairs if (p[1], p[0]) < (pair[1], pair[0])]
        assert (pair in kept) == (pair[0] <= min((p[0] for p in ahead), default=9) * (1 + slack))


def test_thinning_drops_small_improvements_and_keeps_what_does_not_improve() -> None:
    found = thinned([100, 99, 120, 90, 89, 80], lambda n: n, lambda n, least: least - n >= 5)
    assert [*found] == [100, 120, 90, 80]


@given(data=st.data(), groups=st.lists(st.lists(st.tuples(*[st.integers(0, 9)] * 2)), max_size=6))
def test_the_frontier_of_groups_is_that_of_all_items(
    data: st.DataObject, groups: list[list[tuple[int, int]]]
) -> None:
    items = [item for group in groups for item in group]
    bounds = [
        min((item[0] for group in groups[k:] for item in group), default=9)
        - data.draw(st.integers(0, 2))
        for k in range(len(groups))
    ]
    found = [*frontier_of_groups(zip(bounds, groups, strict=True), lambda item: item)]
    expected = [i for i in items if not any(a < i[0] and b <= i[1] for a, b in items)]
    assert found == sorted(expected)


def test_a_group_is_evaluated_only_when_it_is_needed() -> None:
    seen: list[int] = []

    def groups() -> Iterator[tuple[float, list[tuple[int, int]]]]:
        for bound in (1, 5, 9):
            seen.append(bound)
            yield bound, [(bound, 10 - bound)]

    assert next(frontier_of_groups(groups(), lambda item: item)) == (1, 9)
    assert seen == [1, 5]
