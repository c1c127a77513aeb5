"""Local search: better groupings near a given one.

    regroup   divide a region into new groups; a region consists of two groups that share a tensor
              and of the groups on paths between them
    move      move a node to the group of one of its producers or readers

Small regions are regrouped by exact search.  If a region is too large or the search does not
finish, it is divided into intervals of each of several orders, and the cheapest division is kept.

The moves are those of Tan et al., Cocco (ASPLOS 2024); `regroup` includes their moves join and
split.  Cocco draws moves at random; here all are tried until none improves the grouping or the
budget is spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.grouping.problem import OrderCost, group_by_node, runnable, total_cost
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.order.steps import bit_mask, bits

EXACT_NODES = 16
"""Maximum number of nodes that are regrouped by exact search."""
EXACT_WORK = 8_000
"""Budget of one exact search: the total number of nodes of the groups examined."""


@dataclass(slots=True)
class Moves:
    """Local search that reduces the total cost of given groups.

    cost: computes the cost of a group.
    orders: orders of all nodes, used to regroup large regions.  A region consists of two groups
        that share a tensor and of the groups on paths between them.  A region that is too large for
        an exact search is divided into intervals of one of these orders.
    groups: the present groups, as masks of nodes in a topological order.
    work: remaining budget, as the sum of the sizes (numbers of nodes) of the groups that may still
        be examined.
    """

    cost: OrderCost
    orders: Sequence[Sequence[int]]
    groups: tuple[int, ...]
    work: int

    def improve(self) -> tuple[int, ...]:
        """Regroup neighbouring groups and move single nodes while that reduces the cost.

        The search also ends when its budget is spent.  Returns the groups, as node masks.
        """
        tried: set[int] = set()
        while self.work > 0 and (self._regroup(tried) or self._move()):
            pass
        return self.groups

    def _regroup(self, tried: set[int]) -> bool:
        """Regroup every region that is not in `tried`; return whether any region became cheaper.

        A region consists of two groups that share a tensor and of the groups on paths between them.
        tried: node masks of the regions tried so far; updated.
        """
        helped = False
        for region in self._regions():
            if self.work <= 0:
                break
            if region in tried:
                continue
            tried.add(region)
            old = tuple(group for group in self.groups if group & region)
            if sum(old) != region:
                continue  # an earlier move changed the groups of the region
            new = self._grouped(region, self._present_cost(old))
            if new:
                self._replace(old, new)
                helped = True
        return helped

    def _regions(self) -> Iterator[int]:
        """Yield regions to regroup, as masks of nodes.

        A region consists of two groups that share a tensor and of the groups on paths between them.
        """
        groups = self.groups
        above, below = self._ancestors_and_descendants()
        for a, b in self._pairs():
            path = below[a] & above[b]
            yield path if path else groups[a] | groups[b]

    def _pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of groups that share a tensor, as indices into `groups`.

        In each pair, the lower index comes first.
        """
        problem, of = self.cost.problem, group_by_node(self.groups)
        found: set[tuple[int, int]] = set()
        for t, readers in enumerate(problem.readers):
            sharing = {of[i] for i in bits(readers)}
            if t < len(problem.nodes):
                sharing.add(of[t])
            some = sorted(sharing)
            found |= {(a, b) for k, a in enumerate(some) for b in some[k + 1 :]}
        return sorted(found)

    def _ancestors_and_descendants(self) -> tuple[list[int], list[int]]:
        """Return the ancestors and the descendants of all groups, as two lists (above, below).

        above[g]: mask of the nodes of group g and of all groups on which it depends.
        below[g]: mask of the nodes of group g and of all groups that depend on it.
        Dependences may be direct or indirect.
        """
        problem, of = self.cost.problem, group_by_node(self.groups)
        above, below = list(self.groups), list(self.groups)
        writers = [
            {of[i] for i in bits(problem.read_from_outside(group) & problem.everything)}
            for group in self.groups
        ]
        for g, some in enumerate(writers):
            for writer in some:
                above[g] |= above[writer]
        for g in reversed(range(len(writers))):
            for writer in writers[g]:
                below[writer] |= below[g]
        return above, below

    def _grouped(self, region: int, ceiling: int) -> tuple[int, ...]:
        """Return the cheapest groups found for a region; empty if none cost less than `ceiling`.

        region: mask of the nodes to be grouped.
        ceiling: total cost of the present groups of these nodes.
        """
        if region.bit_count() <= EXACT_NODES:
            search = GroupSearch(self.cost, region)
            found = search.run(min(EXACT_WORK, self.work), ceiling)
            self.work -= found.work
            if found.finished:
                return found.groups
        best: tuple[int, ...] = ()
        for order in self.orders:
            inside = [i for i in order if region >> i & 1]
            self.work -= 4 * len(inside)
            groups = intervals(inside, self.cost)
            cost = total_cost(self.cost, groups)
            if groups and cost is not None and cost < ceiling:
                best, ceiling = groups, cost
        return best

    def _move(self) -> bool:
        """Move each node to the group of one of its producers or readers, if that reduces the cost.

        Returns whether any node was moved.
        """
        problem, helped = self.cost.problem, False
        of = group_by_node(self.groups)
        for i in range(len(problem.nodes)):
            node, home = 1 << i, self.groups[of[i]]
            near = problem.before[i] | problem.readers[i]
            for other in sorted({of[k] for k in bits(near & ~home)}):
                target = self.groups[other]
                new = tuple(group for group in (home & ~node, target | node) if group)
                self.work -= target.bit_count()
                if self._cheaper(new, (home, target)) and self._replace((home, target), new):
                    helped, of = True, group_by_node(self.groups)
                    break
            if self.work <= 0:
                break
        return helped

    def _cheaper(self, new: Sequence[int], old: Sequence[int]) -> bool:
        after = total_cost(self.cost, new)
        return after is not None and after < self._present_cost(old)

    def _present_cost(self, groups: Sequence[int]) -> int:
        """Return the total cost of some of the present groups.

        groups: node masks.
        """
        total = total_cost(self.cost, groups)
        assert total is not None, "every present set of nodes is a group"
        return total

    def _replace(self, old: Sequence[int], new: Sequence[int]) -> bool:
        """Replace groups, unless that creates a cycle; return whether they were replaced.

        old, new: node masks of the groups to be replaced, and of the groups that replace them.
        """
        kept = (group for group in self.groups if group not in old)
        order = runnable(self.cost.problem, (*kept, *new))
        if order is None:
            return False
        self.groups = order
        return True


def intervals(
    order: Sequence[int],
    cost: OrderCost,
    most: int | None = None,
) -> tuple[int, ...]:
    """Divide an order into intervals of least total cost; return them as groups (node masks).

    order: nodes in a topological order; need not contain all nodes.
    most: maximum number of nodes per group; None: no limit.

    The result is empty if the order cannot be divided into groups.
    """
    count = len(order)
    least = np.full(count + 1, UNBOUNDED, np.int64)  # least cost of groups up to each position
    begin = np.zeros(count + 1, np.int64)  # where the last of these groups begins
    least[0] = 0
    for lower in range(count):
        if least[lower] == UNBOUNDED:
            continue
        upper = count if most is None else min(count, lower + most)
        costs, feasible = cost.interval_costs(order, lower, upper)
        uppers = np.arange(lower + 1, lower + 1 + len(costs))
        better = feasible & (least[lower] + costs < least[uppers])
        least[uppers[better]] = least[lower] + costs[better]
        begin[uppers[better]] = lower
    if least[count] == UNBOUNDED:
        return ()
    groups: list[int] = []
    upper = count
    while upper:
        lower = int(begin[upper])
        groups.append(bit_mask(order[lower:upper]))
        upper = lower
    return tuple(reversed(groups))
