"""GroupSearch: best-first search for the groups of least total cost that partition a region.

A region is a set of nodes.  A down-set is a subset of the region that contains, with each node, all
producers of the node in the region: the nodes of a down-set can run before all others.  A grouping
is a path from the empty set to the region through down-sets, where each edge adds a group that can
run next.  Down-sets are expanded in ascending order of an estimate: the cost of the path to the
down-set plus a lower bound of the remaining cost.  So the first path that reaches the region is
optimal.  Before that, the estimate of the down-set to be expanded next is a proven lower bound of
the total cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from penstock.scheduling.grouping.problem import GroupCost
from penstock.scheduling.order.steps import bit_mask, bits

Ready = Callable[[int], int]
"""Function from the mask of a down-set to the mask of the nodes that may be added to it."""


@dataclass(frozen=True, slots=True)
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
