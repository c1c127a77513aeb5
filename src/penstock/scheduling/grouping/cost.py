"""GroupCost: the cost of running nodes as one group, and which sets of nodes can be groups.

`GroupCost` is a protocol.  `GroupCycles` (`cycles.py`) implements it with the cycles of the
compiled program, and `Traffic` (`traffic.py`) with bytes, without a model of the machine.
`Costed` implements it for any given cost function.
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
"""`interval_costs` tries ever larger groups, and stops after this number of consecutive infeasible
ones."""


class IntervalCosts(NamedTuple):
    """Costs of the groups of consecutive nodes that begin at one position of an order.

    feasible[k]: whether the first k + 1 nodes from that position can be one group.
    costs[k]: cost of this group; meaningless if it is infeasible.
    """

    costs: Column
    feasible: npt.NDArray[np.bool_]


class GroupCost(Protocol):
    """Protocol of a cost function: the non-negative cost of running a set of nodes as one group.

    A set of nodes is a bit mask: bit i for node i.
    """

    @property
    def problem(self) -> GroupingProblem:
        """The grouping problem whose groups are evaluated."""
        ...

    @property
    def additive(self) -> bool:
        """Whether the cost is the sum of the bytes of the tensors crossing a group's boundary."""
        ...

    @property
    def separable(self) -> bool:
        """Whether a group whose nodes form several components without common tensors may be split.

        As separate groups, the components cost no more, and they fit if the whole group fits.
        """
        ...

    def of(self, group: int) -> int | None:
        """Return the cost of a group; None if the nodes cannot be one group.

        group: mask of nodes.
        """
        ...

    def hopeless(self, group: int) -> bool:
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        group: mask of nodes.  False proves nothing.
        """
        ...

    def least(self, nodes: int) -> int:
        """Return a lower bound of the cost of some nodes; 0 if none is known.

        However the nodes are partitioned into groups, the sum of the groups' costs is at least the
        result.
        nodes: mask of nodes.
        """
        ...

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        writer, reader: indices of nodes.  False proves nothing.
        """
        ...

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a function that tests whether nodes of `piece` may be in one group.

        The function takes a mask of nodes of `piece`.  If it returns False, no group contains all
        of these nodes.  True proves nothing, because the test is relaxed: it counts only the
        tensors that nodes of `piece` write, so it accepts some sets that are too large.  A search
        that computes a lower bound of the cost of `piece` uses the test to skip sets of nodes.

        piece: a problem that consists of some nodes of `problem`, numbered anew from 0.
        """
        ...


class OrderCost(GroupCost, Protocol):
    """A group cost that also evaluates groups of consecutive nodes of an order."""

    @property
    def undecided(self) -> int:
        """Number of sets of nodes that were rejected as groups although they may be feasible."""
        ...

    def tie(self, group: int) -> int:
        """Return the secondary cost of a group.

        Of several groupings of equal cost, the one with the least sum of secondary costs is
        preferred.
        group: mask of nodes.
        """
        ...

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are unlikely to be feasible.
        """
        ...


@dataclass(slots=True)
class Costed:
    """A group cost defined by a function.

    function: returns the cost of a node mask, or None if the nodes cannot be a group.
    weight_cap: limit of the weight bytes of groups with two or more nodes; None: no limit.
    additive: whether the cost is the bytes of the tensors that cross the group's boundary.
    separable: whether a group whose nodes form several components without common tensors may be
        split into these components (`GroupCost.separable`).
    undecided: number of node masks that `function` rejects although they may be feasible.
    known: costs computed so far, by node mask; None if the nodes cannot be a group.
    """

    problem: GroupingProblem
    function: Callable[[int], int | None]
    weight_cap: int | None = None
    additive: bool = False
    separable: bool = False
    undecided: int = 0
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])

    def of(self, group: int) -> int | None:
        """Return the cost of a group; None if the nodes cannot be one group.

        group: mask of nodes.
        """
        if group not in self.known:
            refused = group & (group - 1) and self.hopeless(group)
            self.known[group] = None if refused else self.function(group)
        return self.known[group]

    def tie(self, group: int) -> int:
        """Return 0, the secondary cost of every group: no ties between groupings are broken."""
        return 0

    def least(self, nodes: int) -> int:
        """Return 0, a lower bound of any cost.

        nodes: unused.
        """
        return 0

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are infeasible, or unlikely to be feasible.
        """
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
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        The result is True if the weights of the nodes in `group` exceed `weight_cap`.  False proves
        nothing.
        group: mask of nodes.
        """
        return self.weight_cap is not None and weight_bytes(self.problem, group) > self.weight_cap

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        A group with both contains all nodes on paths between them.  The result is True if the
        weights of all these nodes together exceed `weight_cap`.
        writer, reader: indices of nodes.
        """
        return self.hopeless(self.problem.between(writer, reader))

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a function that tests whether nodes of `piece` may be in one group: always True.

        A stricter test is impossible: `piece` numbers its nodes anew from 0, but `function` takes
        masks of nodes of the whole problem.
        """
        return lambda group: True


def total_cost(cost: GroupCost, groups: Iterable[int]) -> int | None:
    """Return the sum of the costs of several groups; None if one of them is infeasible.

    groups: node masks.
    """
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
