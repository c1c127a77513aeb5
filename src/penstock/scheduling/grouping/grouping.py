"""Grouping: groups that cover a network, in an order in which they can run, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import CapacityError
from penstock.scheduling.grouping.cost import NEVER, GroupCost
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.step_table import bits


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups as masks, each after all that it reads from; `bound`: proven, no grouping costs less;
    `work`: costs asked for."""

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
        """0.0 where proven optimal, else how far the cost is above the bound, as a fraction."""
        return (self.cost - self.bound) / max(self.bound, 1)

    @property
    def certificate(self) -> str:
        return "optimal" if self.optimal else f"within {self.gap:.1%} of optimal"


def grouping_of(groups: Iterable[int], cost: GroupCost) -> Grouping:
    """Groups, put in order, with their cost.  Raises CapacityError where one of them is none."""
    order = runnable(cost.problem, groups)
    assert order is not None, "groups wait for each other in a circle"
    costs = [cost.of(group) for group in order]
    for group, found in zip(order, costs, strict=True):
        if found == NEVER:
            raise no_group(cost.problem, group)
    return Grouping(order, sum(costs))


def no_group(problem: GroupingProblem, group: int) -> CapacityError:
    """What to say where nodes that must be a group take more than there is."""
    names = ", ".join(problem.nodes[i].name for i in bits(group))
    return CapacityError(
        "grouping-003",
        "a single node takes more weights or buffer than a group may",
        where=names,
        why="every node is in a group, and it is too large even for one of its own",
        help="give more, or let single nodes take more",
    )


def runnable(problem: GroupingProblem, groups: Iterable[int]) -> tuple[int, ...] | None:
    """Groups, each after those that it reads from, else by their first nodes; None where they wait
    for each other in a circle."""
    some = sorted(groups, key=lambda group: group & -group)
    of = group_of_nodes(some)
    waits = [_writers(problem, group, of) for group in some]
    readers: list[list[int]] = [[] for _ in some]
    for g, writers in enumerate(waits):
        for writer in writers:
            readers[writer].append(g)
    ready = [g for g, writers in enumerate(waits) if not writers]
    order: list[int] = []
    for g in ready:  # which grows
        order.append(some[g])
        for reader in readers[g]:
            waits[reader].discard(g)
            if not waits[reader]:
                ready.append(reader)
    return tuple(order) if len(order) == len(some) else None


def group_of_nodes(groups: Sequence[int]) -> dict[int, int]:
    """The number of the group of each node."""
    return {i: g for g, group in enumerate(groups) for i in bits(group)}


def _writers(problem: GroupingProblem, group: int, of: dict[int, int]) -> set[int]:
    """Numbers of the groups from which a group reads."""
    nodes = problem.read_from_outside(group) & problem.everything
    return {of[i] for i in bits(nodes) if i in of}
