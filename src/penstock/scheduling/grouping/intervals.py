"""Optimal groups that are intervals of a given order, by dynamic programming.

Only partitions whose groups are intervals of the given order are considered.  If the groups of an
optimal partition are intervals of this order, the result is optimal among all partitions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.grouping.cost import OrderCost
from penstock.scheduling.order.step_table import bit_mask


def intervals(
    order: Sequence[int],
    cost: OrderCost,
    most: int | None = None,
) -> tuple[int, ...]:
    """Divide an order into intervals of least total cost; return them as groups (node masks).

    order: nodes in a topological order; need not contain all nodes.
    most: maximum number of nodes per group; None: no limit.

    The result is empty if the order cannot be divided into groups.
    """
    count = len(order)
    least = np.full(count + 1, UNBOUNDED, np.int64)  # least cost of groups up to each position
    begin = np.zeros(count + 1, np.int64)  # where the last of these groups begins
    least[0] = 0
    for lower in range(count):
        if least[lower] == UNBOUNDED:
            continue
        upper = count if most is None else min(count, lower + most)
        costs, feasible = cost.interval_costs(order, lower, upper)
        uppers = np.arange(lower + 1, lower + 1 + len(costs))
        better = feasible & (least[lower] + costs < least[uppers])
        least[uppers[better]] = least[lower] + costs[better]
        begin[uppers[better]] = lower
    if least[count] == UNBOUNDED:
        return ()
    groups: list[int] = []
    upper = count
    while upper:
        lower = int(begin[upper])
        groups.append(bit_mask(order[lower:upper]))
        upper = lower
    return tuple(reversed(groups))
