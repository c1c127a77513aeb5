"""Named strategies that partition nodes into groups; `best` is never worse than another.

layer    every node is a group of its own
greedy   repeatedly merge the two connected groups whose merge reduces the cost most.  Source:
         Mullapudi et al., Automatically Scheduling Halide Image Processing Pipelines, ACM TOG
         35(4), 2016
paper    groups of nodes that are consecutive if nodes run in ascending order of depth.  Source:
         Zheng et al., Efficient Scheduling of Irregular Network Structures on CNN Accelerators,
         IEEE TCAD 39(11), 2020, section 4.2.  They do not define the order of nodes of equal
         depth; here it is free
best     the cheapest of these and of intervals of several orders, improved by a local search
         and an exact one (`search.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from penstock.frozen import frozen
from penstock.scheduling.grouping.problem import (
    GroupCost,
    Grouping,
    GroupingProblem,
    OrderCost,
    ordered_grouping,
    total_cost,
)
from penstock.scheduling.grouping.search import GroupSearch, Moves, intervals
from penstock.scheduling.order.steps import Heuristic, bit_mask, bits, heuristic_order

ORDERS: Mapping[str, Heuristic] = {
    "asap": Heuristic.EARLY,
    "alap": Heuristic.LATE,
    "dfs": Heuristic.DEPTH_FIRST,
    "reverse": Heuristic.REVERSE,
    "bfs": Heuristic.BREADTH_FIRST,
    "file": Heuristic.FILE,
}
"""asap, alap: by the length of the longest path from the start, or to the end.  dfs, reverse: depth
first, from the start or from the end.  bfs: breadth first.  file: as in the model file.
"""


def orders(problem: GroupingProblem) -> dict[str, tuple[int, ...]]:
    """Return topological orders of a problem's nodes (as indices), by the names in `ORDERS`.

    The names include "dfs" (depth first), "bfs" (breadth first) and "file" (as in the model file).
    """
    return {name: heuristic_order(problem.table, kind) for name, kind in ORDERS.items()}


@frozen
class GroupingOptions:
    """Limits of the grouping strategies.

    The fields are budgets of searches.  A search ends when the sum of the sizes (numbers of
    nodes) of the groups that it has examined reaches its budget.
    level_work: budget in the strategy `paper`, which searches all orders of nodes of equal depth.
    ideal_work: budget of the exact search in the strategy `best`.
    move_work: budget of the local search in the strategy `best`.
    """

    level_work: int = 50_000
    ideal_work: int = 200_000
    move_work: int = 200_000


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

    The first one is a local search, the second one exact.  `bound` is that of the exact search.
    """
    every = orders(cost.problem)
    # A group may be rejected because its tensors fit in none of the known orders of the nodes.  The
    # second run of a strategy also tries the orders that were evaluated after its first run.
    twice = (groups for _ in range(2) for groups in _candidates(cost, options, every))
    start = _least(twice, cost)
    moves = Moves(cost, tuple(every.values()), start.groups, options.move_work)
    moved = ordered_grouping(moves.improve(), cost)
    search = GroupSearch(cost, cost.problem.everything)
    found = search.run(options.ideal_work, moved.cost)
    done = ordered_grouping(found.groups, cost) if found.groups else moved
    # The bound of the search is invalid if `cost` has rejected groups that may be feasible: they
    # could be part of a cheaper grouping.
    everything = cost.problem.everything
    bound = cost.least(everything)(everything) if cost.undecided else int(found.bound)
    return replace(done, bound=bound, work=found.work)


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


