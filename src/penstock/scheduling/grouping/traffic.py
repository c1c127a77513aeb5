"""Traffic: the cost of a group as the bytes that it moves to and from external memory.

This cost needs no model of a machine.  A set of nodes can be a group if its weights and tensors fit
the on-chip memory (`GroupLimits`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.scheduling.grouping import fitting
from penstock.scheduling.grouping.columns import Columns, buffer_fits, columns, members
from penstock.scheduling.grouping.cost import PATIENCE, IntervalCosts
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column, moved_bytes, sweep, unbounded_if_none
from penstock.scheduling.order.step_table import bit_mask, bits


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
    additive, separable: properties that `GroupCost` defines; both True for this cost.
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
    additive: bool = True
    separable: bool = True
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])
    _unsure: set[int] = field(default_factory=set[int])  # rejected without proof
    _apart: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    _ranks: dict[tuple[int, ...], Column] = field(default_factory=dict[tuple[int, ...], Column])
    _graph: Columns = field(init=False)
    _weights: Column = field(init=False)
    _own_bytes: Column = field(init=False)  # by node: bytes of its operands

    def __post_init__(self) -> None:
        problem, sizes = self.problem, self.problem.sizes
        self._graph = columns(problem)
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
        return moved_bytes(self._members(group), *self._graph)

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
            refused = least[k] > cap or k >= fitting.MOST_NODES  # a larger set: only in this order
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

    def _sweep(self, order: Column, lower: int, upper: int) -> tuple[Column, Column, Column]:
        """Evaluate the groups order[lower:k] for k = lower + 1, .., upper.

        The evaluation ends before the first group that provably fits in no order of its nodes.

        Returns three arrays with one entry per group: bytes moved to and from external memory; a
        lower bound of the live bytes at the peak in any order; the live bytes at the peak in the
        given order.
        """
        position = np.full(len(self.problem.nodes), -1, np.int64)
        position[order] = np.arange(len(order))
        limits = self.limits
        return sweep(
            order,
            position,
            lower,
            upper,
            *self._graph,
            self._weights,
            unbounded_if_none(limits.weight_cap),
            unbounded_if_none(limits.buffer_cap),
        )

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

    def least(self, nodes: int) -> int:
        """Return 0, a trivial lower bound of the bytes that some nodes move in any grouping.

        `bounds.py` computes better ones, from the tensors instead of the nodes.
        nodes: unused.
        """
        return 0

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
        between = self.problem.between(writer, reader)
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
        return lambda group: alone.fitting(group) != fitting.TOO_LARGE

    def fitting(self, group: int) -> int:
        """Return whether the tensors of a group fit the buffer in some order of its nodes.

        group: mask of nodes.

        The result is FITS, TOO_LARGE, or UNDECIDED if the search gave up.
        """
        limits = self.limits
        if limits.buffer_cap is None:
            return fitting.FITS
        inside = self._members(group)
        found = buffer_fits(inside, self._graph, limits.buffer_cap, limits.order_states)
        if found == fitting.UNDECIDED and any(
            self._fits_along(rank, inside) for rank in self._ranks.values()
        ):
            return fitting.FITS
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
        if found == fitting.UNDECIDED:
            self._unsure.add(group)
        return found == fitting.FITS
