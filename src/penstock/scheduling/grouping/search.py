"""GroupSearch: the cheapest groups that lead from nothing to a region, found best first.

    down-set -> any group that can run next -> larger down-set -> .. -> the region

A grouping is a path through down-sets (all nodes that have run): each step adds a group.  Down-sets
are opened in order of the cost of reaching them plus a bound of what must follow, so the first path
to reach the end is the cheapest, and what is to be opened next is a proven bound at any time.

The bound: where costs are bytes, a tensor that is there and still has readers is read once more at
least; an output of the region yet to be written is written; and so is, and is read, a tensor whose
writer and reader no group can hold together (a *forced* one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from penstock.scheduling.grouping.cost import NEVER, UNLIMITED, GroupCost
from penstock.scheduling.step_table import bits, mask_of

Ready = Callable[[int], int]
"""Of a down-set, the nodes that may be added to it."""


@dataclass(frozen=True, slots=True)
class GroupFinding:
    """Groups cheaper than the ceiling, none if there are none; that is proven if the search
    `finished`.  `bound`: no grouping in its reach costs less; `work`: nodes of groups looked at."""

    groups: tuple[int, ...]
    bound: int
    finished: bool
    work: int


class GroupSearch:
    """Search over a region: nodes such that no path between two of them leaves it."""

    def __init__(self, cost: GroupCost, region: int, ready: Ready | None = None) -> None:
        self._cost, self._region = cost, region
        self._ready = ready or self._all_ready
        self._restricted = ready is not None
        self._connected_only = cost.additive and not self._restricted
        self._before = {i: cost.problem.before[i] & region for i in bits(region)}
        self._near = {i: self._neighbours(i) for i in bits(region)}
        self._written, self._read = _due(cost, region) if cost.additive else (0, 0)
        self.work = 0

    def run(self, max_work: int, ceiling: int = UNLIMITED) -> GroupFinding:
        """The cheapest groups, if they cost less than the ceiling."""
        reached = {0: 0}
        came: dict[int, int] = {}
        closed: set[int] = set()
        first = self.remaining(0)
        heap = [(first, 0, 0)]
        while heap:
            estimate, _, done = heappop(heap)
            if done == self._region:
                return GroupFinding(tuple(_path(came, done)), estimate, True, self.work)
            if done in closed:
                continue
            closed.add(done)
            for after in self._steps(done, max_work):
                spent = self._cost.of(after & ~done)
                if spent == NEVER:
                    continue
                total = reached[done] + spent
                if total >= reached.get(after, UNLIMITED):
                    continue
                estimate_after = total + self.remaining(after)
                if estimate_after >= ceiling:
                    continue
                reached[after], came[after] = total, done
                heappush(heap, (estimate_after, -after.bit_count(), after))
            if self.work >= max_work:
                return GroupFinding((), estimate, False, self.work)
        return GroupFinding((), ceiling, True, self.work)

    def remaining(self, done: int) -> int:
        """A bound of what must follow a down-set."""
        if not self._cost.additive:
            return 0
        problem, rest = self._cost.problem, self._region & ~done
        read = 0
        for i in bits(rest):
            read |= problem.reads[i]
        moved = (read & ~rest, self._read & rest, self._written & rest)
        return sum(problem.sizes[t] for mask in moved for t in bits(mask))

    def _steps(self, done: int, max_work: int) -> Iterator[int]:
        """Down-sets that a group more leads to, as far as there may be such a group."""
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
                if not self._connected_only or self._connected(group):
                    yield after

    def _all_ready(self, done: int) -> int:
        before = self._before
        return mask_of(i for i in bits(self._region & ~done) if not before[i] & ~done)

    def _ready_after(self, done: int, ready: int, i: int) -> int:
        """What is ready when node i has been added, from what was ready before."""
        if self._restricted:
            return self._ready(done)
        readers = self._cost.problem.readers[i] & self._region
        return ready & ~(1 << i) | mask_of(r for r in bits(readers) if not self._before[r] & ~done)

    def _neighbours(self, i: int) -> int:
        """Nodes that share a tensor with a node."""
        problem = self._cost.problem
        near = problem.before[i] | problem.readers[i]
        for tensor in bits(problem.reads[i]):
            near |= problem.readers[tensor]
        return near

    def _connected(self, group: int) -> bool:
        found, fresh = 0, group & -group
        while fresh:
            found |= fresh
            near = 0
            for i in bits(fresh):
                near |= self._near[i]
            fresh = near & group & ~found
        return found == group


def _path(came: dict[int, int], done: int) -> list[int]:
    groups: list[int] = []
    while done:
        groups.append(done & ~came[done])
        done = came[done]
    return groups[::-1]


def _due(cost: GroupCost, region: int) -> tuple[int, int]:
    """Tensors of a region that are written whatever its groups, and those of them that are read in
    it, as masks."""
    problem = cost.problem
    written, read = problem.wanted_outside(region), 0
    for i in bits(region):
        if any(cost.apart(i, reader) for reader in bits(problem.readers[i] & region)):
            read |= 1 << i
    return written | read, read
