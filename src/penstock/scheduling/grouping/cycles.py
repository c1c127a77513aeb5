"""GroupCycles: the cycles of a group in the compiled program.

The tensors that only the group uses stay on chip; all others are in external memory.  The cycles of
a node depend on which of the tensors that it reads and writes stay on chip.  The search takes these
cycles from a function (`NodeCycles`) that computes the cycles of the calls in the compiled program.
So the cost that the search minimises is that of the compiled program.

A set of nodes can be a group if the tensors that stay on chip fit there in some order of the nodes,
or if the nodes can run tile by tile, so that only tiles of these tensors are on chip. With
`fits_in_order`, they must fit in the order that it states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.scheduling.grouping.on_chip import FITS, UNDECIDED, KeptTensors, flags
from penstock.scheduling.grouping.problem import Column, GroupingProblem, IntervalCosts
from penstock.scheduling.order.steps import bit_mask, bits

NodeCycles = Callable[[int, int], int]
"""Cycles of a node, by its index and the mask of those of its tensors that stay on chip."""
TiledCost = Callable[[int], int | None]
"""Cost of a group, given as a mask of nodes, that runs tile by tile; None if it cannot."""
Known = dict[tuple[int, int], IntervalCosts]
"""Results of `interval_costs` for an order of nodes, by the arguments `lower` and `upper`."""
PATIENCE, TILED_PATIENCE = 2, 6
"""`interval_costs` tries ever larger groups, and stops after this number of consecutive groups for
which it finds no order that fits.  Larger groups then almost never fit, and a search for an order
would take most of the time.  The second number holds if groups may run tile by tile."""
MOST_TENSORS = 8
"""Maximum number of tensors of a node for which all assignments to memories are compared."""


@dataclass(slots=True, eq=False)
class GroupCycles:
    """Cost of groups in cycles of the compiled program, or in another measure of its calls.

    node_cycles: the cycles of a node, or the other measure.
    capacity_bytes: bytes of the on-chip memory that live tensors may occupy.
    node_tie: a secondary cost of a node, which breaks ties; None: the bytes of the tensors that
        cross the boundary of a group.
    tiled: cost of a group that runs tile by tile; None if no group can.
    tiled_least: lower bound of the cost of a node, given by its index, in groups that run tile by
        tile; its result is None if the node cannot be in one.  None if no group can run so.
    tiles_may_save: whether a group that fits as a whole may cost less tile by tile.
    most_tiled: maximum number of nodes of a group that runs tile by tile.
    order_states: limit of the work per group: maximum number of states in the search for an order
        of its nodes in which the tensors fit on chip.
    fits_in_order: whether the tensors of a group fit in the order in which it will run; None if an
        order in which they fit will be searched.
    known: costs computed so far, by node mask; None if the nodes cannot be a group.
    in_tiles: the node masks of the groups in `known` that run tile by tile.
    _unsure: masks of nodes that may be a group although no order in which they fit was found.
    _on_chip: the test whether the tensors of a group fit on chip.
    _tileable: results of `_may_tile`, by node mask.
    _cycles: results of `node_cycles`.
    _proven: the results of `interval_costs` in which every infeasible group is provably so, by the
        order of the nodes.
    _least: a lower bound of the cycles of each node; None before the first call of `least`.
    """

    problem: GroupingProblem
    node_cycles: NodeCycles
    capacity_bytes: int
    node_tie: NodeCycles | None = None
    tiled: TiledCost | None = None
    tiled_least: Callable[[int], int | None] | None = None
    tiles_may_save: bool = False
    most_tiled: int = 0
    order_states: int = 200
    fits_in_order: Callable[[int], bool] | None = None
    known: dict[int, int | None] = field(default_factory=dict[int, int | None])
    in_tiles: set[int] = field(default_factory=set[int])
    _unsure: set[int] = field(default_factory=set[int])
    _on_chip: KeptTensors = field(init=False)
    _tileable: dict[int, bool] = field(default_factory=dict[int, bool])
    _cycles: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    _proven: dict[tuple[int, ...], Known] = field(default_factory=dict[tuple[int, ...], Known])
    _least: Column | None = None

    def __post_init__(self) -> None:
        self._on_chip = KeptTensors(self.problem, self.capacity_bytes, self.order_states)

    @property
    def undecided(self) -> int:
        """Number of sets of nodes that were rejected as groups although they may be feasible."""
        return len(self._unsure)

    def of(self, group: int) -> int | None:
        """Return the cycles of a group; None if the nodes cannot be one group.

        group: mask of nodes.
        """
        if group not in self.known:
            kept = self.problem.kept_inside(group)
            found = self._on_chip.fits(group, kept)
            if found == UNDECIDED:
                self._unsure.add(group)
            whole = sum(self._node(i, kept) for i in bits(group)) if found == FITS else None
            self._learn(group, whole)
        return self.known[group]

    def _learn(self, group: int, whole: int | None) -> None:
        """Store the cost of a group: `whole`, or that of its tiles if this is less.

        whole: the cycles of the group if its tensors stay on chip as a whole; None if they do not
            fit.
        """
        if whole is not None and self.fits_in_order and not self.fits_in_order(group):
            whole = None
            self._unsure.add(group)  # a larger group may run in another order
        tiled = None
        if self.tiled is not None and (whole is None or self.tiles_may_save):
            tiled = self.tiled(group) if self._may_tile(group) else None
        if tiled is not None and (whole is None or tiled < whole):
            whole = tiled
            self.in_tiles.add(group)
            self._unsure.discard(group)
        self.known[group] = whole

    def tie(self, group: int) -> int:
        """Return the secondary cost of a group; it breaks ties between groupings of equal cycles.

        It is the sum of `node_tie` over the nodes or, if `node_tie` is None, the bytes of the
        tensors that cross the boundary of the group.
        group: mask of nodes.
        """
        problem = self.problem
        if self.node_tie is not None:
            kept = 0 if group in self.in_tiles else problem.kept_inside(group)
            return sum(self.node_tie(i, kept) for i in bits(group))
        moved = (problem.read_from_outside(group), group & ~problem.kept_inside(group))
        return sum(problem.sizes[t] for mask in moved for t in bits(mask))

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the cycles of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are infeasible, or unlikely to be feasible.
        """
        nodes = tuple(order)
        if lower == 0 and len(nodes) == len(self.problem.nodes):
            self._remember(nodes)
        proven = self._proven.setdefault(nodes, {})
        if (lower, upper) in proven:
            return proven[lower, upper]
        found, is_proven = self._grown(nodes[lower:upper])
        if is_proven:
            proven[lower, upper] = found
        return found

    def _grown(self, order: Sequence[int]) -> tuple[IntervalCosts, bool]:
        """Return (costs, is final) for the groups order[:k] with k = 1, .., len(order).

        costs: the cycles of the groups; ends early as in `interval_costs`.
        is final: False if a group counts as infeasible only because no order in which its tensors
            fit is known yet.
        """
        costs: list[int] = []
        feasible: list[bool] = []
        proven = True
        growing = _GrowingGroup(self.problem, self._node)
        failed = 0
        patience = PATIENCE if self.tiled is None else TILED_PATIENCE
        for i in order:
            growing.add(i)
            group = growing.group
            if growing.peak_bytes <= self.capacity_bytes and self.known.get(group) is None:
                self._learn(group, growing.cycles)
            found = self.of(group)
            costs.append(found or 0)
            feasible.append(found is not None)
            proven = proven and group not in self._unsure
            if found is not None:
                failed = 0
            elif self._may_tile(group) or group.bit_count() > self.most_tiled:
                failed += 1
            if failed == patience or (found is None and self.hopeless(group)):
                break
        return IntervalCosts(np.array(costs, np.int64), np.array(feasible, np.bool_)), proven

    def hopeless(self, group: int) -> bool:
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        A larger group keeps at least the tensors on chip that `group` keeps, so it is infeasible
        if `group` provably is.  False proves nothing.
        group: mask of nodes.
        """
        if group.bit_count() < self.most_tiled:
            return False  # a larger group may run tile by tile
        return self.of(group) is None and group not in self._unsure

    def least(self, region: int) -> Callable[[int], int]:
        """Return a function that computes a lower bound of the cycles of some nodes.

        It is the sum of a bound for each node: the cycles for the best choice of tensors that stay
        on chip or, if fewer, the least cycles of the node in groups that run tile by tile.
        """
        least = self._least
        if least is None:
            cycles = [self._least_cycles(i) for i in range(len(self.problem.nodes))]
            least = self._least = np.array(cycles, np.int64)
        return lambda nodes: int(least[flags(nodes, len(least))].sum())

    def fitting_order(self, group: int) -> tuple[int, ...] | None:
        """Return an order of a group's nodes in which its tensors fit on chip.

        Only a few orders are tried: ascending node indices, and the orders of the whole network
        that `interval_costs` has evaluated, restricted to the group.  None if the tensors fit in
        none of these.
        group: mask of nodes.
        """
        return self._on_chip.fitting_order(group)

    def _may_tile(self, group: int) -> bool:
        """Return whether `tiled` may be asked for the cost of a group that runs tile by tile.

        The group must have at most `most_tiled` nodes, and the tensors that only the group uses
        must connect all of them.
        """
        if group.bit_count() > self.most_tiled:
            return False
        if group not in self._tileable:
            self._tileable[group] = self.problem.is_joined_inside(group)
        return self._tileable[group]

    def _node(self, i: int, kept: int) -> int:
        """Return the cycles of node `i` if the tensors in the mask `kept` stay on chip."""
        key = i, kept & (self.problem.reads[i] | 1 << i)
        if key not in self._cycles:
            self._cycles[key] = self.node_cycles(*key)
        return self._cycles[key]

    def _least_cycles(self, i: int) -> int:
        """Return a lower bound of the cycles of node `i` in any group.

        Of the tensors that the node reads or writes, any set may stay on chip, except network
        inputs and outputs.  The bound is the least number of cycles over all these sets or, if it
        is less, the bound `tiled_least` for groups that run tile by tile.  For a node with more
        than `MOST_TENSORS` such tensors, it is 0, because there are too many sets.
        """
        problem = self.problem
        tensors = [t for t in bits(problem.reads[i] | 1 << i) if t < len(problem.nodes)]
        tensors = [t for t in tensors if not problem.output_mask >> t & 1]
        if len(tensors) > MOST_TENSORS:
            return 0
        choices = range(1 << len(tensors))
        least = min(self._node(i, bit_mask(tensors[k] for k in bits(c))) for c in choices)
        tiled = self.tiled_least(i) if self.tiled_least is not None else None
        return least if tiled is None else min(least, tiled)

    def _remember(self, order: tuple[int, ...]) -> None:
        """Add an order of all nodes to the orders in which `fitting_order` tests groups.

        If the order is new, the groups that have been rejected without proof are forgotten, so that
        the next call of `of` tests them again.
        """
        if self._on_chip.add_order(order):
            for group in self._unsure:
                del self.known[group]
            self._unsure.clear()


class _GrowingGroup:
    """A group to which the nodes of an order are added one by one.

    group: mask of the nodes added so far.
    cycles: cycles of the group.
    peak_bytes: live bytes at the peak if the nodes run in the order in which they were added.  Only
        tensors that stay on chip count.
    """

    def __init__(self, problem: GroupingProblem, node_cycles: NodeCycles) -> None:
        self._problem, self._node_cycles = problem, node_cycles
        self._kept = 0
        self._position: dict[int, int] = {}
        self._taken: dict[int, int] = {}  # by node: its cycles
        self._live: list[int] = []  # by position: live bytes while the node there runs
        self.group = self.cycles = self.peak_bytes = 0

    def add(self, i: int) -> None:
        """Add node `i` to the group; the nodes must be added in a topological order.

        The producers of the node that are not in the group are assumed to run before the group.
        """
        problem = self._problem
        self._position[i] = len(self._live)
        self._live.append(0)
        self.group |= 1 << i
        self._taken[i] = 0
        changed = 1 << i
        for t in (*bits(problem.before[i] & self.group), i):
            readers = problem.readers[t]
            if not readers & ~self.group and not problem.output_mask >> t & 1:
                self._kept |= 1 << t
                changed |= 1 << t | readers
                for p in range(self._position[t], len(self._live)):
                    self._live[p] += problem.sizes[t]
                    self.peak_bytes = max(self.peak_bytes, self._live[p])
        for node in bits(changed):
            cycles = self._node_cycles(node, self._kept)
            self.cycles += cycles - self._taken[node]
            self._taken[node] = cycles
