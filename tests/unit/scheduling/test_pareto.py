"""Pareto: the efficient costs are those of brute force, for any number of components."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.scheduling.pareto import efficient, frontier

Cost = tuple[int, ...]

costs = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(0, 6)] * size), max_size=40)
)


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
