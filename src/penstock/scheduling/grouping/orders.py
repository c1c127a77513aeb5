"""Orders of nodes by name; the intervals of an order are the groups that `intervals` can form."""

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
    """Return all named orders of a problem's nodes, as sequences of node indices."""
    return {name: heuristic_order(problem.table, kind) for name, kind in ORDERS.items()}
