"""A grouping problem as arrays, for functions that numba compiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.scheduling.grouping import fitting
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.sweep import Column
from penstock.scheduling.order.step_table import bits

Columns = tuple[Column, Column, Column, Column, Column, Column]
"""A problem as arrays: read_start, read, reader_start, reader, kept, sizes; see `sweep.py`."""


def columns(problem: GroupingProblem) -> Columns:
    """Return a grouping problem as arrays (read_start, read, reader_start, reader, kept, sizes).

    Node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].  The nodes
    reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network outputs,
    else 0; sizes[t] is in bytes.
    """
    kept = [t < len(problem.nodes) and t in problem.outputs for t in range(len(problem.sizes))]
    return (
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


def buffer_fits(inside: Column, graph: Columns, cap: int, order_states: int) -> int:
    """Return whether the tensors of a group fit a buffer in some order of its nodes.

    inside: indices of the group's nodes, ascending.
    cap: bytes of the buffer.
    order_states: maximum number of states of the search for an order.

    The result is FITS, TOO_LARGE or UNDECIDED (`fitting.py`).
    """
    if len(inside) > fitting.MOST_NODES:
        return fitting.least_live_fits(inside, *graph, cap)
    return fitting.fits(inside, *graph, cap, order_states)


def _lists(masks: Sequence[int]) -> tuple[Column, Column]:
    """Return (start, members): the bits set in mask k are members[start[k]:start[k + 1]].

    Example: the masks 0b101 and 0b10 give start = [0, 2, 3] and members = [0, 2, 1].
    """
    members = [list(bits(mask)) for mask in masks]
    start = np.append(0, np.cumsum([len(some) for some in members])).astype(np.int64)
    return start, np.array([i for some in members for i in some], np.int64)
