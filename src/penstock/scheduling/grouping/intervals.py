"""intervals: the best groups that are neighbours in a given order, by dynamic programming.

A grouping whose groups do not wait for each other in a circle is contiguous in some order, so for
the right order nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.scheduling.grouping.cost import NEVER, UNLIMITED, OrderCost
from penstock.scheduling.step_table import mask_of


def intervals(
    order: Sequence[int],
    cost: OrderCost,
    most: int | None = None,
    cuts: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The groups of least cost that are intervals of an order, of at most so many nodes each; none
    where there are no such groups.  The order may be of some nodes only.

    `cuts`: the positions at which a group may end, sorted; without it, all."""
    count = len(order)
    may_end = np.ones(count + 1, np.bool_)
    if cuts is not None:
        may_end[:] = False
        may_end[list(cuts)] = True
    least = np.full(count + 1, UNLIMITED, np.int64)  # of groups that cover what is before
    begin = np.zeros(count + 1, np.int64)  # of the last of them
    least[0] = 0
    for lower in range(count):
        if least[lower] == UNLIMITED:
            continue
        upper = count if most is None else min(count, lower + most)
        costs = cost.growing(order, lower, upper)
        ends = np.arange(lower + 1, lower + 1 + len(costs))
        better = (costs != NEVER) & may_end[ends] & (least[lower] + costs < least[ends])
        least[ends[better]] = least[lower] + costs[better]
        begin[ends[better]] = lower
    if least[count] == UNLIMITED:
        return ()
    groups: list[int] = []
    upper = count
    while upper:
        lower = int(begin[upper])
        groups.append(mask_of(order[lower:upper]))
        upper = lower
    return tuple(reversed(groups))
