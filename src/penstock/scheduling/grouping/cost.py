"""GroupCost: what running nodes as one group costs, and which nodes can be one group.

`Traffic` is the abstract cost: bytes to and from external memory.  Whoever knows the machine, such
as a profiler, supplies another by the same protocol, or a function that `Costed` makes into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from penstock.scheduling.grouping import fitting
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column, moved_bytes, sweep
from penstock.scheduling.step_table import bits, mask_of

NEVER = -1
"""Cost of nodes that cannot be one group."""
PATIENCE = 8
"""Growing groups are given up after so many in a row that cannot be one group."""
UNLIMITED = 1 << 62


Columns = tuple[Column, Column, Column, Column, Column, Column]
"""A graph as `sweep` wants it."""


class GroupCost(Protocol):
    """Costs are numbers from 0 up, or `NEVER`."""

    @property
    def problem(self) -> GroupingProblem: ...

    @property
    def additive(self) -> bool:
        """Whether the cost counts bytes: each tensor read from outside once, each one wanted
        outside once; so that parts that share no tensor cost no more apart, and where they fit
        together, they fit apart."""
        ...

    def of(self, group: int) -> int:
        """The cost of a set of nodes as one group; NEVER where they cannot be one."""
        ...

    def hopeless(self, group: int) -> bool:
        """Whether no two nodes or more, with these among them, can be one group."""
        ...

    def apart(self, writer: int, reader: int) -> bool:
        """Whether no group holds a node and one that reads from it."""
        ...

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Whether nodes of a piece of the network may be in one group, as far as what the piece
        itself writes can say."""
        ...


class OrderCost(GroupCost, Protocol):
    """A cost that is asked for whole orders."""

    @property
    def undecided(self) -> int:
        """Groups that were refused, but not proven to be none."""
        ...

    def tie(self, group: int) -> int:
        """What is to be little, summed over groups, where groupings cost the same."""
        ...

    def growing(self, order: Sequence[int], lower: int, upper: int) -> Column:
        """Costs of order[lower:lower + 1], order[lower:lower + 2], .. up to order[lower:upper]; it
        ends early where no larger one is likely to be a group."""
        ...


@dataclass(slots=True)
class Costed:
    """The cost that a function says of a set of nodes, each asked for once; None: no group.

    Sets of several nodes with more bytes of weights than `weight_cap` are not asked for."""

    problem: GroupingProblem
    function: Callable[[int], int | None]
    weight_cap: int = UNLIMITED
    additive: bool = False
    undecided: int = 0
    known: dict[int, int] = field(default_factory=dict[int, int])

    def of(self, group: int) -> int:
        found = self.known.get(group)
        if found is None:
            refused = group & (group - 1) and self.hopeless(group)
            cost = None if refused else self.function(group)
            found = NEVER if cost is None else cost
            self.known[group] = found
        return found

    def tie(self, group: int) -> int:
        return 0

    def growing(self, order: Sequence[int], lower: int, upper: int) -> Column:
        costs: list[int] = []
        group, failed = 0, 0
        for i in order[lower:upper]:
            group |= 1 << i
            if costs and self.hopeless(group):
                break
            costs.append(self.of(group))
            failed = failed + 1 if costs[-1] == NEVER else 0
            if failed == PATIENCE:
                break
        return np.array(costs, np.int64)

    def hopeless(self, group: int) -> bool:
        return weight_of(self.problem, group) > self.weight_cap

    def apart(self, writer: int, reader: int) -> bool:
        return self.hopeless(self.problem.between(writer, reader))

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        return lambda group: True


