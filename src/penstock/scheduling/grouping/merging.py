"""Merging of pointwise nodes with their producers, a rule of Zheng et al.

Fusing a pointwise node with its producer recomputes nothing, so Zheng et al. fuse the two without
a search.  (If the output of the node is larger than its input, the larger tensor may then cross a
group boundary.)  They do not define which of several producers is selected; here it is the last one
that creates no cycle.

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 4.2, algorithm 1, lines 1 to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from penstock.scheduling.grouping.cost import OrderCost
from penstock.scheduling.grouping.greedy import Links
from penstock.scheduling.grouping.grouping import runnable
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.order.step_table import bits


def clusters(cost: OrderCost) -> tuple[int, ...]:
    """Merge pointwise nodes with a producer; return the resulting clusters, as masks of nodes.

    A merge is omitted if it would create a cycle, or if the merged cluster could not be a group.
    Every node is in exactly one cluster.  Clusters are sorted by depth.  The depth of a cluster is
    the length of the longest path of clusters that ends at it.
    """
    problem = cost.problem
    links = Links(problem, [1 << i for i in range(len(problem.nodes))])
    home = list(range(len(problem.nodes)))
    for i, node in enumerate(problem.nodes):
        for producer in sorted(bits(problem.before[i]), reverse=True) if node.pointwise else ():
            a = home[producer]
            if links.may_join(a, i) and cost.of(links.groups[a] | 1 << i) is not None:
                joined = links.join(a, i)
                for member in bits(links.groups[joined]):
                    home[member] = joined
                break
    return _by_depth(cost, [group for group in links.groups if group])


def merged_intervals(cost: OrderCost) -> tuple[int, ...]:
    """Return the cheapest groups of consecutive clusters, where clusters are sorted by depth.

    A cluster is a node, or pointwise nodes merged with producers.  Its depth is the length of the
    longest path of clusters that ends at it.  No cluster is split.

    The groups are masks of nodes.  The result is empty if the clusters cannot be divided into
    groups.
    """
    found = clusters(cost)
    order = [i for cluster in found for i in bits(cluster)]
    ends = accumulate(cluster.bit_count() for cluster in found)
    return intervals(order, cost, ends=tuple(ends))


def _by_depth(cost: OrderCost, groups: Sequence[int]) -> tuple[int, ...]:
    """Return groups (node masks) in ascending order of depth.

    A group that reads from no other group has depth 0.  The depth of any other group is one more
    than the greatest depth of the groups from which it reads.  Groups of equal depth are in
    topological order.
    """
    order = runnable(cost.problem, groups)
    assert order is not None, "a node was joined to a producer that waits for it"
    links = Links(cost.problem, list(order))
    depths: list[int] = []
    for writers in links.writers:
        depths.append(max((depths[g] + 1 for g in writers), default=0))
    ranked = sorted(range(len(order)), key=lambda g: (depths[g], g))
    return tuple(order[g] for g in ranked)
