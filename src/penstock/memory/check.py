"""Check: an independent, quadratic verification of placements.  Shares no code with the placers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum

import numpy as np

from penstock.frozen import frozen
from penstock.memory.problem import LiveBuffer, Placement, PlacementProblem

AT_A_TIME = 64
"""Number of buffers that are compared with all others in one vectorised step."""


class Reason(Enum):
    """Kinds of placement faults."""

    MISSING = "missing"  # a buffer without exactly one offset
    UNKNOWN = "unknown"  # an offset of no buffer
    NEGATIVE = "negative"
    MISALIGNED = "misaligned"
    UNTIED = "untied"  # not at the required distance from its anchor
    OVERLAP = "overlap"
    OVER_CAPACITY = "over capacity"
    WRONG_HEIGHT = "wrong height"  # the stated height is not the highest end


@frozen
class Fault:
    """A fault of a placement, and the buffers concerned."""

    reason: Reason
    names: tuple[str, ...]


def check(problem: PlacementProblem, placement: Placement) -> tuple[Fault, ...]:
    """Return all faults of a placement; none if it is valid."""
    named = Counter(name for name, _ in placement.offsets)
    offsets = dict(placement.offsets)
    known = {buffer.name for buffer in problem.buffers}
    faults = [Fault(Reason.MISSING, (n,)) for n in sorted(known) if named[n] != 1]
    faults += [Fault(Reason.UNKNOWN, (n,)) for n in named if n not in known]
    placed = [(b, offsets[b.name]) for b in problem.buffers if b.name in offsets]
    capacity = problem.capacity_bytes
    for b, offset in placed:
        found = (
            (Reason.NEGATIVE, offset < 0),
            (Reason.MISALIGNED, offset % b.alignment != 0),
            (Reason.UNTIED, offset - offsets.get(b.anchor or b.name, offset) != b.distance_bytes),
            (Reason.OVER_CAPACITY, capacity is not None and offset + b.size_bytes > capacity),
        )
        faults += [Fault(reason, (b.name,)) for reason, wrong in found if wrong]
    faults += [Fault(Reason.OVERLAP, names) for names in _overlaps(placed)]
    if placement.height_bytes != max((at + b.size_bytes for b, at in placed), default=0):
        faults.append(Fault(Reason.WRONG_HEIGHT, ()))
    return tuple(faults)


def _overlaps(placed: list[tuple[LiveBuffer, int]]) -> Iterator[tuple[str, str]]:
    """Yield every pair of buffers that share a tick and a byte."""
    placed = sorted(placed, key=lambda pair: pair[0].lower)
    rows = [(b.lower, b.upper, at, at + b.size_bytes) for b, at in placed]
    lower, upper, low, high = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    for first in range(0, len(placed), AT_A_TIME):
        these = slice(first, first + AT_A_TIME)
        later = slice(first, np.searchsorted(lower, upper[these].max()))
        met = (
            (lower[later] < upper[these, None])
            & (low[later] < high[these, None])
            & (low[these, None] < high[later])
        )
        for i, j in np.argwhere(np.triu(met, 1)).tolist():
            yield placed[first + i][0].name, placed[first + j][0].name
