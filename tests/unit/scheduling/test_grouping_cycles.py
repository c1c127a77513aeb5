"""GroupCycles: a group takes what the plain definition says; small graphs equal the best of all
groupings; `best` is never worse than another strategy; bounds hold."""

from __future__ import annotations

from functools import cache
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_graphs import FAMILIES, random_problem
from grouping_judge import Set, least_cost
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.strategies import STRATEGIES, GroupingOptions, best, orders
from penstock.scheduling.order.steps import bit_mask, bits

OPTIONS = GroupingOptions(level_work=300, ideal_work=2_000, move_work=2_000)
NEVER = 10**9
"""Cycles of a group whose tensors do not fit."""


@st.composite
def costs(draw: st.DrawFn, most: int) -> GroupCycles:
    """Chips from much computing to little bandwidth, with and without latency."""
    family = draw(st.sampled_from(sorted(FAMILIES)))
    problem = random_problem(family, draw(st.integers(0, 10**6)), draw(st.integers(1, most)))
    computing = draw(st.lists(st.integers(0, 60), min_size=most, max_size=most))
    speed, latency = draw(st.integers(1, 8)), draw(st.sampled_from((0, 5, 100)))

    def node_cycles(i: int, kept: int) -> int:
        read = [t for t in bits(problem.reads[i]) if not kept >> t & 1]
        written = [] if kept >> i & 1 else [i]
        moved = sum(problem.sizes[t] for t in (*read, *written))
        return latency * bool(read) + max(computing[i], moved // speed)

    return GroupCycles(problem, node_cycles, draw(st.sampled_from((10, 30, 60, 10**6))))


def kept_by(problem: GroupingProblem, group: Set) -> Set:
    """The tensors that only the group uses."""
    others = [n for i, n in enumerate(problem.nodes) if i not in group]
    return frozenset(
        t for t in group if t not in problem.outputs and all(t not in n.reads for n in others)
    )


def fits(problem: GroupingProblem, group: Set, capacity_bytes: int) -> bool:
    """Whether these tensors fit in some order of the group."""
    kept = kept_by(problem, group)

    @cache
    def can_end(done: Set) -> bool:
        if done == group:
            return True
        for i in group - done:
            if all(t not in group or t in done for t in problem.nodes[i].reads):
                pending = {t for k in group - done for t in problem.nodes[k].reads}
                live = sum(problem.sizes[t] for t in kept & (pending & done | {i}))
                if live <= capacity_bytes and can_end(done | {i}):
                    return True
        return False

    return len(group) == 1 or can_end(frozenset())


def plain(cost: GroupCycles, group: Set) -> int:
    """The definition, by a set of nodes."""
    if not fits(cost.problem, group, cost.capacity_bytes):
        return NEVER
    kept = kept_by(cost.problem, group)
    return sum(
        cost.node_cycles(i, bit_mask(kept & {*cost.problem.nodes[i].reads, i})) for i in group
    )


@given(costs(most=8), st.randoms())
def test_a_group_takes_what_the_plain_definition_says(cost: GroupCycles, random: Random) -> None:
    for _ in range(10):
        group = random.randint(1, cost.problem.everything)
        expected = plain(cost, frozenset(bits(group)))
        assert cost.of(group) == (None if expected == NEVER else expected)
        assert not cost.undecided


@given(costs(most=20))
def test_growing_groups_take_what_each_takes_alone(cost: GroupCycles) -> None:
    for order in orders(cost.problem).values():
        for lower in range(len(order)):
            costs, feasible = cost.interval_costs(order, lower, len(order))
            groups = [bit_mask(order[lower : lower + 1 + k]) for k in range(len(costs))]
            found = [c if ok else None for c, ok in zip(costs.tolist(), feasible, strict=True)]
            assert found == [cost.of(group) for group in groups]
            if len(groups) < len(order) - lower:  # no larger group fits
                assert cost.of(bit_mask(order[lower:])) is None


@given(costs(most=7))
def test_small_graphs_equal_the_best_of_all_groupings(cost: GroupCycles) -> None:
    def cycles(problem: GroupingProblem, group: Set) -> int:
        return plain(cost, group)

    found = best(cost)
    assert found.cost == least_cost(cost.problem, None, None, True, cycles)
    assert found.optimal


@given(costs(most=40))
def test_best_is_never_worse_and_the_bound_holds(cost: GroupCycles) -> None:
    found = best(cost, OPTIONS)
    for strategy in STRATEGIES.values():
        other = strategy(cost, OPTIONS)
        assert found.cost <= other.cost
        if found.cost == other.cost:
            assert sum(map(cost.tie, found.groups)) <= sum(map(cost.tie, other.groups))
    everything = cost.problem.everything
    least = cost.least(everything)
    assert least(everything) <= found.bound <= found.cost
    assert least(everything) == sum(least(1 << i) for i in bits(everything))


@given(costs(most=20), st.randoms())
def test_a_group_fits_in_the_order_that_is_found(cost: GroupCycles, random: Random) -> None:
    problem = cost.problem
    for _ in range(5):
        group = random.randint(1, problem.everything)
        order = cost.fitting_order(group)
        if order is not None:
            assert sorted(order) == list(bits(group))
            kept = kept_by(problem, frozenset(order))
            for k, i in enumerate(order):
                pending = {t for j in order[k:] for t in problem.nodes[j].reads}
                live = kept & (pending & set(order[:k]) | {i})
                assert sum(problem.sizes[t] for t in live) <= cost.capacity_bytes
