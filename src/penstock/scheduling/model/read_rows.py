"""The rows of an input that each call of a node reads."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import Op, Site, row_axis
from penstock.ir.region import Region
from penstock.scheduling.model.rows import Counts

MOST_KNOWN = 2048
"""Size of the cache of `read_rows`.  Nodes with the same operator, attributes and shapes share a
result.  Such nodes occur in repeated layers, in the groups of channels of a layer, and in the
variant of a network whose input is streamed."""


def read_rows(node: Node, k: int, calls: int) -> tuple[Counts, Counts]:
    """Return the intervals [first, end) of rows of input `k` that the calls of a node read.

    calls: number of calls, equal to the number of output rows; 1 if one call computes all rows.

    The result is two read-only arrays (firsts, ends): call i reads rows [firsts[i], ends[i]), and
    computes output row i if there are several calls.  A call that reads nothing has
    firsts[i] = ends[i] = 0.
    """
    op, site = node.op, node.site.bare
    if isinstance(op, Composite):
        return _read_rows(op, site, k, calls)  # hashing the nodes inside would take longer
    return _known_rows(op, site, k, calls)


def _read_rows(op: Op, site: Site, k: int, calls: int) -> tuple[Counts, Counts]:
    shape = site.output.shape
    whole = Region.whole(shape)
    if calls == 1:
        computed = [whole]
    else:
        axis = row_axis(len(shape))
        computed = [whole.replace(axis, (row, row + 1)) for row in range(calls)]
    windows = [op.needs(site, region)[k] for region in computed]
    rows = [(0, 0) if w.empty else row_interval(w, site.inputs[k].shape) for w in windows]
    found = np.array(rows, np.int32).T
    found.setflags(write=False)
    return found[0], found[1]


_known_rows = lru_cache(MOST_KNOWN)(_read_rows)


def row_interval(region: Region, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the smallest interval [first, end) of rows that contains a region of a tensor.

    shape: shape of the tensor.  Rows of a tensor of shape (N, H, W, C) are numbered n * H + h; a
        tensor with fewer than two axes has a single row.
    """
    if len(shape) < 2:
        return 0, 1
    first = last = 0
    for axis in range(row_axis(len(shape)) + 1):
        first = first * shape[axis] + region.lower[axis]
        last = last * shape[axis] + region.upper[axis] - 1
    return first, last + 1
