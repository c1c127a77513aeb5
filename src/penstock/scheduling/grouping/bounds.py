"""bounds: what no grouping can cost less than.

The cost in bytes falls into what each tensor costs.  So for any parting of the nodes into pieces,
each grouping costs at least the sum, over pieces, of what the tensors that a piece writes cost its
own nodes; and what remains of a grouping within a piece is a grouping of the piece.  Pieces are
halved until a search can say what their best groupings cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.scheduling.grouping.cost import NEVER, GroupCost, between
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.step_table import bits, mask_of

MOST_NODES = 64
"""Larger pieces are halved without being searched."""
LEAST_NODES = 6
"""Smaller ones are not halved."""


def lower_bound(cost: GroupCost, order: Sequence[int], max_work: int) -> tuple[int, int]:
    """What no grouping costs less than, and groups looked at.  Pieces are intervals of an order."""
    if not cost.additive:
        return 0, 0
    problem = cost.problem
    bound, work = _bound_of(cost, order, max_work)
    inputs = range(len(problem.nodes), len(problem.sizes))
    return bound + sum(problem.sizes[t] for t in inputs if problem.readers[t]), work


def _bound_of(cost: GroupCost, nodes: Sequence[int], max_work: int) -> tuple[int, int]:
    """The same of what the nodes of a piece write."""
    piece = PieceCost.of_nodes(cost, nodes)
    search = GroupSearch(piece, piece.problem.everything)
    later = _read_later(cost, nodes)
    bound, work = search.remaining(0) + later, 1
    if len(nodes) <= MOST_NODES:
        found = search.run(max_work)
        bound, work = max(bound, found.bound + later), found.work
        if found.finished:
            return bound, work
    if len(nodes) >= 2 * LEAST_NODES:
        middle = len(nodes) // 2
        halves = [_bound_of(cost, half, max_work // 2) for half in (nodes[:middle], nodes[middle:])]
        bound, work = max(bound, sum(b for b, _ in halves)), work + sum(w for _, w in halves)
    return bound, work


@dataclass(frozen=True, slots=True, eq=False)
class PieceCost:
    """What the tensors that a piece of a network writes cost its own nodes, at least."""

    problem: GroupingProblem
    whole: GroupCost
    nodes: tuple[int, ...]  # by index in the piece, those of the whole
    additive: bool = True

    @staticmethod
    def of_nodes(whole: GroupCost, nodes: Sequence[int]) -> PieceCost:
        some = tuple(sorted(nodes))
        return PieceCost(_piece(whole, some), whole, some)

    def of(self, group: int) -> int:
        if group & (group - 1) and self.hopeless(group):
            return NEVER
        sizes, problem = self.problem.sizes, self.problem
        moved = (problem.read_from_outside(group), problem.wanted_outside(group))
        return sum(sizes[t] for mask in moved for t in bits(mask))

    def hopeless(self, group: int) -> bool:
        return self.whole.hopeless(mask_of(self.nodes[i] for i in bits(group)))


def _piece(whole: GroupCost, nodes: tuple[int, ...]) -> GroupingProblem:
    """The nodes of a piece and the tensors that they write; those that are written to external
    memory whatever the groups are outputs of the piece."""
    problem, region = whole.problem, mask_of(nodes)
    index = {i: k for k, i in enumerate(nodes)}
    found = tuple(
        GroupNode(
            problem.nodes[i].name,
            problem.nodes[i].output_bytes,
            problem.nodes[i].weight_bytes,
            tuple(index[t] for t in problem.nodes[i].reads if t in index),
        )
        for i in nodes
    )
    outputs = (i for i in nodes if i in problem.outputs or _leaves(whole, i, region))
    return GroupingProblem(found, (), frozenset(index[i] for i in outputs))


def _leaves(whole: GroupCost, i: int, region: int) -> bool:
    """Whether no group holds a node and all of its readers outside of a region."""
    problem = whole.problem
    return any(
        whole.hopeless(between(problem, i, reader)) for reader in bits(problem.readers[i] & ~region)
    )


def _read_later(whole: GroupCost, nodes: Sequence[int]) -> int:
    """Bytes that are read outside of a piece, whatever the groups, and not in it."""
    problem, region = whole.problem, mask_of(nodes)
    return sum(
        problem.sizes[i]
        for i in nodes
        if not problem.readers[i] & region and _leaves(whole, i, region)
    )
