"""levels: the paper's clustering by depth, given the best order inside every level.

The paper orders nodes by depth and does not say how nodes of one depth are ordered, so here any
node of the first level that is not complete may come next.

Source: Zheng et al., Efficient Scheduling of Irregular Network Structures on CNN Accelerators,
IEEE TCAD 39(11), 2020, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.step_table import mask_of


def level_masks(problem: GroupingProblem) -> tuple[int, ...]:
    """Nodes by depth."""
    depths = problem.depths
    return tuple(
        mask_of(i for i, depth in enumerate(depths) if depth == level)
        for level in range(max(depths, default=-1) + 1)
    )


def next_in_level(problem: GroupingProblem) -> Callable[[int], int]:
    """Of a set of nodes, what remains of the first level that is not complete."""
    levels = level_masks(problem)

    def ready(done: int) -> int:
        return next((level & ~done for level in levels if level & ~done), 0)

    return ready
