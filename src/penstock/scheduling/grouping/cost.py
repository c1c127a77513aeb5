"""GroupCost: the cost of running nodes as one group, and which sets of nodes can be groups.

`Traffic` (`traffic.py`) is a cost that needs no model of a machine.  The model of a machine
implements the same protocol, or provides a function for `Costed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column
from penstock.scheduling.order.step_table import bits

PATIENCE = 8
"""After this number of consecutive infeasible sets, larger ones are not tried."""


class IntervalCosts(NamedTuple):
    """Costs of the intervals of an order that begin at one position, and their feasibility.

    feasible[k]: whether the interval with k + 1 nodes can be a group; if so, costs[k] is its cost.
    """

    costs: Column
    feasible: npt.NDArray[np.bool_]


class GroupCost(Protocol):
    """The non-negative cost of running a set of nodes, given as a bit mask, as one group."""

    @property
    def problem(self) -> GroupingProblem:
        """The grouping problem whose groups are evaluated."""
        ...

    @property
    def additive(self) -> bool:
        """Whether the cost of a group is the bytes of the tensors that cross its boundary.

        Each tensor counts once.  If so, the components of a group that share no tensor cost no more
        as separate groups, and they fit separately if they fit together.
        """
        ...

    def of(self, group: int) -> int | None:
        """Return the cost of a set of nodes as one group; None if it cannot be one."""
        ...

    def hopeless(self, group: int) -> bool:
        """Return True if provably no group of two or more nodes contains all nodes in `group`.

        group: mask of nodes.  False proves nothing.
        """
        ...

    def apart(self, writer: int, reader: int) -> bool:
        """Return True only if no group can contain both node `writer` and its reader `reader`."""
        ...

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a test of node masks of `piece`, a problem with some of the nodes.

        False: no group contains these nodes.  True proves nothing, since the test is relaxed:
        it considers only the tensors that the nodes of `piece` write.
        """
        ...


class OrderCost(GroupCost, Protocol):
    """A group cost that can evaluate all intervals of an order."""

    @property
    def undecided(self) -> int:
        """Number of sets of nodes that were rejected without proof that they cannot be groups."""
        ...

    def tie(self, group: int) -> int:
        """Return a secondary cost, summed over groups, to break ties between groupings."""
        ...

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the intervals that begin at position `lower` and end by `upper`.

        These are order[lower:lower + 1], order[lower:lower + 2], .., order[lower:upper].  The
        arrays end early if larger intervals are unlikely to be groups.
        """
        ...


@dataclass(slots=True)
class Costed:
    """A group cost defined by a function.

    function: returns the cost of a node mask, or None if the nodes cannot be a group.
    weight_cap: limit of the weight bytes of groups with two or more nodes; None: no limit.
    additive: whether the cost is the bytes of the tensors that cross the group's boundary.
    undecided: number of node masks that `function` rejects without proof.
    known: costs computed so far, by node mask.
    """

    problem: GroupingProblem
    function: Callable[[int], int | None]
    weight_cap: int | None = None
    additive: bool = False
    undecided: int = 0
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])

    def of(self, group: int) -> int | None:
        """Return the cost of a set of nodes as one group; None if it cannot be one."""
        if group not in self.known:
            refused = group & (group - 1) and self.hopeless(group)
            self.known[group] = None if refused else self.function(group)
        return self.known[group]

    def tie(self, group: int) -> int:
        """Return 0: groupings of equal cost are not ranked further."""
        return 0

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the groups order[lower:k], lower < k <= upper; may end early."""
        costs: list[int | None] = []
        group, failed = 0, 0
        for i in order[lower:upper]:
            group |= 1 << i
            if costs and self.hopeless(group):
                break
            costs.append(self.of(group))
            failed = failed + 1 if costs[-1] is None else 0
            if failed == PATIENCE:
                break
        feasible = [cost is not None for cost in costs]
        return IntervalCosts(
            np.array([cost or 0 for cost in costs], np.int64), np.array(feasible, np.bool_)
        )

    def hopeless(self, group: int) -> bool:
        """Return whether a node mask's weights exceed the limit of groups of two or more nodes."""
        return self.weight_cap is not None and weight_bytes(self.problem, group) > self.weight_cap

    def apart(self, writer: int, reader: int) -> bool:
        """Return whether the two nodes and those between them exceed `weight_cap` weight bytes."""
        return self.hopeless(self.problem.between(writer, reader))

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a test that is always True: `function` accepts only masks of the whole problem."""
        return lambda group: True


def total_cost(cost: GroupCost, groups: Iterable[int]) -> int | None:
    """Return the sum of the costs of node masks; None if one of them cannot be a group."""
    total = 0
    for group in groups:
        found = cost.of(group)
        if found is None:
            return None
        total += found
    return total


def weight_bytes(problem: GroupingProblem, group: int) -> int:
    """Return the bytes of the weights of all nodes in the mask `group`."""
    return sum(problem.nodes[i].weight_bytes for i in bits(group))
