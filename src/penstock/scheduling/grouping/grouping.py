"""Grouping: groups that cover a network, in a topological order, with their cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import CapacityError
from penstock.scheduling.grouping.cost import GroupCost
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.order.step_table import bits


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

    @property
    def gap(self) -> float:
        """Optimality gap: (cost - bound) / max(bound, 1) for the proven lower bound of the cost.

        0.0 if the cost is proven optimal.
        """
        return (self.cost - self.bound) / max(self.bound, 1)

    @property
    def certificate(self) -> str:
        """The optimality gap in words: "optimal", or "within x% of optimal"."""
        return "optimal" if self.optimal else f"within {self.gap:.1%} of optimal"


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
