"""Sweep: bytes moved by the groups that begin at a position of an order, each a node longer than
the one before; compiled by numba.

The graph stands in columns: node i reads the tensors read[read_start[i]:read_start[i + 1]], tensor
t is read by reader[reader_start[t]:reader_start[t + 1]]; `kept[t]` is 1 for outputs of the network.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled

Column = npt.NDArray[np.int64]


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
    """Of each group order[lower:k + 1], lower <= k < upper: bytes moved; bytes that are live at a
    time in every order of its nodes; and the most live at a time in this order.

    `position[i]`: where node i stands in the order.  Ends before the first group that exceeds a cap
    whatever its order, and with it all larger ones.
    """
    most = upper - lower
    costs, least = np.zeros(most, np.int64), np.zeros(most, np.int64)
    reached = np.zeros(most, np.int64)
    live = np.zeros(most, np.int64)  # while order[lower + k] runs
    nodes = len(position)
    left = np.full(len(sizes), -1, np.int64)  # readers of a tensor outside of the group
    last = np.full(len(sizes), -1, np.int64)  # who read a tensor from outside last, from `lower` on
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
        live[k] = waiting + sizes[i]  # `waiting`: written in the group, and wanted by someone
        for r in range(read_start[i], read_start[i + 1]):
            t = read[r]
            if t < nodes and lower <= position[t] < lower + k:
                left[t] -= 1
                if left[t] == 0 and kept[t] == 0:
                    going -= sizes[t]
                    waiting -= sizes[t]
            else:
                if last[t] < 0:
                    coming += sizes[t]
                for j in range(last[t] + 1, k + 1):
                    live[j] += sizes[t]
                last[t] = k
        left[i] = reader_start[i + 1] - reader_start[i]
        if left[i] > 0 or kept[i] == 1:
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
    """Bytes that a group reads from outside, each tensor once, and writes that are wanted there."""
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
