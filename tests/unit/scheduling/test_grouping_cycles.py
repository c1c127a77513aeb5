"""GroupCycles: a group takes what the plain definition says; small graphs equal the best of all
groupings; `best` is never worse than another strategy; bounds hold."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_graphs import FAMILIES, random_problem
from grouping_judge import Set, least_cost, moved_bytes
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.orders import orders
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.strategies import STRATEGIES, GroupingOptions, best
from penstock.scheduling.grouping.traffic import GroupLimits, Traffic
from penstock.scheduling.order.step_table import bit_mask, bits

OPTIONS = GroupingOptions(level_work=300, ideal_work=2_000, move_work=2_000, bound_work=300)


@st.composite
def costs(draw: st.DrawFn, most: int) -> GroupCycles:
    """Chips from much computing to little bandwidth, with and without latency."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    problem = random_problem(family, draw(st.integers(0, 10**6)), draw(st.integers(1, most)))
    buffer_bytes = draw(st.sampled_from((40, 70, 10**6)))
    count = len(problem.nodes)
    computing = draw(st.lists(st.integers(0, 60), min_size=count, max_size=count))
    traffic = Traffic(problem, GroupLimits(buffer_cap=buffer_bytes))
    speed, latency = draw(st.integers(1, 8)), draw(st.sampled_from((0, 5, 100)))
    return GroupCycles(traffic, computing, speed, latency)


def plain(cost: GroupCycles, group: Set) -> int:
    """The definition, by a set of nodes."""
    weights = sum(cost.problem.nodes[i].weight_bytes for i in group)
    moved = moved_bytes(cost.problem, group) + weights
    waiting = moved // cost.bytes_per_cycle + (moved % cost.bytes_per_cycle > 0)
    computing = sum(cost.computing_cycles[i] for i in group)
    return cost.latency_cycles + max(computing, waiting)


@given(costs(most=8), st.randoms())
def test_a_group_takes_what_the_plain_definition_says(cost: GroupCycles, random: Random) -> None:
    for _ in range(10):
        group = random.randint(1, cost.problem.everything)
        if cost.traffic.of(group) is None:
            assert cost.of(group) is None
        else:
            assert cost.of(group) == plain(cost, frozenset(bits(group)))


@given(costs(most=20))
def test_growing_groups_take_what_each_takes_alone(cost: GroupCycles) -> None:
    for order in orders(cost.problem).values():
        for lower in range(len(order)):
            costs, feasible = cost.interval_costs(order, lower, len(order))
            groups = [bit_mask(order[lower : lower + 1 + k]) for k in range(len(costs))]
            found = [c if ok else None for c, ok in zip(costs.tolist(), feasible, strict=True)]
            assert found == [cost.of(group) for group in groups]


@given(costs(most=7))
def test_small_graphs_equal_the_best_of_all_groupings(cost: GroupCycles) -> None:
    def cycles(problem: GroupingProblem, group: Set) -> int:
        return plain(cost, group)

    buffer_bytes = cost.traffic.limits.buffer_cap
    found = best(cost)
    assert found.cost == least_cost(cost.problem, None, buffer_bytes, True, cycles)
    assert found.optimal


@given(costs(most=40))
def test_best_is_never_worse_and_the_bound_holds(cost: GroupCycles) -> None:
    found = best(cost, OPTIONS)
    for name, strategy in STRATEGIES.items():
        other = strategy(cost, OPTIONS)
        assert found.cost <= other.cost
        if found.cost == other.cost and name != "ideals":
            assert sum(map(cost.moved_bytes, found.groups)) <= sum(
                map(cost.moved_bytes, other.groups)
            )
    order = [i for group in found.groups for i in bits(group)]
    assert cost.bound(order, OPTIONS.bound_work) <= found.cost


@given(costs(most=7))
def test_no_grouping_takes_less_than_the_bound(cost: GroupCycles) -> None:
    for order in orders(cost.problem).values():
        assert cost.bound(order, 300) <= best(cost).cost
