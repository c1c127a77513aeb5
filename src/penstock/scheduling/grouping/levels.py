"""Execution level by level: nodes run in ascending order of depth.

A level consists of the nodes of equal depth.  Zheng et al. do not define the order within a level.
Here, it is free: any remaining node of the first incomplete level may run next.

Source: Zheng et al., Efficient Scheduling of Irregular Network Structures on CNN Accelerators, IEEE
TCAD 39(11), 2020, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_table import bit_mask


def level_masks(problem: GroupingProblem) -> tuple[int, ...]:
    """Return, for each depth, the mask of the nodes of that depth.

    The depth of a node is the number of edges on the longest path that ends at it.
    """
    depths = problem.depths
    return tuple(
        bit_mask(i for i, depth in enumerate(depths) if depth == level)
        for level in range(max(depths, default=-1) + 1)
    )


def next_in_level(problem: GroupingProblem) -> Callable[[int], int]:
    """Return a function from a mask of executed nodes to the mask of the nodes that may run next.

    With it, nodes run in ascending order of depth: the number of edges on the longest path that
    ends at a node.  All remaining nodes of the least depth may run next; the mask is 0 if none
    remain.
    """
    levels = level_masks(problem)

    def ready(done: int) -> int:
        return next((level & ~done for level in levels if level & ~done), 0)

    return ready
