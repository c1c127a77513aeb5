"""Searches for the groups of least total cost: an exact one, and a local one.

`GroupSearch` is exact: best-first search for the groups that partition a region, a set of nodes.  A
down-set is a subset of the region that contains, with each node, all producers of the node in the
region: the nodes of a down-set can run before all others.  A grouping is a path from the empty set
to the region through down-sets, where each edge adds a group that can run next.  Down-sets are
expanded in ascending order of an estimate: the cost of the path to the down-set plus a lower bound
of the remaining cost.  So the first path that reaches the region is optimal.  Before that, the
estimate of the down-set to be expanded next is a proven lower bound of the total cost.

`Moves` finds better groupings near a given one:

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

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.frozen import frozen
from penstock.scheduling.grouping.problem import (
    GroupCost,
    OrderCost,
    group_by_node,
    runnable,
    total_cost,
)
from penstock.scheduling.order.steps import bit_mask, bits

Ready = Callable[[int], int]
"""Function from the mask of a down-set to the mask of the nodes that may be added to it."""


@frozen
class GroupFinding:
    """The result of a search for the grouping of least cost.

    groups: the optimal groups, as node masks; empty if the search did not finish, or if every
        grouping costs at least the ceiling, an upper limit of the cost given to the search.
    bound: proven lower bound of the cost of any grouping in the search space, at most the ceiling.
    finished: whether the search ended within its budget.
    work: sum of the sizes (numbers of nodes) of the groups examined.
    """

    groups: tuple[int, ...]
    bound: float
    finished: bool
    work: int


class GroupSearch:
    """Best-first search for the groups of least total cost that partition a region.

    The states are down-sets.  A down-set is a set of executed nodes of the region; with each node,
    it contains all producers of the node in the region.

    region: mask of nodes such that no path between two of them leaves the region.
    ready: function from a down-set to the mask of the nodes that may be added to it; None: all
        remaining nodes whose producers are in the down-set.
    """

    def __init__(self, cost: GroupCost, region: int, ready: Ready | None = None) -> None:
        self._cost, self._region = cost, region
        self._ready = ready or self._all_ready
        self._restricted = ready is not None
        self._before = {i: cost.problem.before[i] & region for i in bits(region)}
        self._near = {i: self._neighbours(i) for i in bits(region)}
        self._least = cost.least(region)
        self.work = 0

    def run(self, max_work: int, ceiling: float = math.inf) -> GroupFinding:
        """Return the groups of least total cost, if they cost less than `ceiling`.

        max_work: budget of the search, as the sum of the sizes (numbers of nodes) of the groups
            examined.  If the budget is spent, the result contains only a lower bound of the cost.
        """
        reached = {0: 0}
        came: dict[int, int] = {}
        closed: set[int] = set()
        heap = [(self._least(self._region), 0, 0)]
        while heap:
            estimate, _, done = heappop(heap)
            if done == self._region:
                return GroupFinding(tuple(_path(came, done)), estimate, True, self.work)
            if done in closed:
                continue
            closed.add(done)
            for after in self._steps(done, max_work):
                spent = self._cost.of(after & ~done)
                if spent is None:
                    continue
                total = reached[done] + spent
                if total >= reached.get(after, math.inf):
                    continue
                estimate_after = total + self._least(self._region & ~after)
                if estimate_after >= ceiling:
                    continue
                reached[after], came[after] = total, done
                heappush(heap, (estimate_after, -after.bit_count(), after))
            if self.work >= max_work:
                return GroupFinding((), estimate, False, self.work)
        return GroupFinding((), ceiling, True, self.work)

    def _steps(self, done: int, max_work: int) -> Iterator[int]:
        """Yield the masks of executed nodes that extend the mask `done` by one more group.

        Groups of two or more nodes that are provably infeasible are skipped.
        max_work: budget of the whole search; the iteration stops when it is spent.
        """
        seen: set[int] = set()
        stack = [(done, self._ready(done))]
        while stack and self.work < max_work:
            here, ready = stack.pop()
            for i in bits(ready):
                after = here | 1 << i
                if after in seen:
                    continue
                seen.add(after)
                group = after & ~done
                self.work += group.bit_count()
                if group & (group - 1) and self._cost.hopeless(group):
                    continue
                stack.append((after, self._ready_after(after, ready, i)))
                # Components without common tensors cost no more as groups of their own.
                if self._restricted or self._connected(group):
                    yield after

    def _all_ready(self, done: int) -> int:
        before = self._before
        return bit_mask(i for i in bits(self._region & ~done) if not before[i] & ~done)

    def _ready_after(self, done: int, ready: int, i: int) -> int:
        """Return the mask of the nodes that are ready after node `i` has run.

        done: mask of the executed nodes, including `i`.
        ready: mask of the nodes that were ready before.
        """
        if self._restricted:
            return self._ready(done)
        readers = self._cost.problem.readers[i] & self._region
        return ready & ~(1 << i) | bit_mask(r for r in bits(readers) if not self._before[r] & ~done)

    def _neighbours(self, i: int) -> int:
        """Return the mask of the nodes that share a tensor with node `i`."""
        problem = self._cost.problem
        near = problem.before[i] | problem.readers[i]
        for tensor in bits(problem.reads[i]):
            near |= problem.readers[tensor]
        return near

    def _connected(self, group: int) -> bool:
        """Return whether a group is connected, if nodes that share a tensor count as neighbours.

        group: mask of nodes.
        """
        found, fresh = 0, group & -group
        while fresh:
            found |= fresh
            near = 0
            for i in bits(fresh):
                near |= self._near[i]
            fresh = near & group & ~found
        return found == group


def _path(came: dict[int, int], done: int) -> list[int]:
    """Return the groups on the path to the state `done`, as node masks, in execution order.

    A state is the mask of the nodes that have been executed.
    came: the previous state on the path to each state.
    """
    groups: list[int] = []
    while done:
        groups.append(done & ~came[done])
        done = came[done]
    return groups[::-1]


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
