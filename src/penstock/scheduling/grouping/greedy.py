"""Greedy merging of groups, as in Halide's auto-scheduler.

Starts with one group per node and repeatedly merges the two connected groups whose merge reduces
the cost most, until no merge reduces it.

Source: Mullapudi et al., Automatically Scheduling Halide Image Processing Pipelines, ACM TOG 35(4),
2016.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from penstock.scheduling.grouping.cost import GroupCost, total_cost
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_table import bits


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
