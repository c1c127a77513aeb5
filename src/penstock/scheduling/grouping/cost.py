"""GroupCost: the cost of running nodes as one group, and which sets of nodes are groups.

`Traffic` is the abstract cost: bytes to and from external memory.  A machine model such as a
profiler implements the same protocol, or provides a function for `Costed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.scheduling.grouping import fitting
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column, moved_bytes, sweep, unbounded_if_none
from penstock.scheduling.order.step_table import bit_mask, bits

PATIENCE = 8
"""Number of consecutive infeasible sets after which larger ones are not tried."""


Columns = tuple[Column, Column, Column, Column, Column, Column]
"""A graph as arrays; see `sweep`."""


class IntervalCosts(NamedTuple):
    """Costs of intervals of an order that begin at one position, and which of them can be a group.

    The cost of an interval that cannot be a group has no meaning.
    """

    costs: Column
    feasible: npt.NDArray[np.bool_]


class GroupCost(Protocol):
    """Cost of groups, as non-negative numbers.  Groups are masks of nodes."""

    @property
    def problem(self) -> GroupingProblem:
        """The grouping problem whose groups are evaluated."""
        ...

    @property
    def additive(self) -> bool:
        """Whether the cost counts bytes: each tensor read from outside and each tensor used outside
        once.

        Then disconnected parts of a group cost no more as separate groups, and they fit separately
        if they fit together.
        """
        ...

    def of(self, group: int) -> int | None:
        """Return the cost of a set of nodes as one group; None if it cannot be one."""
        ...

    def hopeless(self, group: int) -> bool:
        """Return whether no group of two or more nodes contains these nodes."""
        ...

    def apart(self, writer: int, reader: int) -> bool:
        """Return whether no group contains both a node and one of its readers."""
        ...

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a necessary condition for nodes of a piece to be in one group.

        The condition considers only the tensors that the piece writes.
        """
        ...


class OrderCost(GroupCost, Protocol):
    """A cost that can evaluate all intervals of an order."""

    @property
    def undecided(self) -> int:
        """Number of sets that were rejected without proof that they cannot be groups."""
        ...

    def tie(self, group: int) -> int:
        """Return a secondary cost, summed over groups, to break ties between groupings."""
        ...

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of order[lower:lower + 1], order[lower:lower + 2], ..
        order[lower:upper].

        The arrays end early where larger intervals are unlikely to be groups.
        """
        ...


@dataclass(slots=True)
class Costed:
    """A cost given by a function of a set of nodes; the function returns None if the set is no
    group.

    weight_cap: limit of the bytes of weights for sets of two or more nodes; None: no limit.
    known: memoised costs.
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
        """Return 0: there is no secondary cost."""
        return 0

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """See `OrderCost.interval_costs`."""
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
        """Return whether the weights exceed the limit."""
        return self.weight_cap is not None and weight_bytes(self.problem, group) > self.weight_cap

    def apart(self, writer: int, reader: int) -> bool:
        """Return whether the weights of all nodes between two nodes exceed the limit."""
        return self.hopeless(self.problem.between(writer, reader))

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a condition that is always true."""
        return lambda group: True


def total_cost(cost: GroupCost, groups: Iterable[int]) -> int | None:
    """Return the sum of the costs of sets of nodes; None if one of them cannot be a group."""
    total = 0
    for group in groups:
        found = cost.of(group)
        if found is None:
            return None
        total += found
    return total


def weight_bytes(problem: GroupingProblem, group: int) -> int:
    """Return the bytes of weights of a group."""
    return sum(problem.nodes[i].weight_bytes for i in bits(group))


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Capacity of a group.

    weight_cap: bytes of weights, all of which stay on chip; None: no limit.
    buffer_cap: live bytes of whole tensors, in the best order of the group's nodes; None: no limit.
    single_always: whether a group of one node may exceed both.
    order_states: budget of the search for an order that fits, for each group.
    """

    weight_cap: int | None = None
    buffer_cap: int | None = None
    single_always: bool = True
    order_states: int = 200


