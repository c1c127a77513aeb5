"""Traffic: the cost of a group as the bytes that it moves to and from external memory.

This cost needs no model of a machine, so groupings of published graphs can be compared with the
facts of others.  A set of nodes can be a group if its weights and tensors fit the on-chip memory
(`GroupLimits`).  `proven` adds a lower bound of the cost of any grouping to that of the search:

The cost is a sum over tensors.  The execution order of the nodes is divided into intervals, called
pieces.  Any grouping of all nodes, restricted to the nodes of a piece, is a grouping of that piece.
So the tensors that the piece writes cost at least as much as in the piece's optimal grouping, and
the sum of these costs over all pieces is a lower bound.  A piece is bisected if no search finds its
optimal grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from penstock.compiled import UNBOUNDED, compiled
from penstock.reports.phrases import MOST_TELLING_GAP
from penstock.scheduling.grouping.on_chip import (
    FITS,
    MOST_NODES,
    TOO_LARGE,
    UNDECIDED,
    GraphArrays,
    buffer_fits,
    graph_arrays,
    members,
)
from penstock.scheduling.grouping.problem import (
    Column,
    Grouping,
    GroupingProblem,
    GroupNode,
    IntervalCosts,
)
from penstock.scheduling.grouping.search import GroupSearch
from penstock.scheduling.grouping.strategies import DEFAULTS, GroupingOptions, best
from penstock.scheduling.order.steps import bit_mask, bits

PATIENCE = 8
"""`interval_costs` tries ever larger groups, and stops after this number of consecutive infeasible
ones."""
BOUND_WORK = 20_000
"""Budget of the search for a lower bound.  Work is the sum of the sizes (numbers of nodes) of the
groups that a search examines."""
MOST_PIECE_NODES = 64
"""A piece with more nodes than this is bisected without a search."""
LEAST_PIECE_NODES = 6
"""A piece is bisected only if each half then has at least this number of nodes."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Capacity of the on-chip memory for a group, and budget of the test whether a group fits.

    weight_cap: maximum bytes of the weights of all nodes.  None: no limit.
    buffer_cap: maximum live bytes of tensors, if the nodes run in the order with the lowest peak.
        None: no limit.
    single_always: whether a group of one node may exceed the limits.
    order_states: maximum number of states, for each group, of the search for an order that fits.
    """

    weight_cap: int | None = None
    buffer_cap: int | None = None
    single_always: bool = True
    order_states: int = 200


@dataclass(slots=True, eq=False)
class Traffic:
    """Group cost: the bytes that a group reads from and writes to external memory.

    Each tensor is read at most once per group.
    limits: capacity of a group.
    known: costs computed so far, by node mask; None if the nodes cannot be a group.
    _unsure: node masks rejected without proof.
    _apart: results of `apart`, by (writer, reader).
    _ranks: for each known order of all nodes, the position of each node.
    _graph: the problem as arrays (compressed adjacency lists).
    _weights: bytes of the weights of each node.
    _own_bytes: bytes of the inputs and the output of each node together.
    """

    problem: GroupingProblem
    limits: GroupLimits
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])
    _unsure: set[int] = field(default_factory=set[int])  # rejected without proof
    _apart: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    _ranks: dict[tuple[int, ...], Column] = field(default_factory=dict[tuple[int, ...], Column])
    _graph: GraphArrays = field(init=False)
    _weights: Column = field(init=False)
    _own_bytes: Column = field(init=False)  # by node: bytes of its operands

    def __post_init__(self) -> None:
        problem, sizes = self.problem, self.problem.sizes
        self._graph = graph_arrays(problem)
        self._weights = np.array([node.weight_bytes for node in problem.nodes], np.int64)
        own = (
            sizes[i] + sum(sizes[t] for t in bits(reads)) for i, reads in enumerate(problem.reads)
        )
        self._own_bytes = np.array(list(own), np.int64)

    @property
    def undecided(self) -> int:
        """Number of sets of nodes rejected as groups without a proof that they exceed the limits.

        The search for an order in which their tensors fit the buffer has spent its budget.  If the
        number is not 0, these sets might be part of a cheaper grouping than the one found.
        """
        return len(self._unsure)

    def of(self, group: int) -> int | None:
        """Return the bytes that a group moves to and from external memory, or None.

        None: the nodes exceed `limits`, the capacity of on-chip memory, or the search for an order
        of the nodes in which they fit exceeded its budget.
        group: mask of nodes.
        """
        if group not in self.known:
            self.known[group] = self.traffic_bytes(group) if self._is_group(group) else None
        return self.known[group]

    def traffic_bytes(self, group: int) -> int:
        """Return the bytes that a group moves to and from external memory.

        The result does not depend on whether the group fits on chip (`limits`).
        group: mask of nodes.
        """
        return moved_bytes(self._members(group), self._graph)

    def tie(self, group: int) -> int:
        """Return 0, the secondary cost of every group: no ties between groupings are broken."""
        return 0

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are infeasible, or unlikely to be feasible.
        """
        if lower == 0 and len(order) == len(self.problem.nodes):
            self._remember(tuple(order))
        cap = unbounded_if_none(self.limits.buffer_cap)
        costs, least, reached = self._sweep(np.array(order, np.int64), lower, upper)
        if not len(costs):
            alone = self.of(1 << order[lower])
            return IntervalCosts(np.array([alone or 0], np.int64), np.array([alone is not None]))
        feasible = np.ones(len(costs), np.bool_)
        failed, before, group, grown = 0, None, 0, lower
        for k in np.flatnonzero(reached > cap).tolist():
            refused = least[k] > cap or k >= MOST_NODES  # a larger set: only in this order
            if not refused:
                group |= bit_mask(order[grown : lower + k + 1])
                grown = lower + k + 1
                refused = self.of(group) is None
            if refused:
                feasible[k] = False
                failed = failed + 1 if before == k - 1 else 1
                before = k
                if failed == PATIENCE:
                    return IntervalCosts(costs[: k + 1], feasible[: k + 1])
        return IntervalCosts(costs, feasible)

    def _remember(self, order: tuple[int, ...]) -> None:
        """Add an order of all nodes to the orders in which `fitting` tests whether groups fit.

        If the order is new, groups that were rejected without proof may fit in it.  They are
        forgotten, so that `of` tests them again.
        order: indices of all nodes.
        """
        if order not in self._ranks:
            self._ranks[order] = np.argsort(np.array(order, np.int64))
            for group in self._unsure:
                del self.known[group]
            self._unsure.clear()

    def _sweep(self, order: Column, lower: int, upper: int) -> Swept:
        caps = (
            unbounded_if_none(self.limits.weight_cap),
            unbounded_if_none(self.limits.buffer_cap),
        )
        return sweep(order, lower, upper, self._graph, self._weights, caps)

    def hopeless(self, group: int) -> bool:
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        The result is True if the weights of the nodes in `group` exceed the weight limit, or if the
        inputs and the output of one of these nodes exceed the buffer limit.  False proves nothing.
        group: mask of nodes.
        """
        inside = self._members(group)
        limits = self.limits
        return bool(
            self._weights[inside].sum() > unbounded_if_none(limits.weight_cap)
            or self._own_bytes[inside].max() > unbounded_if_none(limits.buffer_cap)
        )

    def least(self, region: int) -> Callable[[int], int]:
        """Return a function that computes lower bounds of the bytes that nodes move."""
        return least_moved(self, region)

    def _members(self, group: int) -> Column:
        """Return the indices of the nodes of a group, in ascending order."""
        return members(group, len(self.problem.nodes))

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        A group with both contains all nodes on paths between them.  The result is True if these
        nodes provably exceed the weight limit or the buffer limit.
        writer, reader: indices of nodes.
        """
        found = self._apart.get((writer, reader))
        if found is None:
            found = self._apart[writer, reader] = self._are_apart(writer, reader)
        return found

    def _are_apart(self, writer: int, reader: int) -> bool:
        inner = self.problem.descendants[writer] & self.problem.ancestors[reader]
        between = inner | 1 << writer | 1 << reader
        if self.hopeless(between):
            return True
        nodes = list(bits(between))
        return self.limits.buffer_cap is not None and not self.relaxed(self.problem.piece(nodes))(
            (1 << len(nodes)) - 1
        )

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a function that tests whether the tensors of a set of nodes may fit the buffer.

        The function takes a mask of nodes of `piece`.  It returns False only if the tensors of
        these nodes provably fit in no order of the nodes.  True proves nothing, because the test
        counts only the tensors that nodes of `piece` write.

        piece: some nodes of the network as a problem of their own, numbered anew from 0.
        """
        alone = Traffic(piece, self.limits)
        return lambda group: alone.fitting(group) != TOO_LARGE

    def fitting(self, group: int) -> int:
        """Return whether the tensors of a group fit the buffer in some order of its nodes.

        group: mask of nodes.

        The result is FITS, TOO_LARGE, or UNDECIDED if the search gave up.
        """
        limits = self.limits
        if limits.buffer_cap is None:
            return FITS
        inside = self._members(group)
        found = buffer_fits(inside, self._graph, limits.buffer_cap, limits.order_states)
        if found == UNDECIDED and any(
            self._fits_along(rank, inside) for rank in self._ranks.values()
        ):
            return FITS
        return found

    def _fits_along(self, rank: Column, inside: Column) -> bool:
        """Return whether a group fits the buffer if its nodes run in a given order.

        rank: position of each node of the problem in the given order.
        inside: indices of the nodes of the group.
        """
        order = inside[np.argsort(rank[inside])]
        _, _, reached = self._sweep(order, 0, len(order))
        return len(reached) == len(order) and bool(
            reached[-1] <= unbounded_if_none(self.limits.buffer_cap)
        )

    def _is_group(self, group: int) -> bool:
        if not group & (group - 1) and self.limits.single_always:
            return True
        if self.hopeless(group):
            return False
        found = self.fitting(group)
        if found == UNDECIDED:
            self._unsure.add(group)
        return found == FITS


def problem_from_edges(
    names: Sequence[str],
    edges: Sequence[tuple[int, int]],
    output_bytes: Sequence[int],
    weight_bytes: Sequence[int],
    outputs: Sequence[int],
) -> GroupingProblem:
    """Return the grouping problem of a graph without network inputs.

    names, output_bytes, weight_bytes: one entry per node, in a topological order.
    edges: (writer, reader) pairs of node indices.
    outputs: indices of the nodes whose tensors are network outputs.
    """
    reads: list[list[int]] = [[] for _ in names]
    for writer, reader in edges:
        reads[reader].append(writer)
    nodes = tuple(
        GroupNode(name, output_bytes[i], weight_bytes[i], tuple(sorted(reads[i])))
        for i, name in enumerate(names)
    )
    return GroupingProblem(nodes, (), frozenset(outputs))


def weight_bytes(problem: GroupingProblem, group: int) -> int:
    """Return the bytes of the weights of all nodes in the mask `group`."""
    return sum(problem.nodes[i].weight_bytes for i in bits(group))


def proven(
    cost: Traffic, options: GroupingOptions = DEFAULTS, bound_work: int = BOUND_WORK
) -> Grouping:
    """Return the grouping that the strategy `best` finds, with the best lower bound known."""
    found = best(cost, options)
    if found.optimal:
        return found
    order = [i for group in found.groups for i in bits(group)]
    bound, work = lower_bound(cost, order, bound_work)
    return replace(found, bound=max(found.bound, bound), work=found.work + work)


def certificate(found: Grouping) -> str:
    """Return the optimality gap in words: "optimal", "within x% of optimal", or "-" if the bound is
    too weak to tell anything."""
    gap = (found.cost - found.bound) / max(found.bound, 1)
    said = f"within {gap:.1%} of optimal" if gap <= MOST_TELLING_GAP else "-"
    return "optimal" if found.optimal else said


def least_moved(cost: Traffic | PieceCost, region: int) -> Callable[[int], int]:
    """Return a function that computes lower bounds of the bytes that nodes of a region move.

    They are the sum of the bytes that must be moved after the other nodes of the region have run:

        read           each tensor that exists already and that one of the nodes reads
        written        each output of the region that does not exist yet
        written, read  each tensor that does not exist yet, and whose writer and some reader cannot
                       be in one group
    """
    problem, again = cost.problem, 0
    for i in bits(region):
        if any(cost.apart(i, reader) for reader in bits(problem.readers[i] & region)):
            again |= 1 << i
    written = problem.wanted_outside(region) | again

    def bound(nodes: int) -> int:
        read = 0
        for i in bits(nodes):
            read |= problem.reads[i]
        moved = (read & ~nodes, again & nodes, written & nodes)
        return sum(problem.sizes[t] for mask in moved for t in bits(mask))

    return bound


def lower_bound(cost: Traffic, order: Sequence[int], max_work: int) -> tuple[int, int]:
    """Return (lower bound of the cost of any grouping, work spent).

    The result is the sum of two bounds.  One is for the tensors that nodes write; `_piece_bound`
    finds it by search.  The other is for the network inputs: each one that has readers is read from
    external memory at least once.

    order: execution order of all nodes.
    max_work: budget of the search.  Work is the sum of the sizes (numbers of nodes) of the groups
        that a search examines.

    """
    problem = cost.problem
    bound, work = _piece_bound(cost, order, max_work)
    inputs = range(len(problem.nodes), len(problem.sizes))
    return bound + sum(problem.sizes[t] for t in inputs if problem.readers[t]), work


def _piece_bound(cost: Traffic, nodes: Sequence[int], max_work: int) -> tuple[int, int]:
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
    region = piece.problem.everything
    bound, work = piece.least(region)(region) + later, 1
    if len(nodes) <= MOST_PIECE_NODES:
        found = search.run(max_work)
        bound, work = max(bound, int(found.bound) + later), found.work
        if found.finished:
            return bound, work
    if len(nodes) >= 2 * LEAST_PIECE_NODES:
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
    """

    problem: GroupingProblem
    whole: Traffic
    nodes: tuple[int, ...]
    may_be: Callable[[int], bool]

    @staticmethod
    def of_nodes(whole: Traffic, nodes: Sequence[int]) -> PieceCost:
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

    def least(self, region: int) -> Callable[[int], int]:
        """Return a function that computes lower bounds of the bytes that nodes move."""
        return least_moved(self, region)

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        writer, reader: indices of nodes in the piece.  False proves nothing.
        """
        return self.whole.apart(self.nodes[writer], self.nodes[reader])


def _leaves(whole: Traffic, i: int, piece: int) -> bool:
    """Return True if nodes outside of a piece force every grouping to write the tensor of node `i`.

    That is the case if a node outside of the piece reads the tensor, and provably is in no group
    with `i`: then the tensor is written to external memory.  False proves nothing.
    whole: the group cost in the whole network.
    i: index of a node of the piece.
    piece: mask of the nodes of the piece.
    """
    return any(whole.apart(i, reader) for reader in bits(whole.problem.readers[i] & ~piece))


def _read_later(whole: Traffic, nodes: Sequence[int]) -> int:
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


def unbounded_if_none(limit: int | None) -> int:
    """Return `limit`, or `UNBOUNDED` for None: compiled code takes only integers."""
    return UNBOUNDED if limit is None else limit


class Swept(NamedTuple):
    """The groups order[lower:lower + k + 1], by k: the bytes moved from and to external memory; a
    lower bound, over all orders, of the live bytes at the peak; and those in this order."""

    costs: Column
    least: Column
    reached: Column


@compiled
def sweep(
    order: Column,
    lower: int,
    upper: int,
    graph: GraphArrays,
    weights: Column,
    caps: tuple[int, int],
) -> Swept:
    """Evaluate each group order[lower:k + 1] for lower <= k < upper.

    order: node indices.
    weights[i]: bytes of the weights of node i.
    caps: capacities in bytes, for weights and for tensors.  The sweep ends before the first group
        whose weights exceed the first, or which has a node whose inputs and output exceed the
        second.
    """
    weight_cap, buffer_cap = caps
    sizes, nodes = graph.sizes, len(graph.read_start) - 1
    position = np.full(nodes, -1, np.int64)
    position[order] = np.arange(len(order))
    most = upper - lower
    costs, least = np.zeros(most, np.int64), np.zeros(most, np.int64)
    reached = np.zeros(most, np.int64)
    live = np.zeros(most, np.int64)  # live[k]: live bytes while order[lower + k] runs
    unread = np.full(
        len(sizes), -1, np.int64
    )  # unread[t]: readers of tensor t outside of the group
    last = np.full(len(sizes), -1, np.int64)  # last[t]: last k that read t from outside, or -1
    weight, coming, going, needed, waiting = 0, 0, 0, 0, 0
    for k in range(most):
        i = order[lower + k]
        weight += weights[i]
        own = sizes[i]
        for r in range(graph.read_start[i], graph.read_start[i + 1]):
            own += sizes[graph.read[r]]
        needed = max(needed, own)
        if weight > weight_cap or needed > buffer_cap:
            return Swept(costs[:k], least[:k], reached[:k])
        live[k] = waiting + sizes[i]  # waiting: bytes written in the group with later uses
        for r in range(graph.read_start[i], graph.read_start[i + 1]):
            t = graph.read[r]
            if t < nodes and lower <= position[t] < lower + k:
                unread[t] -= 1
                if unread[t] == 0 and graph.kept[t] == 0:
                    going -= sizes[t]
                    waiting -= sizes[t]
            else:
                if last[t] < 0:
                    coming += sizes[t]
                for j in range(last[t] + 1, k + 1):
                    live[j] += sizes[t]
                last[t] = k
        unread[i] = graph.reader_start[i + 1] - graph.reader_start[i]
        if unread[i] > 0 or graph.kept[i] == 1:
            going += sizes[i]
            waiting += sizes[i]
        costs[k] = coming + going
        least[k] = max(needed, coming, going)
        reached[k] = live[: k + 1].max()
    return Swept(costs, least, reached)


@compiled
def moved_bytes(members: Column, graph: GraphArrays) -> int:
    """Return the bytes of the tensors that a group reads from outside, or writes for use outside.

    Each tensor is counted once.
    members: indices of the group's nodes.
    """
    inside = np.zeros(len(graph.sizes), np.bool_)
    inside[members] = True
    counted = inside.copy()
    moved = 0
    for k in range(len(members)):
        i = members[k]
        for r in range(graph.read_start[i], graph.read_start[i + 1]):
            if not counted[graph.read[r]]:
                counted[graph.read[r]] = True
                moved += graph.sizes[graph.read[r]]
        wanted = bool(graph.kept[i])
        for r in range(graph.reader_start[i], graph.reader_start[i + 1]):
            wanted = wanted or not inside[graph.reader[r]]
        if wanted:
            moved += graph.sizes[i]
    return int(moved)
