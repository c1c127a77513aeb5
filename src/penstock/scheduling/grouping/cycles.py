"""GroupCycles: cycles of a group whose computation overlaps with its external traffic.

    cycles = max(computation, bytes / bandwidth) + latency

Computation is the sum of the cycles of the group's nodes.  The bytes are those of `Traffic` plus
the weights, which are read once.  `Traffic` also decides which nodes can be one group.

Source: the profiler of Zheng et al., IEEE TCAD 39(11), 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.scheduling.grouping.bounds import lower_bound
from penstock.scheduling.grouping.cost import IntervalCosts, weight_bytes
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column
from penstock.scheduling.grouping.traffic import Traffic
from penstock.scheduling.order.step_table import bits


@dataclass(slots=True, eq=False)
class GroupCycles:
    """Cost of groups in cycles: max(computation, bytes / bandwidth) + latency.

    traffic: provides the bytes moved without weights, and decides which nodes can be one group.
    computing_cycles: cycles for the computation of each node.
    bytes_per_cycle: bandwidth of external memory.
    latency_cycles: delay until the first byte of a group arrives.
    additive: False, because the cost is not a sum over tensors.
    _computing, _weights: for each node, computing cycles and bytes of weights.
    """

    traffic: Traffic
    computing_cycles: Sequence[int]
    bytes_per_cycle: int
    latency_cycles: int
    additive: bool = False
    _computing: Column = field(init=False)
    _weights: Column = field(init=False)

    def __post_init__(self) -> None:
        self._computing = np.array(self.computing_cycles, np.int64)
        self._weights = np.array([n.weight_bytes for n in self.problem.nodes], np.int64)

    @property
    def problem(self) -> GroupingProblem:
        """The grouping problem whose groups are evaluated."""
        return self.traffic.problem

    @property
    def undecided(self) -> int:
        """Number of sets of nodes that were rejected as groups although they may be feasible."""
        return self.traffic.undecided

    def of(self, group: int) -> int | None:
        """Return the cycles of a group; None if the nodes cannot be one group.

        group: mask of nodes.
        """
        if self.traffic.of(group) is None:
            return None
        computing = sum(self.computing_cycles[i] for i in bits(group))
        return self._cycles(computing, self.moved_bytes(group))

    def moved_bytes(self, group: int) -> int:
        """Return the bytes, including weights, that a group moves from and to external memory.

        group: mask of nodes.
        """
        return self.traffic.traffic_bytes(group) + weight_bytes(self.problem, group)

    def tie(self, group: int) -> int:
        """Return the bytes that a group moves; they break ties between groupings of equal cycles.

        group: mask of nodes.
        """
        return self.moved_bytes(group)

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the cycles of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are infeasible, or unlikely to be feasible.
        """
        features, feasible = self.traffic.interval_costs(order, lower, upper)
        nodes = np.array(order[lower : lower + len(features)], np.int64)
        moved = features + self._weights[nodes].cumsum()
        communicating = -(-moved // self.bytes_per_cycle)
        busy = np.maximum(self._computing[nodes].cumsum(), communicating)
        return IntervalCosts(busy + self.latency_cycles, feasible)

    def hopeless(self, group: int) -> bool:
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        group: mask of nodes.  False proves nothing.
        """
        return self.traffic.hopeless(group)

    def apart(self, writer: int, reader: int) -> bool:
        """Return True if provably no group contains both node `writer` and its reader `reader`.

        writer, reader: indices of nodes.  False proves nothing.
        """
        return self.traffic.apart(writer, reader)

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        """Return a function that tests whether the tensors of nodes of `piece` may fit the buffer.

        The function takes a mask of nodes of `piece`.  If it returns False, no group contains all
        of these nodes.  True proves nothing, because the test counts only the tensors that nodes of
        `piece` write.

        piece: a problem that consists of some nodes of `problem`, numbered anew from 0.
        """
        return self.traffic.relaxed(piece)

    def bound(self, order: Sequence[int], max_work: int) -> int:
        """Return a lower bound of the cycles of any grouping.

        The bound is max(computation of all nodes, least bytes / bandwidth) + latency of one group.
        The least bytes are a lower bound of the bytes that any grouping moves.
        order: execution order of all nodes.
        max_work: budget of the search for the least bytes: the sum of the sizes (numbers of nodes)
            of the groups examined.
        """
        return self._cycles(sum(self.computing_cycles), self.least_bytes(order, max_work))

    def least_bytes(self, order: Sequence[int], max_work: int) -> int:
        """Return a lower bound of the bytes, including weights, that any grouping moves.

        order: execution order of all nodes.
        max_work: budget of the search: the sum of the sizes (numbers of nodes) of the groups
            examined.
        """
        features, _ = lower_bound(self.traffic, order, max_work)
        return features + weight_bytes(self.problem, self.problem.everything)

    def _cycles(self, computing: int, moved: int) -> int:
        return max(computing, -(-moved // self.bytes_per_cycle)) + self.latency_cycles
