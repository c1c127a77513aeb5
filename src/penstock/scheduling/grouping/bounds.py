"""bounds: what no grouping can cost less than.

The cost in bytes falls into what each tensor costs.  So for any parting of the nodes into pieces,
each grouping costs at least the sum, over pieces, of what the tensors that a piece writes cost its
own nodes; and what remains of a grouping within a piece is a grouping of the piece.  Pieces are
halved until a search can say what their best groupings cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.scheduling.grouping.cost import NEVER, GroupCost
from penstock.scheduling.grouping.problem import GroupingProblem
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
    may_be: Callable[[int], bool]
    additive: bool = True

    @staticmethod
    def of_nodes(whole: GroupCost, nodes: Sequence[int]) -> PieceCost:
        """Tensors that are written to external memory whatever the groups are outputs."""
        some, region = tuple(sorted(nodes)), mask_of(nodes)
        leaving = (i for i in some if _leaves(whole, i, region))
        piece = whole.problem.piece(some, leaving)
        return PieceCost(piece, whole, some, whole.relaxed(piece))

    def of(self, group: int) -> int:
        if group & (group - 1) and (self.hopeless(group) or not self.may_be(group)):
            return NEVER
        sizes, problem = self.problem.sizes, self.problem
        moved = (problem.read_from_outside(group), problem.wanted_outside(group))
        return sum(sizes[t] for mask in moved for t in bits(mask))

    def hopeless(self, group: int) -> bool:
        return self.whole.hopeless(mask_of(self.nodes[i] for i in bits(group)))

    def apart(self, writer: int, reader: int) -> bool:
        return self.whole.apart(self.nodes[writer], self.nodes[reader])

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        return lambda group: True


def _leaves(whole: GroupCost, i: int, region: int) -> bool:
    """Whether no group holds a node and all of its readers outside of a region."""
    return any(whole.apart(i, reader) for reader in bits(whole.problem.readers[i] & ~region))


def _read_later(whole: GroupCost, nodes: Sequence[int]) -> int:
    """Bytes that are read outside of a piece, whatever the groups, and not in it."""
    problem, region = whole.problem, mask_of(nodes)
    return sum(
        problem.sizes[i]
        for i in nodes
        if not problem.readers[i] & region and _leaves(whole, i, region)
    )
