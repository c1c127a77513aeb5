"""Sets of byte addresses, represented by half-open ranges.

A set is an int64 array of shape (n, 2) with the lower and upper bound of each range. Ranges are
sorted, disjoint and not adjacent. For example, bytes 0 to 3 and byte 8 are [[0, 4], [8, 9]].
"""

from __future__ import annotations

from typing import Any

import numpy as np

Ranges = Any
"""An int64 array of shape (n, 2): lower and upper bound of each range."""
NONE: Ranges = np.zeros((0, 2), np.int64)
"""The empty set."""


def span(lower: int, upper: int) -> Ranges:
    """Return the set of bytes [lower, upper)."""
    return np.array([[lower, upper]], np.int64) if upper > lower else NONE


def runs(starts: Any, sizes: Any) -> Ranges:
    """Return the set of all bytes in the ranges [start, start + size), for corresponding elements
    of `starts` and `sizes`. These arrays are broadcast against each other.

    >>> runs(np.array([8, 0, 4]), 4).tolist()
    [[0, 12]]
    """
    lowers, uppers = (x.ravel() for x in np.broadcast_arrays(starts, starts + sizes))
    order = np.argsort(lowers, kind="stable")
    lowers, uppers = lowers[order], np.maximum.accumulate(uppers[order])
    if not len(lowers):
        return NONE
    first = np.flatnonzero(np.r_[True, lowers[1:] > uppers[:-1]])
    last = np.r_[first[1:] - 1, len(lowers) - 1]
    return np.stack([lowers[first], uppers[last]], axis=1)


def union(*sets: Ranges) -> Ranges:
    """Return the union of sets of bytes."""
    joined = np.concatenate([NONE, *sets])
    return runs(joined[:, 0], joined[:, 1] - joined[:, 0])


def first_overlap(one: Ranges, other: Ranges) -> tuple[int, int] | None:
    """Return the first range [lower, upper) of bytes that are in both sets, or None if the sets are
    disjoint.

    >>> first_overlap(span(0, 8), span(6, 20))
    (6, 8)
    """
    if not len(one) or not len(other):
        return None
    first = np.searchsorted(other[:, 1], one[:, 0], side="right")
    inside = np.minimum(first, len(other) - 1)
    hits = np.flatnonzero((first < len(other)) & (other[inside, 0] < one[:, 1]))
    if not len(hits):
        return None
    lower, upper = one[hits[0]]
    other_lower, other_upper = other[inside[hits[0]]]
    return int(max(lower, other_lower)), int(min(upper, other_upper))


def size_bytes(ranges: Ranges) -> int:
    """Return the number of bytes in a set of ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())