def greedy(cost: GroupCost) -> tuple[int, ...]:
    """Merge groups until no merge of two connected groups reduces the cost; return the groups.

    At first, each node is a group.  In each step, the two groups whose merge saves most are merged.
    Groups are masks of nodes.
    """
    links = Links(cost.problem, [1 << i for i in range(len(cost.problem.nodes))])
    heap = [
        (-saved, pair)
        for a in range(len(links.groups))
        for b in sorted(links.readers[a])
        for pair in [(a, b)]
        if (saved := saving(cost, links.groups[a], links.groups[b])) > 0
    ]
    heapify(heap)
    while heap:
        _, (a, b) = heappop(heap)
        if links.groups[a] and links.groups[b] and links.may_join(a, b):
            joined = links.join(a, b)
            for other in sorted(links.writers[joined] | links.readers[joined]):
                saved = saving(cost, links.groups[joined], links.groups[other])
                pair = (joined, other) if other in links.readers[joined] else (other, joined)
                if saved > 0:
                    heappush(heap, (-saved, pair))
    return tuple(group for group in links.groups if group)


def saving(cost: GroupCost, a: int, b: int) -> int:
    """Return by how much the cost decreases if two groups are merged.

    The result is negative if the cost increases, and 0 if the two cannot be one group.
    a, b: node masks of the groups.
    """
    if cost.hopeless(a | b):
        return 0
    parts, whole = total_cost(cost, (a, b)), cost.of(a | b)
    return 0 if parts is None or whole is None else parts - whole


class Links:
    """A graph whose vertices are groups that can be merged.

    An edge leads from a group to each group that reads its tensors.
    groups: masks of nodes; 0 for a group that has been merged into another one.
    writers[g]: indices of the groups whose tensors group g reads.
    readers[g]: indices of the groups that read tensors of group g.
    """

    def __init__(self, problem: GroupingProblem, groups: list[int]) -> None:
        """Build the graph in which an edge links each group to the groups that read its tensors.

        groups: masks of nodes, in a topological order.
        """
        self.groups = groups
        of = {i: g for g, group in enumerate(groups) for i in bits(group)}
        self.writers: list[set[int]] = []
        self.readers: list[set[int]] = [set() for _ in groups]
        for g, group in enumerate(groups):
            from_outside = problem.read_from_outside(group) & problem.everything
            self.writers.append({of[i] for i in bits(from_outside)})
            for writer in self.writers[g]:
                self.readers[writer].add(g)

    def may_join(self, a: int, b: int) -> bool:
        """Return whether group `a` and one of its readers, `b`, can be merged without a cycle.

        The two can be merged if no path leads from `a` to `b` through another group.
        a, b: indices of groups.
        """
        stack = [reader for reader in self.readers[a] if reader != b]
        seen = set(stack)
        while stack:
            here = stack.pop()
            if here == b:
                return False
            fresh = self.readers[here] - seen
            seen |= fresh
            stack += fresh
        return True

    def join(self, a: int, b: int) -> int:
        """Merge the groups with indices `a` and `b`, and return the index of the new group."""
        joined = len(self.groups)
        self.groups.append(self.groups[a] | self.groups[b])
        self.writers.append((self.writers[a] | self.writers[b]) - {a, b})
        self.readers.append((self.readers[a] | self.readers[b]) - {a, b})
        for old in (a, b):
            for writer in self.writers[old]:
                self.readers[writer] -= {a, b}
            for reader in self.readers[old]:
                self.writers[reader] -= {a, b}
        for writer in self.writers[joined]:
            self.readers[writer].add(joined)
        for reader in self.readers[joined]:
            self.writers[reader].add(joined)
        self.groups[a] = self.groups[b] = 0
        return joined


def next_in_level(problem: GroupingProblem) -> Callable[[int], int]:
    """Return a function from a mask of executed nodes to the mask of the nodes that may run next.

    With it, nodes run in ascending order of depth: the number of edges on the longest path that
    ends at a node.  All remaining nodes of the least depth may run next; the mask is 0 if none
    remain.
    """
    depths = problem.depths
    levels = [
        bit_mask(i for i, depth in enumerate(depths) if depth == level)
        for level in range(max(depths, default=-1) + 1)
    ]

    def ready(done: int) -> int:
        return next((level & ~done for level in levels if level & ~done), 0)

    return ready
