"""Groups: their cost, and which sets of nodes can be groups.

`GroupCycles` (`cycles.py`) implements the cost with the cycles of the compiled program.  Benchmarks
implement it with bytes, without a model of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import CapacityError
from penstock.scheduling.grouping.on_chip import Column
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_table import bits


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

    def least(self, region: int) -> Callable[[int], int]:
        """Return a function that computes lower bounds of the cost of nodes of a region.

        However the region is partitioned into groups, those of the nodes in a mask cost at least
        what the function returns for it, if the other nodes of the region run before them.
        region: mask of nodes such that no path between two of them leaves the region.
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


@dataclass(frozen=True, slots=True)
class Grouping:
    """A partition of nodes into groups.

    groups: bit masks of nodes, in a topological order of the groups.
    cost: sum of the costs of the groups.
    bound: proven lower bound of the cost of any grouping; 0 if none has been computed.
    work: sum of the sizes (numbers of nodes) of the groups that searches have examined.
    """

    groups: tuple[int, ...]
    cost: int
    bound: int = 0
    work: int = 0

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no grouping costs less."""
        return self.cost == self.bound


def ordered_grouping(groups: Iterable[int], cost: GroupCost) -> Grouping:
    """Sort groups in a topological order, and return them with their total cost.

    groups: bit masks of nodes.

    Raises CapacityError if one of the masks cannot be a group.
    """
    order = runnable(cost.problem, groups)
    assert order is not None, "groups depend on each other in a cycle"
    total = 0
    for group in order:
        found = cost.of(group)
        if found is None:
            raise no_group(cost.problem, group)
        total += found
    return Grouping(order, total)


def no_group(problem: GroupingProblem, group: int) -> CapacityError:
    """Return the error to raise if a node exceeds the capacity of a group, even on its own.

    group: mask of the node.
    """
    names = ", ".join(problem.nodes[i].name for i in bits(group))
    return CapacityError(
        "grouping-003",
        "a single node exceeds the capacity of a group",
        where=names,
        why="its weights or tensors do not fit, even if the node is a group of its own",
        help="raise the capacity, or permit groups of one node that exceed it",
    )


def runnable(problem: GroupingProblem, groups: Iterable[int]) -> tuple[int, ...] | None:
    """Return groups in an order in which they can run one after the other.

    The result is None if the groups depend on each other in a cycle.  The result is the same
    whatever the order in which the groups are given.
    groups: node masks.
    """
    some = sorted(groups, key=lambda group: group & -group)
    of = group_by_node(some)
    waits = [_writers(problem, group, of) for group in some]
    readers: list[list[int]] = [[] for _ in some]
    for g, writers in enumerate(waits):
        for writer in writers:
            readers[writer].append(g)
    ready = [g for g, writers in enumerate(waits) if not writers]
    order: list[int] = []
    for g in ready:  # the list grows during the loop
        order.append(some[g])
        for reader in readers[g]:
            waits[reader].discard(g)
            if not waits[reader]:
                ready.append(reader)
    return tuple(order) if len(order) == len(some) else None


def group_by_node(groups: Sequence[int]) -> dict[int, int]:
    """Return a map from the index of each node to the index of its group.

    groups: node masks.
    """
    return {i: g for g, group in enumerate(groups) for i in bits(group)}


def _writers(problem: GroupingProblem, group: int, of: dict[int, int]) -> set[int]:
    """Return the indices of the groups whose tensors a group reads.

    group: mask of nodes.
    of: index of the group of each node; nodes without an entry are ignored.
    """
    nodes = problem.read_from_outside(group) & problem.everything
    return {of[i] for i in bits(nodes) if i in of}
