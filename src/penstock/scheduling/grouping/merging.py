"""merging: pointwise nodes joined to their producers beforehand, the paper's rule.

Such a node computes nothing twice when it is fused, so the paper fuses it without a search.  (Where
it is wider than what it reads, the wide tensor then crosses where the narrow one could have.)  The
paper does not say with which of several producers a node is joined: here, with the last with which
no circle arises.

Source: Zheng et al., IEEE TCAD 39(11), 2020, section 4.2, algorithm 1, lines 1 to 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from penstock.scheduling.grouping.cost import NEVER, OrderCost
from penstock.scheduling.grouping.greedy import Links
from penstock.scheduling.grouping.grouping import runnable
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.step_table import bits


def clusters(cost: OrderCost) -> tuple[int, ...]:
    """Sets of nodes, by depth: how many sets are on the longest path that leads to each."""
    problem = cost.problem
    links = Links(problem, [1 << i for i in range(len(problem.nodes))])
    home = list(range(len(problem.nodes)))
    for i, node in enumerate(problem.nodes):
        for producer in sorted(bits(problem.before[i]), reverse=True) if node.pointwise else ():
            a = home[producer]
            if links.may_join(a, i) and cost.of(links.groups[a] | 1 << i) != NEVER:
                joined = links.join(a, i)
                for member in bits(links.groups[joined]):
                    home[member] = joined
                break
    return _by_depth(cost, [group for group in links.groups if group])


def merged_intervals(cost: OrderCost) -> tuple[int, ...]:
    """The best groups of whole clusters, in order of depth."""
    found = clusters(cost)
    order = [i for cluster in found for i in bits(cluster)]
    cuts = accumulate(cluster.bit_count() for cluster in found)
    return intervals(order, cost, cuts=tuple(cuts))


def _by_depth(cost: OrderCost, groups: Sequence[int]) -> tuple[int, ...]:
    order = runnable(cost.problem, groups)
    assert order is not None, "a node was joined to a producer that waits for it"
    links = Links(cost.problem, list(order))
    depths: list[int] = []
    for writers in links.writers:
        depths.append(max((depths[g] + 1 for g in writers), default=0))
    ranked = sorted(range(len(order)), key=lambda g: (depths[g], g))
    return tuple(order[g] for g in ranked)
