"""Named strategies that partition nodes into groups; `best` is never worse than another.

A grouping partitions the nodes of a network into groups that run one after the other.  The
strategy `paper` is that of Zheng et al., IEEE TCAD 39(11), 2020; see `levels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.scheduling.grouping.bounds import lower_bound
from penstock.scheduling.grouping.cost import OrderCost
from penstock.scheduling.grouping.greedy import greedy
from penstock.scheduling.grouping.grouping import Grouping, ordered_grouping
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.grouping.levels import next_in_level
from penstock.scheduling.grouping.moves import Moves
from penstock.scheduling.grouping.orders import orders
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.order.step_table import bits


@dataclass(frozen=True, slots=True)
class GroupingOptions:
    """Limits of the grouping strategies.

    The fields are budgets of searches.  A search ends when the sum of the sizes (numbers of
    nodes) of the groups that it has examined reaches its budget.
    level_work: budget in the strategy `paper`, which searches all orders of nodes of equal depth.
    ideal_work: budget of the exact search in the strategy `best`.
    move_work: budget of the local search in the strategy `best`.
    bound_work: budget of the search for a lower bound in the strategy `best`.  If the network is
        bisected, the search in each half has half of the budget.
    """

    level_work: int = 50_000
    ideal_work: int = 200_000
    move_work: int = 200_000
    bound_work: int = 20_000


DEFAULTS = GroupingOptions()
Groups = tuple[int, ...]
Strategy = Callable[[OrderCost, GroupingOptions], Grouping]


def layer(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Return the grouping in which every node is a group of its own."""
    return ordered_grouping((1 << i for i in range(len(cost.problem.nodes))), cost)


def greedily(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Return the groups found greedily: repeatedly merge the two groups whose merge saves most."""
    return ordered_grouping(greedy(cost), cost)


def paper(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Return the cheapest groups of consecutive nodes, with the nodes sorted by depth.

    This is the strategy of Zheng et al.  The depth of a node is the length of the longest path that
    ends at it.  The search covers all orders of nodes of equal depth.  If it exceeds its budget,
    the best result for a few of these orders is returned instead.
    """
    search = GroupSearch(cost, cost.problem.everything, next_in_level(cost.problem))
    found = search.run(options.level_work)
    if found.finished:
        return ordered_grouping(found.groups, cost)
    return _least(_depth_orders(cost), cost)


def best(cost: OrderCost, options: GroupingOptions = DEFAULTS) -> Grouping:
    """Return the cheapest grouping of all strategies and orders, improved by two searches.

    The first one is a local search, the second one exact.  If the exact search does not prove the
    result optimal, `bound` is the higher of two lower bounds of the cost: that of the exact search
    and that of `bounds.lower_bound`.
    """
    every = orders(cost.problem)
    # A group may be rejected because its tensors fit in none of the known orders of the nodes.  The
    # second run of a strategy also tries the orders that were evaluated after its first run.
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
    "paper": paper,
    "best": best,
}
"""Strategies by the name that the option `partition` selects."""

COMPARED = ("layer", "greedy", "paper")
"""The strategies whose groupings `best` is compared with."""


def _candidates(
    cost: OrderCost, options: GroupingOptions, every: Mapping[str, Sequence[int]]
) -> Iterator[Groups]:
    """Yield divisions of the nodes into groups, each as a tuple of node masks.

    There is one for each heuristic strategy, then one for each order in `every`: the division of
    the order into intervals that costs least.
    every: orders by name; each contains all nodes.
    """
    for strategy in (paper, greedily):
        yield strategy(cost, options).groups
    for order in every.values():
        yield intervals(order, cost)


def _depth_orders(cost: OrderCost) -> Iterator[Groups]:
    """Yield one division of the nodes into groups for each order in `orders`, such as "dfs".

    The nodes are sorted by depth; nodes of equal depth remain as in the order.  The depth of a node
    is the length of the longest path that ends at it.  The groups are the intervals of the sorted
    nodes that cost least in total.  The division is () if no division into intervals is feasible.
    """
    depths = cost.problem.depths
    for order in orders(cost.problem).values():
        yield intervals(sorted(order, key=depths.__getitem__), cost)


def _least(some: Iterable[Groups], cost: OrderCost) -> Grouping:
    """Return the grouping of least cost; the sum of secondary costs (`cost.tie`) breaks ties.

    some: candidates, each a tuple of node masks; an empty one is skipped.  If all are empty, every
        node becomes a group.
    """
    found = [ordered_grouping(groups, cost) for groups in some if groups]
    return (
        min(found, key=lambda g: (g.cost, sum(map(cost.tie, g.groups)))) if found else layer(cost)
    )


def _certified(start: Grouping, cost: OrderCost, options: GroupingOptions) -> Grouping:
    """Return `start`, or a cheaper grouping found by the exact search.

    The `bound` of the result is a lower bound of the cost of any grouping.
    """
    search = GroupSearch(cost, cost.problem.everything)
    found = search.run(options.ideal_work, start.cost)
    done = ordered_grouping(found.groups, cost) if found.groups else start
    # The bound of the search is invalid if `cost` has rejected groups that may be feasible: they
    # could be part of a cheaper grouping.
    bound = cost.least(cost.problem.everything) if cost.undecided else int(found.bound)
    return replace(done, bound=bound, work=found.work)
