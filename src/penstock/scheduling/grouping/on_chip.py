"""KeptTensors: whether the tensors that a group keeps on chip fit there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.scheduling.grouping import fitting
from penstock.scheduling.grouping.columns import Columns, buffer_fits, columns, flags, members
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column
from penstock.scheduling.order.step_table import bits


@dataclass(slots=True, eq=False)
class KeptTensors:
    """The test whether the tensors that only a group uses fit on chip in some order of its nodes.

    capacity_bytes: bytes of the on-chip memory.
    order_states: maximum number of states, per group, of the search for an order.
    _orders: the known orders of all nodes, as node indices.  They are tried before the search.
    _ranks: _ranks[k, i] is the position of node i in order k, in which the known orders were added.
        Order 0 is that of the node indices.
    _last_readers: _last_readers[k, t] is the reader of tensor t that runs last in order k, or t
        itself if no node reads it.
    _graph: the problem as arrays.
    """

    problem: GroupingProblem
    capacity_bytes: int
    order_states: int
    _orders: set[tuple[int, ...]] = field(init=False)
    _ranks: npt.NDArray[np.int64] = field(init=False)
    _last_readers: npt.NDArray[np.int64] = field(init=False)
    _graph: Columns = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.problem.nodes)
        self._orders = set()
        self._ranks = self._last_readers = np.zeros((0, count), np.int64)
        self._graph = columns(self.problem)
        self.add_order(range(count))

    def add_order(self, order: Sequence[int]) -> bool:
        """Add an order of all nodes to the known ones; return whether it is new."""
        if tuple(order) in self._orders:
            return False
        self._orders.add(tuple(order))
        rank = np.argsort(np.array(order, np.int64))
        readers = self.problem.readers[: len(order)]
        last = [max(bits(mask), key=rank.__getitem__, default=t) for t, mask in enumerate(readers)]
        self._ranks = np.vstack((self._ranks, rank))
        self._last_readers = np.vstack((self._last_readers, np.array(last, np.int64)))
        return True

    def fitting_order(self, group: int) -> tuple[int, ...] | None:
        """Return an order of a group's nodes in which the tensors that only it uses fit on chip.

        Only the known orders are tried: ascending node indices, and those passed to `add_order`.
        None if the tensors fit in none of these.
        group: mask of nodes.
        """
        inside = members(group, len(self.problem.nodes))
        k = self._first_fit(inside, self._sizes(self.problem.kept_inside(group)))
        return None if k < 0 else tuple(inside[np.argsort(self._ranks[k][inside])].tolist())

    def fits(self, group: int, kept: int) -> int:
        """Return whether the tensors in `kept` fit on chip in some order of a group's nodes.

        If the tensors fit in no known order (`add_order`), other orders are searched.
        group: mask of nodes.
        kept: mask of those of its nodes whose tensors only the group uses.

        The result is FITS, TOO_LARGE or UNDECIDED (`fitting.py`).
        """
        sizes = self._sizes(kept)
        inside = members(group, len(self.problem.nodes))
        if sizes.sum() <= self.capacity_bytes or self._first_fit(inside, sizes) >= 0:
            return fitting.FITS
        return buffer_fits(
            inside, (*self._graph[:-1], sizes), self.capacity_bytes, self.order_states
        )

    def _sizes(self, kept: int) -> Column:
        """Return the bytes of each tensor in the mask `kept`, and 0 for all other tensors."""
        sizes = self._graph[-1]
        return sizes * flags(kept, len(sizes))

    def _first_fit(self, inside: Column, sizes: Column) -> int:
        return first_fit(inside, self._ranks, self._last_readers, sizes, self.capacity_bytes)


@compiled
def first_fit(
    members: Column,
    ranks: npt.NDArray[np.int64],
    last_readers: npt.NDArray[np.int64],
    sizes: Column,
    cap: int,
) -> int:
    """Return the index of the first known order in which a group's tensors fit on chip; else -1.

    members: indices of the group's nodes.
    ranks[k, i]: position of node i in order k.
    last_readers[k, t]: the reader of tensor t that runs last in order k.
    sizes[t]: bytes of tensor t if it must fit on chip, because only the group uses it; else 0.
    cap: maximum live bytes.
    """
    position = np.zeros(ranks.shape[1], np.int64)
    for k in range(len(ranks)):
        order = members[np.argsort(ranks[k][members])]
        for p in range(len(order)):
            position[order[p]] = p
        changes = np.zeros(len(order) + 1, np.int64)  # of the live bytes, by position
        for t in members:
            if sizes[t]:
                changes[position[t]] += sizes[t]
                changes[position[last_readers[k, t]] + 1] -= sizes[t]
        if np.cumsum(changes).max() <= cap:
            return k
    return -1