@dataclass(slots=True, eq=False)
class Traffic:
    """Bytes that a group reads from external memory, each tensor once, and writes to it.

    known: memoised costs.
    """

    problem: GroupingProblem
    limits: GroupLimits
    additive: bool = True
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])
    _unsure: set[int] = field(default_factory=set[int])  # rejected without proof
    _apart: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    _ranks: dict[tuple[int, ...], Column] = field(default_factory=dict[tuple[int, ...], Column])
    _graph: Columns = field(init=False)
    _weights: Column = field(init=False)
    _own_bytes: Column = field(init=False)  # by node: bytes of its operands
    _mask_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        problem, sizes = self.problem, self.problem.sizes
        self._graph = _columns(problem)
        self._weights = np.array([node.weight_bytes for node in problem.nodes], np.int64)
        own = (
            sizes[i] + sum(sizes[t] for t in bits(reads)) for i, reads in enumerate(problem.reads)
        )
        self._own_bytes = np.array(list(own), np.int64)
        self._mask_bytes = len(problem.nodes) // 8 + 1

    @property
    def undecided(self) -> int:
        """Number of groups rejected without proof that they do not fit."""
        return len(self._unsure)

    def of(self, group: int) -> int | None:
        """Return the bytes moved by a group; None if it is none."""
        if group not in self.known:
            self.known[group] = self.traffic_bytes(group) if self._is_group(group) else None
        return self.known[group]

    def traffic_bytes(self, group: int) -> int:
        """Return the bytes moved by a set of nodes, whether it fits or not."""
        return moved_bytes(self._members(group), *self._graph)

    def tie(self, group: int) -> int:
        """Return 0: there is no secondary cost."""
        return 0

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """See `OrderCost.interval_costs`."""
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
            refused = least[k] > cap or k >= fitting.MOST_NODES  # larger sets: only this order
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
        """Forget undecided groups when a new order of all nodes is known: they may fit in that
        order.
        """
        if order not in self._ranks:
            self._ranks[order] = np.argsort(np.array(order, np.int64))
            for group in self._unsure:
                del self.known[group]
            self._unsure.clear()

    def _sweep(self, order: Column, lower: int, upper: int) -> tuple[Column, Column, Column]:
        """Evaluate the intervals order[lower:k] for k up to `upper`; see `sweep.sweep`."""
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
        """Return whether the weights, or the operands of a single node, exceed the capacity."""
        members = self._members(group)
        limits = self.limits
        return bool(
            self._weights[members].sum() > unbounded_if_none(limits.weight_cap)
            or self._own_bytes[members].max() > unbounded_if_none(limits.buffer_cap)
        )

    def _members(self, group: int) -> Column:
        """Return the nodes of a group, sorted."""
        raw = np.frombuffer(group.to_bytes(self._mask_bytes, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(raw, bitorder="little"))

    def apart(self, writer: int, reader: int) -> bool:
        """Return whether no group contains both nodes, from capacity and liveness between them.

        Within any group, the tensors between the two nodes are live no longer than in the smallest
        one.
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
        """Return whether nodes of a piece fit, counting only the tensors that the piece writes."""
        alone = Traffic(piece, self.limits)
        return lambda group: alone.fitting(group) != fitting.TOO_LARGE

    def fitting(self, group: int) -> int:
        """Return FITS, TOO_LARGE or UNDECIDED: whether some order of the group fits the buffer."""
        limits = self.limits
        if limits.buffer_cap is None:
            return fitting.FITS
        members = self._members(group)
        if len(members) > fitting.MOST_NODES:
            found = fitting.least_live_fits(members, *self._graph, limits.buffer_cap)
        else:
            states = limits.order_states
            found = fitting.fits(members, *self._graph, limits.buffer_cap, states)
        if found == fitting.UNDECIDED and any(
            self._fits_along(rank, members) for rank in self._ranks.values()
        ):
            return fitting.FITS
        return found

    def _fits_along(self, rank: Column, members: Column) -> bool:
        """Return whether a group fits if its nodes run in the relative order of an order of all
        nodes.
        """
        inside = members[np.argsort(rank[members])]
        _, _, reached = self._sweep(inside, 0, len(inside))
        return len(reached) == len(inside) and bool(
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


def _columns(problem: GroupingProblem) -> Columns:
    """Return a problem as arrays; see `sweep`."""
    kept = [t < len(problem.nodes) and t in problem.outputs for t in range(len(problem.sizes))]
    return (
        *_lists(problem.reads),
        *_lists(problem.readers),
        np.array(kept, np.int64),
        np.array(problem.sizes, np.int64),
    )


def _lists(masks: Sequence[int]) -> tuple[Column, Column]:
    """Return the start of the members of each mask, and the members of all masks concatenated."""
    members = [list(bits(mask)) for mask in masks]
    start = np.append(0, np.cumsum([len(some) for some in members])).astype(np.int64)
    return start, np.array([i for some in members for i in some], np.int64)
