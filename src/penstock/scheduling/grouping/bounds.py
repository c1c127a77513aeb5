"""Lower bounds of the cost of any grouping, that is, of any partition of the nodes into groups.

The cost in bytes is a sum over tensors.  The execution order of the nodes is divided into
intervals, called pieces.  Any grouping of all nodes, restricted to the nodes of a piece, is a
grouping of that piece.  So the tensors that the piece writes cost at least as much as in the
piece's optimal grouping, and the sum of these costs over all pieces is a lower bound.  A piece is
bisected if no search finds its optimal grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.scheduling.grouping.cost import GroupCost
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.order.step_table import bit_mask, bits

MOST_NODES = 64
"""A piece with more nodes than this is bisected without a search."""
LEAST_NODES = 6
"""A piece is bisected only if each half then has at least this number of nodes."""


def lower_bound(cost: GroupCost, order: Sequence[int], max_work: int) -> tuple[int, int]:
    """Return (lower bound of the cost of any grouping, work spent).

    The result is the sum of two bounds.  One is for the tensors that nodes write; `_piece_bound`
    finds it by search.  The other is for the network inputs: each one that has readers is read from
    external memory at least once.

    order: execution order of all nodes.
    max_work: budget of the search.  Work is the sum of the sizes (numbers of nodes) of the groups
        that a search examines.

    The result is (0, 0) if the cost is not additive, that is, not a sum over tensors.
    """
    if not cost.additive:
        return 0, 0
    problem = cost.problem
    bound, work = _piece_bound(cost, order, max_work)
    inputs = range(len(problem.nodes), len(problem.sizes))
    return bound + sum(problem.sizes[t] for t in inputs if problem.readers[t]), work


def _piece_bound(cost: GroupCost, nodes: Sequence[int], max_work: int) -> tuple[int, int]:
    """Return (lower bound for a piece, work spent).

    A piece is the set of nodes in an interval of the execution order.  The bound is a number of
    bytes: any grouping moves at least as many to and from external memory for the tensors that the
    piece writes.

    nodes: the nodes of the piece, in execution order.
    max_work: budget of the search for the cheapest grouping of the piece; half of it for each half
        if the piece is bisected.  Work is the sum of the sizes (numbers of nodes) of the groups
        that a search examines.
    """
    piece = PieceCost.of_nodes(cost, nodes)
    search = GroupSearch(piece, piece.problem.everything)
    later = _read_later(cost, nodes)
    bound, work = search.remaining(0) + later, 1
    if len(nodes) <= MOST_NODES:
        found = search.run(max_work)
        bound, work = max(bound, int(found.bound) + later), found.work
        if found.finished:
            return bound, work
    if len(nodes) >= 2 * LEAST_NODES:
        middle = len(nodes) // 2
        halves = [
            _piece_bound(cost, half, max_work // 2) for half in (nodes[:middle], nodes[middle:])
        ]
        bound, work = max(bound, sum(b for b, _ in halves)), work + sum(w for _, w in halves)
    return bound, work


@dataclass(frozen=True, slots=True, eq=False)
class PieceCost:
    """Cost of groups of nodes of a piece, which is a subset of a network's nodes.

    The cost of a group is the number of bytes that it moves to and from external memory.  Tensors
    that come from outside the piece are not counted, so that the costs of several pieces can be
    added.

    problem: the grouping problem of the piece.
    whole: the group cost in the whole network.
    nodes: for each node of the piece, its index in the whole network.
    may_be: test of a set of nodes of the piece, given as a mask.  False proves that no group
        contains all of these nodes; True proves nothing.
    additive, separable: as in `GroupCost`; True, because the cost is a sum over tensors.
    """

    problem: GroupingProblem
    whole: GroupCost
    nodes: tuple[int, ...]
    may_be: Callable[[int], bool]
    additive: bool = True
    separable: bool = True

    @staticmethod
    def of_nodes(whole: GroupCost, nodes: Sequence[int]) -> PieceCost:
        """Return the cost of groups within a piece, the subset `nodes` of the network's nodes.

        whole: the group cost in the whole network.
        nodes: indices in the whole network.

        A tensor that every grouping writes to external memory counts as an output of the piece.
        """
        some, region = tuple(sorted(nodes)), bit_mask(nodes)
        leaving = (i for i in some if _leaves(whole, i, region))
        piece = whole.problem.piece(some, leaving)
        return PieceCost(piece, whole, some, whole.relaxed(piece))

    def of(self, group: int) -> int | None:
        """Return the bytes that a group moves to and from external memory; None if infeasible.

        Only tensors that nodes of the piece write are counted, not those that the piece reads from
        other nodes.
        group: mask of nodes of the piece.
        """
        if group & (group - 1) and (self.hopeless(group) or not self.may_be(group)):
            return None
        sizes, problem = self.problem.sizes, self.problem
        moved = (problem.read_from_outside(group), problem.wanted_outside(group))
        return sum(sizes[t] for mask in moved for t in bits(mask))

    def hopeless(self, group: int) -> bool:
        """Return True if provably no feasible group of two or more nodes includes `group`.

        group: mask of nodes of the piece.  False proves nothing.
        """
        return self.whole.hopeless(bit_mask(self.nodes[i] for i in bits(group)))

    def least(self, nodes: int) -> int:
        """Return 0, a trivial lower bound of the cost of some nodes.

        `GroupCost` requires this method.  No better bound is needed: since the cost is additive,
        the search derives its bounds from the sizes of tensors.
        nodes: unused.
        """
        return 0

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        writer, reader: indices of nodes in the piece.  False proves nothing.
        """
        return self.whole.apart(self.nodes[writer], self.nodes[reader])

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a function that tests whether nodes of `piece` may be in one group: always True.

        `GroupCost` requires this method, but nothing calls it: `of_nodes` calls the method of
        `whole`, the cost of the whole network.
        """
        return lambda group: True


def _leaves(whole: GroupCost, i: int, piece: int) -> bool:
    """Return True if nodes outside of a piece force every grouping to write the tensor of node `i`.

    That is the case if a node outside of the piece reads the tensor, and provably is in no group
    with `i`: then the tensor is written to external memory.  False proves nothing.
    whole: the group cost in the whole network.
    i: index of a node of the piece.
    piece: mask of the nodes of the piece.
    """
    return any(whole.apart(i, reader) for reader in bits(whole.problem.readers[i] & ~piece))


def _read_later(whole: GroupCost, nodes: Sequence[int]) -> int:
    """Return a lower bound of the bytes that nodes outside a piece read of the piece's tensors.

    A piece is a set of nodes.  `PieceCost` does not include these bytes, so they may be added to
    its lower bounds.  Counted are the tensors that only nodes outside read, and that every grouping
    writes to external memory: each is read back at least once.
    whole: the group cost in the whole network.
    nodes: the nodes of the piece.
    """
    problem, region = whole.problem, bit_mask(nodes)
    return sum(
        problem.sizes[i]
        for i in nodes
        if not problem.readers[i] & region and _leaves(whole, i, region)
    )
