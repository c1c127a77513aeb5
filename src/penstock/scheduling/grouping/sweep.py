"""Traffic of all groups that begin at one position of an order; compiled by numba.

The graph is given as arrays (compressed adjacency lists): node i reads the tensors
read[read_start[i]:read_start[i + 1]]; tensor t is read by the nodes
reader[reader_start[t]:reader_start[t + 1]]; kept[t] is 1 for network outputs, else 0; sizes[t] is
in bytes.  Node i writes tensor i; tensors with higher indices are network inputs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled

Column = npt.NDArray[np.int64]


def unbounded_if_none(limit: int | None) -> int:
    """Return `limit`, or `UNBOUNDED` for None: compiled code takes only integers."""
    return UNBOUNDED if limit is None else limit


@compiled
def sweep(
    order: Column,
    position: Column,
    lower: int,
    upper: int,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
    sizes: Column,
    weights: Column,
    weight_cap: int,
    buffer_cap: int,
) -> tuple[Column, Column, Column]:
    """Evaluate each group order[lower:k + 1] for lower <= k < upper.

    order: node indices.
    position[i]: position of node i in the order, or -1 if the order does not contain it.
    Node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].  The nodes
    reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network outputs,
    else 0; sizes[t] is in bytes.
    weights[i]: bytes of the weights of node i.
    weight_cap, buffer_cap: capacities in bytes.  The sweep ends before the first group whose
        weights exceed `weight_cap`, or which has a node whose inputs and output exceed
        `buffer_cap`.

    Returns three arrays with one entry per group: the bytes moved from and to external memory; a
    lower bound, over all orders, of the live bytes at the peak; and the live bytes at the peak in
    this order.
    """
    most = upper - lower
    costs, least = np.zeros(most, np.int64), np.zeros(most, np.int64)
    reached = np.zeros(most, np.int64)
    live = np.zeros(most, np.int64)  # live[k]: live bytes while order[lower + k] runs
    nodes = len(position)
    unread = np.full(
        len(sizes), -1, np.int64
    )  # unread[t]: readers of tensor t outside of the group
    last = np.full(len(sizes), -1, np.int64)  # last[t]: last k that read t from outside, or -1
    weight, coming, going, needed, waiting = 0, 0, 0, 0, 0
    for k in range(most):
        i = order[lower + k]
        weight += weights[i]
        own = sizes[i]
        for r in range(read_start[i], read_start[i + 1]):
            own += sizes[read[r]]
        needed = max(needed, own)
        if weight > weight_cap or needed > buffer_cap:
            return costs[:k], least[:k], reached[:k]
        live[k] = waiting + sizes[i]  # waiting: bytes written in the group with later uses
        for r in range(read_start[i], read_start[i + 1]):
            t = read[r]
            if t < nodes and lower <= position[t] < lower + k:
                unread[t] -= 1
                if unread[t] == 0 and kept[t] == 0:
                    going -= sizes[t]
                    waiting -= sizes[t]
            else:
                if last[t] < 0:
                    coming += sizes[t]
                for j in range(last[t] + 1, k + 1):
                    live[j] += sizes[t]
                last[t] = k
        unread[i] = reader_start[i + 1] - reader_start[i]
        if unread[i] > 0 or kept[i] == 1:
            going += sizes[i]
            waiting += sizes[i]
        costs[k] = coming + going
        least[k] = max(needed, coming, going)
        reached[k] = live[: k + 1].max()
    return costs, least, reached


@compiled
def moved_bytes(
    members: Column,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
    sizes: Column,
) -> int:
    """Return the bytes of the tensors that a group reads from outside, or writes for use outside.

    Each tensor is counted once.
    members: indices of the group's nodes.
    Node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].
    The nodes reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network
    outputs, else 0; sizes[t] is in bytes.
    """
    inside = np.zeros(len(sizes), np.bool_)
    inside[members] = True
    counted = inside.copy()
    moved = 0
    for k in range(len(members)):
        i = members[k]
        for r in range(read_start[i], read_start[i + 1]):
            if not counted[read[r]]:
                counted[read[r]] = True
                moved += sizes[read[r]]
        wanted = bool(kept[i])
        for r in range(reader_start[i], reader_start[i + 1]):
            wanted = wanted or not inside[reader[r]]
        if wanted:
            moved += sizes[i]
    return int(moved)
