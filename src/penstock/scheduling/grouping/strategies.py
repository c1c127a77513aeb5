"""Grouping strategies by name; `best` is never worse than any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.scheduling.grouping.bounds import lower_bound
from penstock.scheduling.grouping.cost import OrderCost
from penstock.scheduling.grouping.greedy import greedy
from penstock.scheduling.grouping.grouping import Grouping, ordered_grouping
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.grouping.levels import next_in_level
from penstock.scheduling.grouping.merging import merged_intervals
from penstock.scheduling.grouping.moves import Moves
from penstock.scheduling.grouping.orders import orders
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.order.step_table import bits


@dataclass(frozen=True, slots=True)
class GroupingOptions:
    """Budgets of the searches, in nodes of the groups examined.

    bounded_nodes: maximum number of nodes per group, for the strategy `bounded`.
    level_work: search for an order within the paper's levels.
    ideal_work: exact search.
    move_work: local search.
    bound_work: lower bound, for each of its largest pieces.
    """

    bounded_nodes: int = 4
    level_work: int = 50_000
    ideal_work: int = 200_000
    move_work: int = 200_000
    bound_work: int = 20_000


DEFAULTS = GroupingOptions()
Groups = tuple[int, ...]
Strategy = Callable[[OrderCost, GroupingOptions], Grouping]


def layer(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Return every node as a group of its own."""
    return ordered_grouping((1 << i for i in range(len(cost.problem.nodes))), cost)


def greedily(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Merge groups by Halide's rule."""
    return ordered_grouping(greedy(cost), cost)


def bounded(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Dynamic programming along the order of depth; at most `bounded_nodes` nodes per group."""
    order = orders(cost.problem)["asap"]
    return ordered_grouping(intervals(order, cost, options.bounded_nodes), cost)


def paper(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Dynamic programming along the order of depth, with the best order found within each level.

    Exact over orders if the search finishes; otherwise the best of the orders by other heuristics.
    """
    search = GroupSearch(cost, cost.problem.everything, next_in_level(cost.problem))
    found = search.run(options.level_work)
    if found.finished:
        return ordered_grouping(found.groups, cost)
    return _least(_depth_orders(cost), cost)


def paper_merged(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """The paper's strategy with pointwise nodes merged with their producers beforehand."""
    return ordered_grouping(merged_intervals(cost), cost)


def ideals(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Exact search over down-sets; `paper` with a lower bound if it does not finish."""
    return _certified(paper(cost, options), cost, options)


def best(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """The least cost of all strategies and orders, improved by local search.

    Optimal if the exact search finishes, otherwise with a lower bound.  Every strategy runs twice:
    groups that were undecided may fit in an order that another strategy has found since.
    """
    every = orders(cost.problem)
    twice = (groups for _ in range(2) for groups in _candidates(cost, options, every))
    start = _least(twice, cost)
    moves = Moves(cost, tuple(every.values()), start.groups, options.move_work)
    moved = ordered_grouping(moves.improve(), cost)
    found = _certified(moved, cost, options)
    if found.optimal:
        return found
    order = [i for group in found.groups for i in bits(group)]
    bound, work = lower_bound(cost, order, options.bound_work)
    return replace(found, bound=max(found.bound, bound), work=found.work + work)


STRATEGIES: Mapping[str, Strategy] = {
    "layer": layer,
    "greedy": greedily,
    "bounded": bounded,
    "paper": paper,
    "paper_merged": paper_merged,
    "ideals": ideals,
    "best": best,
}
"""Strategies by their name in options."""


def _candidates(
    cost: OrderCost, options: GroupingOptions, every: Mapping[str, Sequence[int]]
) -> Iterator[Groups]:
    """Yield the groups of every strategy and along every order."""
    for strategy in (paper, paper_merged, greedily, bounded):
        yield strategy(cost, options).groups
    for order in every.values():
        yield intervals(order, cost)


def _depth_orders(cost: OrderCost) -> Iterator[Groups]:
    """Yield the best groups along orders by depth, ties within a depth as in other orders."""
    depths = cost.problem.depths
    for order in orders(cost.problem).values():
        yield intervals(sorted(order, key=depths.__getitem__), cost)


def _least(some: Iterable[Groups], cost: OrderCost) -> Grouping:
    """Return the grouping of least cost, then least tie; single nodes if there are no groups."""
    found = [ordered_grouping(groups, cost) for groups in some if groups]
    return (
        min(found, key=lambda g: (g.cost, sum(map(cost.tie, g.groups)))) if found else layer(cost)
    )


def _certified(start: Grouping, cost: OrderCost, options: GroupingOptions) -> Grouping:
    """Return a grouping, or a cheaper one found by the exact search, with the proven bound."""
    search = GroupSearch(cost, cost.problem.everything)
    found = search.run(options.ideal_work, start.cost)
    done = ordered_grouping(found.groups, cost) if found.groups else start
    return replace(done, bound=0 if cost.undecided else int(found.bound), work=found.work)
