"""Orders of nodes, by name: an order decides which groups `intervals` can see."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.step_orders import Heuristic, heuristic_order

ORDERS: Mapping[str, Heuristic] = {
    "asap": Heuristic.EARLY,
    "alap": Heuristic.LATE,
    "dfs": Heuristic.DEPTH_FIRST,
    "reverse": Heuristic.REVERSE,
    "bfs": Heuristic.BREADTH_FIRST,
    "file": Heuristic.FILE,
}
"""By the longest path from the start (the paper's) and to the end; depth first, also from the end;
breadth first; as given."""


def orders(problem: GroupingProblem) -> dict[str, tuple[int, ...]]:
    """Every order that has a name."""
    return {name: heuristic_order(problem.table, kind) for name, kind in ORDERS.items()}
