"""KeptTensors: whether the tensors that a group keeps on chip fit there in some order of its nodes.

A tensor that only the group uses is live from its writer to its last reader.  Known orders are
tried first, then others are searched.  A state of the search is the set of executed nodes, as a
mask, so searched groups have at most 62 nodes.  A ready node is *free* if no more bytes are live
after it than before; it runs next (`order/order.py` explains why this is optimal).  Otherwise, the
ready node that leaves the fewest live bytes is tried first.

The functions that numba compiles also serve groups whose other tensors occupy the buffer: a tensor
from outside the group is live from the start to its last reader in the group, and a tensor that is
used outside is live from its writer to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.scheduling.grouping.problem import Column, GroupingProblem
from penstock.scheduling.order.steps import bits

MOST_NODES = 62
"""Maximum number of nodes in a group whose orders are searched: a state is an int64 mask."""
FITS, TOO_LARGE, UNDECIDED = 1, 0, -1
"""Whether an order exists in which the group fits: yes, no, or not found within the budget."""


class GraphArrays(NamedTuple):
    """A grouping problem as arrays, for functions that numba compiles.

    Node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].  The nodes
    reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network outputs,
    else 0; sizes[t] is in bytes.
    """

    read_start: Column
    read: Column
    reader_start: Column
    reader: Column
    kept: Column
    sizes: Column


class GroupUse(NamedTuple):
    """How the members of a group, nodes in ascending order, use tensors.

    wanted[t]: mask of the members that read tensor t; bit k for members[k].
    stays[i]: 1 if the tensor of node i is used outside of the group, else 0; -1 if i is no member.
    """

    members: Column
    wanted: Column
    stays: Column


def graph_arrays(problem: GroupingProblem) -> GraphArrays:
    """Return a grouping problem as arrays."""
    kept = [t < len(problem.nodes) and t in problem.outputs for t in range(len(problem.sizes))]
    return GraphArrays(
        *_lists(problem.reads),
        *_lists(problem.readers),
        np.array(kept, np.int64),
        np.array(problem.sizes, np.int64),
    )


def flags(mask: int, count: int) -> npt.NDArray[np.bool_]:
    """Return the lowest `count` bits of a mask as an array."""
    raw = np.frombuffer(mask.to_bytes(count // 8 + 1, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[:count].astype(np.bool_)


def members(mask: int, count: int) -> Column:
    """Return the indices of the bits that are set among the lowest `count`, in ascending order."""
    return np.flatnonzero(flags(mask, count))


def buffer_fits(inside: Column, graph: GraphArrays, cap: int, order_states: int) -> int:
    """Return whether the tensors of a group fit a buffer in some order of its nodes.

    inside: indices of the group's nodes, ascending.
    cap: bytes of the buffer.
    order_states: maximum number of states of the search for an order.

    The result is FITS, TOO_LARGE or UNDECIDED.
    """
    return fits(inside, graph, cap, order_states) if len(inside) <= MOST_NODES else UNDECIDED


def _lists(masks: Sequence[int]) -> tuple[Column, Column]:
    """Return (start, members): the bits set in mask k are members[start[k]:start[k + 1]].

    Example: the masks 0b101 and 0b10 give start = [0, 2, 3] and members = [0, 2, 1].
    """
    members = [list(bits(mask)) for mask in masks]
    start = np.append(0, np.cumsum([len(some) for some in members])).astype(np.int64)
    return start, np.array([i for some in members for i in some], np.int64)


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
    """

    problem: GroupingProblem
    capacity_bytes: int
    order_states: int
    _orders: set[tuple[int, ...]] = field(init=False)
    _ranks: npt.NDArray[np.int64] = field(init=False)
    _last_readers: npt.NDArray[np.int64] = field(init=False)
    _graph: GraphArrays = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.problem.nodes)
        self._orders = set()
        self._ranks = self._last_readers = np.zeros((0, count), np.int64)
        self._graph = graph_arrays(self.problem)
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

        group: mask of nodes.
        kept: mask of those of its nodes whose tensors only the group uses.

        The result is FITS, TOO_LARGE or UNDECIDED.
        """
        sizes = self._sizes(kept)
        inside = members(group, len(self.problem.nodes))
        if sizes.sum() <= self.capacity_bytes or self._first_fit(inside, sizes) >= 0:
            return FITS
        graph = self._graph._replace(sizes=sizes)
        return buffer_fits(inside, graph, self.capacity_bytes, self.order_states)

    def _sizes(self, kept: int) -> Column:
        """Return the bytes of each tensor in the mask `kept`, and 0 for all other tensors."""
        sizes = self._graph.sizes
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


@compiled
def fits(members: Column, graph: GraphArrays, cap: int, max_states: int) -> int:
    """Return whether some order of a group's nodes needs at most `cap` bytes for all tensors that
    they read or write.

    The result is FITS, TOO_LARGE, or UNDECIDED if the search gave up after `max_states` states.
    """
    count = len(members)
    use = _group_use(members, graph)
    start = 0
    for t in range(len(graph.sizes)):
        written = t < len(use.stays) and use.stays[t] >= 0
        start += graph.sizes[t] if use.wanted[t] and not written else 0
    if start > cap:
        return TOO_LARGE
    everything = (1 << count) - 1
    slots = 4
    while slots < 4 * max_states:
        slots *= 2
    seen = np.zeros(slots, np.int64)
    states, lives = np.zeros(count * count + 1, np.int64), np.zeros(count * count + 1, np.int64)
    lives[0], filled, opened = start, 1, 0
    during, after = np.zeros(count, np.int64), np.zeros(count, np.int64)
    while filled:
        filled -= 1
        done, live = states[filled], lives[filled]
        free = 0
        while free >= 0 and done != everything:
            free = _free_member(graph, use, done, live, cap, during, after)
            if free >= 0:
                done, live = done | 1 << free, after[free]
        if done == everything:
            return FITS
        slot = _slot(done, seen)
        if seen[slot] == done + 1:
            continue
        seen[slot] = done + 1
        opened += 1
        if opened >= max_states:
            return UNDECIDED
        filled = _push(done, cap, during, after, states, lives, filled)
    return TOO_LARGE


@compiled
def _group_use(members: Column, graph: GraphArrays) -> GroupUse:
    local = np.full(len(graph.read_start) - 1, -1, np.int64)
    stays = np.full(len(graph.read_start) - 1, -1, np.int64)
    wanted = np.zeros(len(graph.kept), np.int64)
    for k in range(len(members)):
        local[members[k]] = k
    for k in range(len(members)):
        i = members[k]
        stays[i] = graph.kept[i]
        for r in range(graph.reader_start[i], graph.reader_start[i + 1]):
            if local[graph.reader[r]] < 0:
                stays[i] = 1
        for r in range(graph.read_start[i], graph.read_start[i + 1]):
            wanted[graph.read[r]] |= 1 << k
    return GroupUse(members, wanted, stays)


@compiled
def _free_member(
    graph: GraphArrays,
    use: GroupUse,
    done: int,
    live: int,
    cap: int,
    during: Column,
    after: Column,
) -> int:
    """Return the first free member of a group; -1 if there is none.

    done, live: mask of the executed members (bit k for members[k]), and the live bytes.
    during[k], after[k]: output arrays: the live bytes while members[k] runs, and after it.  If the
        member cannot run, during[k] exceeds `cap`, the bytes of the buffer.  They are computed up
        to the free member or, if none is free, for all, because the search then tries each that
        can run.
    """
    for k in range(len(use.members)):
        i = use.members[k]
        during[k], after[k] = live + graph.sizes[i], live
        if done >> k & 1 or not _ready(i, graph, use, done):
            during[k] = cap + 1
        if during[k] > cap:
            continue
        if use.stays[i] or use.wanted[i]:
            after[k] += graph.sizes[i]
        for r in range(graph.read_start[i], graph.read_start[i + 1]):
            t = graph.read[r]
            inside = t < len(use.stays) and use.stays[t] == 1
            if not inside and not use.wanted[t] & ~(done | 1 << k):
                after[k] -= graph.sizes[t]
        if after[k] <= live:
            return k
    return -1


@compiled
def _ready(i: int, graph: GraphArrays, use: GroupUse, done: int) -> bool:
    """Return whether all members that write inputs of node `i` are in the mask `done`."""
    for r in range(graph.read_start[i], graph.read_start[i + 1]):
        t = graph.read[r]
        if t < len(use.stays) and use.stays[t] >= 0:
            k = np.searchsorted(use.members, t)
            if not done >> k & 1:
                return False
    return True


@compiled
def _push(
    done: int, cap: int, during: Column, after: Column, states: Column, lives: Column, filled: int
) -> int:
    """Push the state after each member that can run; return the new number of states on the stack.

    The new state with the fewest live bytes is on top.
    states, lives: the stack: masks of the executed members, and live bytes, one entry per state.
    filled: number of states on the stack.
    """
    bottom = filled
    for k in range(len(during)):
        if during[k] > cap:
            continue
        at = filled
        while at > bottom and lives[at - 1] < after[k]:
            states[at], lives[at] = states[at - 1], lives[at - 1]
            at -= 1
        states[at], lives[at] = done | 1 << k, after[k]
        filled += 1
    return filled


@compiled
def _slot(done: int, seen: Column) -> int:
    """Return the index of the slot of state `done` in the hash table `seen`.

    If the state is not in the table, the result is the free slot for it.
    seen: a free slot contains 0; any other slot contains m + 1, where m is the mask of a visited
        state.
    """
    mask = len(seen) - 1
    slot = (done * 0x9E3779B1 >> 16) & mask
    while seen[slot] != 0 and seen[slot] != done + 1:
        slot = (slot + 1) & mask
    return slot