def weight_of(problem: GroupingProblem, group: int) -> int:
    """Bytes of weights of a group."""
    return sum(problem.nodes[i].weight_bytes for i in bits(group))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a group may take: bytes of weights, all of which stay on the chip, and bytes of whole
    tensors that are live at a time in the best order of its nodes.  `single_always`: a group of one
    node may take more."""

    weight_cap: int = UNLIMITED
    buffer_cap: int = UNLIMITED
    single_always: bool = True
    order_states: int = 200  # of the search for an order that fits, for each group


@dataclass(slots=True, eq=False)
class Traffic:
    """Bytes that a group reads from external memory, each tensor once, and writes to it."""

    problem: GroupingProblem
    limits: Limits
    additive: bool = True
    known: dict[int, int] = field(default_factory=dict[int, int])
    _unsure: set[int] = field(default_factory=set[int])  # refused, but not proven to be no groups
    _apart: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    _ranks: dict[tuple[int, ...], Column] = field(default_factory=dict[tuple[int, ...], Column])
    _graph: Columns = field(init=False)
    _weights: Column = field(init=False)
    _own_bytes: Column = field(init=False)  # live while a node runs, in every group
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
        return len(self._unsure)

    def of(self, group: int) -> int:
        found = self.known.get(group)
        if found is None:
            found = self.bytes_of(group) if self._is_group(group) else NEVER
            self.known[group] = found
        return found

    def bytes_of(self, group: int) -> int:
        """Bytes moved, whether the group fits or not."""
        return moved_bytes(self._members(group), *self._graph)

    def tie(self, group: int) -> int:
        return 0

    def growing(self, order: Sequence[int], lower: int, upper: int) -> Column:
        if lower == 0 and len(order) == len(self.problem.nodes):
            self._remember(tuple(order))
        cap = self.limits.buffer_cap
        costs, least, reached = self._sweep(np.array(order, np.int64), lower, upper)
        if not len(costs):
            return np.array([self.of(1 << order[lower])], np.int64)
        failed, before, group, grown = 0, NEVER, 0, lower
        for k in np.flatnonzero(reached > cap).tolist():
            refused = least[k] > cap or k >= fitting.MOST_NODES  # larger ones: this order alone
            if not refused:
                group |= mask_of(order[grown : lower + k + 1])
                grown = lower + k + 1
                refused = self.of(group) == NEVER
            if refused:
                costs[k] = NEVER
                failed = failed + 1 if k == before + 1 else 1
                before = k
                if failed == PATIENCE:
                    return costs[: k + 1]
        return costs

    def _remember(self, order: tuple[int, ...]) -> None:
        """Groups that were not decided may fit where their nodes run in a new order."""
        if order not in self._ranks:
            self._ranks[order] = np.argsort(np.array(order, np.int64))
            for group in self._unsure:
                del self.known[group]
            self._unsure.clear()

    def _sweep(self, order: Column, lower: int, upper: int) -> tuple[Column, Column, Column]:
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
            limits.weight_cap,
            limits.buffer_cap,
        )

    def hopeless(self, group: int) -> bool:
        members = self._members(group)
        limits = self.limits
        return bool(
            self._weights[members].sum() > limits.weight_cap
            or self._own_bytes[members].max() > limits.buffer_cap
        )

    def _members(self, group: int) -> Column:
        """Nodes of a group, sorted."""
        raw = np.frombuffer(group.to_bytes(self._mask_bytes, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(raw, bitorder="little"))

    def apart(self, writer: int, reader: int) -> bool:
        """By what is live between two nodes, too: the tensors among the nodes between them are live
        at no other times in a larger group."""
        found = self._apart.get((writer, reader))
        if found is None:
            found = self._apart[writer, reader] = self._are_apart(writer, reader)
        return found

    def _are_apart(self, writer: int, reader: int) -> bool:
        between = self.problem.between(writer, reader)
        if self.hopeless(between):
            return True
        nodes = list(bits(between))
        return self.limits.buffer_cap < UNLIMITED and not self.relaxed(self.problem.piece(nodes))(
            (1 << len(nodes)) - 1
        )

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        alone = Traffic(piece, self.limits)
        return lambda group: alone.fitting(group) != fitting.TOO_LARGE

    def fitting(self, group: int) -> int:
        """Whether some order of a group fits into the buffer: FITS, TOO_LARGE or UNDECIDED."""
        limits = self.limits
        if limits.buffer_cap == UNLIMITED:
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
        """Whether a group fits where its nodes run as they stand in an order of all nodes."""
        inside = members[np.argsort(rank[members])]
        _, _, reached = self._sweep(inside, 0, len(inside))
        return len(reached) == len(inside) and bool(reached[-1] <= self.limits.buffer_cap)

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
    kept = [t < len(problem.nodes) and t in problem.outputs for t in range(len(problem.sizes))]
    return (
        *_lists(problem.reads),
        *_lists(problem.readers),
        np.array(kept, np.int64),
        np.array(problem.sizes, np.int64),
    )


def _lists(masks: Sequence[int]) -> tuple[Column, Column]:
    """Where the members of each mask begin, and the members of all."""
    members = [list(bits(mask)) for mask in masks]
    start = np.append(0, np.cumsum([len(some) for some in members])).astype(np.int64)
    return start, np.array([i for some in members for i in some], np.int64)
