"""GroupCycles: cycles of a group whose computing overlaps with its traffic to external memory.

    cycles = max(computing, bytes / bandwidth) + latency

Computing is the sum of what its nodes take.  The bytes are those of `Traffic`, and the weights of
its nodes, which pass once; `Traffic` says which nodes can be one group, too.

Source: the profiler of Zheng et al., IEEE TCAD 39(11), 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.scheduling.grouping.bounds import lower_bound
from penstock.scheduling.grouping.cost import NEVER, Traffic, weight_of
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column
from penstock.scheduling.step_table import bits


@dataclass(slots=True, eq=False)
class GroupCycles:
    """`computing_cycles`: of each node; `latency_cycles`: until the first byte of a group is
    there."""

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
        return self.traffic.problem

    @property
    def undecided(self) -> int:
        return self.traffic.undecided

    def of(self, group: int) -> int:
        if self.traffic.of(group) == NEVER:
            return NEVER
        computing = sum(self.computing_cycles[i] for i in bits(group))
        return self._cycles(computing, self.moved_bytes(group))

    def moved_bytes(self, group: int) -> int:
        """Bytes to and from external memory, weights among them."""
        return self.traffic.bytes_of(group) + weight_of(self.problem, group)

    def tie(self, group: int) -> int:
        return self.moved_bytes(group)

    def growing(self, order: Sequence[int], lower: int, upper: int) -> Column:
        features = self.traffic.growing(order, lower, upper)
        nodes = np.array(order[lower : lower + len(features)], np.int64)
        moved = features + self._weights[nodes].cumsum()
        communicating = -(-moved // self.bytes_per_cycle)
        busy = np.maximum(self._computing[nodes].cumsum(), communicating)
        return np.where(features == NEVER, NEVER, busy + self.latency_cycles)

    def hopeless(self, group: int) -> bool:
        return self.traffic.hopeless(group)

    def apart(self, writer: int, reader: int) -> bool:
        return self.traffic.apart(writer, reader)

    def relaxed(self, piece: GroupingProblem) -> Callable[[int], bool]:
        return self.traffic.relaxed(piece)

    def bound(self, order: Sequence[int], max_work: int) -> int:
        """Cycles that every grouping takes at least: all computing, or the least bytes, and the
        latency of one group."""
        return self._cycles(sum(self.computing_cycles), self.least_bytes(order, max_work))

    def least_bytes(self, order: Sequence[int], max_work: int) -> int:
        """Bytes that every grouping moves at least; `order`, `max_work`: see `lower_bound`."""
        features, _ = lower_bound(self.traffic, order, max_work)
        return features + weight_of(self.problem, self.problem.everything)

    def _cycles(self, computing: int, moved: int) -> int:
        return max(computing, -(-moved // self.bytes_per_cycle)) + self.latency_cycles
