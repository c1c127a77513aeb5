"""Named topological orders of nodes, in which groups of consecutive nodes are searched."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_orders import Heuristic, heuristic_order

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
