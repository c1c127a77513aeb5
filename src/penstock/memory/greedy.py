"""Greedy placement with several priorities; keeps the best result.

Most priorities define an order; each buffer then takes the lowest gap that fits it.
`Priority.STACK` instead repeatedly places the buffer that can lie lowest.  Ties are broken by the
buffers' order in the problem; names have no influence.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.memory.problem import (
    Column,
    LiveBuffer,
    Placement,
    PlacementProblem,
    columns,
    peak_live_bytes,
    refuse_ties,
    round_up,
)


class Priority(Enum):
    """Which buffer is placed first."""

    SIZE = "size"  # the largest
    AREA = "area"  # the largest size x lifetime
    BREADTH = "breadth"  # the most bytes of others live at the same time
    LIFETIME = "lifetime"  # the longest live range
    START = "start"  # the earliest, then the largest
    END = "end"  # the latest end of live range, then the largest
    STACK = "stack"  # the one that can lie lowest, then the largest breadth


def place_greedily(
    problem: PlacementProblem, priorities: tuple[Priority, ...] = tuple(Priority)
) -> Placement:
    """Return the lowest placement of all `priorities`, the first of equals; stops at the lower
    bound.
    """
    refuse_ties(problem, "greedy placement")
    bound_bytes = peak_live_bytes(problem)
    best: Placement | None = None
    for priority in priorities:
        offsets = _place(problem, priority)
        placement = placement_at(problem, offsets, bound_bytes, f"greedy by {priority.value}")
        if best is None or placement.height_bytes < best.height_bytes:
            best = placement
        if best.optimal:
            break
    if best is None:
        raise ValueError("at least one priority is needed")
    return best


def placement_at(
    problem: PlacementProblem, offsets: dict[str, int], bound_bytes: int, method: str
) -> Placement:
    """Return the placement with the given offsets."""
    pairs = tuple((buffer.name, offsets[buffer.name]) for buffer in problem.buffers)
    ends = (offsets[buffer.name] + buffer.size_bytes for buffer in problem.buffers)
    return Placement(pairs, max(ends, default=0), bound_bytes, method)


def place_in_order(buffers: list[LiveBuffer]) -> dict[str, int]:
    """Place buffers in this order, each in the lowest gap that fits it."""
    count = len(buffers)
    # The buffers placed so far, sorted by offset; rows: lower, upper, offset, end.
    placed = np.empty((4, count), dtype=np.int64)
    offsets: dict[str, int] = {}
    for done, buffer in enumerate(buffers):
        lower, upper, starts, ends = placed[:, :done]
        meeting = (lower < buffer.upper) & (upper > buffer.lower)
        offset = _lowest_hole(starts[meeting], ends[meeting], buffer)
        offsets[buffer.name] = offset
        row = int(np.searchsorted(starts, offset))
        placed[:, row + 1 : done + 1] = placed[:, row:done].copy()
        placed[:, row] = (buffer.lower, buffer.upper, offset, offset + buffer.size_bytes)
    return offsets


def _lowest_hole(starts: Column, ends: Column, buffer: LiveBuffer) -> int:
    """Return the lowest aligned offset between obstacles, which are sorted by their starts."""
    floors = np.concatenate(([0], np.maximum.accumulate(ends)))
    floors = -(-floors // buffer.alignment) * buffer.alignment
    fits = floors[:-1] + buffer.size_bytes <= starts
    return int(floors[fits.argmax()] if fits.any() else floors[-1])


def _place(problem: PlacementProblem, priority: Priority) -> dict[str, int]:
    if priority is Priority.STACK:
        return _stack(problem)
    breadth = _breadths(problem) if priority is Priority.BREADTH else {}

    def rank(buffer: LiveBuffer) -> tuple[int, int, int]:
        length = buffer.upper - buffer.lower
        first = {
            Priority.SIZE: -buffer.size_bytes,
            Priority.AREA: -buffer.size_bytes * length,
            Priority.BREADTH: -breadth.get(buffer.name, 0),
            Priority.LIFETIME: -length,
            Priority.START: buffer.lower,
            Priority.END: -buffer.upper,
        }[priority]
        return first, -buffer.size_bytes, buffer.lower

    return place_in_order(sorted(problem.buffers, key=rank))


def _breadths(problem: PlacementProblem) -> dict[str, int]:
    """Return, for each buffer, the bytes of the other buffers that are live at the same time."""
    lower, upper, sizes, _ = columns(problem.buffers)
    return {
        buffer.name: int(sizes[(lower < buffer.upper) & (upper > buffer.lower)].sum())
        for buffer in problem.buffers
    }


def _stack(problem: PlacementProblem) -> dict[str, int]:
    """Repeatedly place the buffer with the lowest floor on top of the buffers below it.

    Fills no gaps below placed buffers.
    """
    breadth = _breadths(problem)
    buffers = sorted(problem.buffers, key=lambda b: (-breadth[b.name], -b.size_bytes, b.lower))
    lower, upper, _, _ = columns(tuple(buffers))
    floors = np.zeros(len(buffers), dtype=np.int64)
    offsets: dict[str, int] = {}
    for _ in buffers:
        lowest = int(floors.argmin())  # the first of equals, so the one of largest breadth
        buffer = buffers[lowest]
        offset = round_up(int(floors[lowest]), buffer.alignment)
        offsets[buffer.name] = offset
        meeting = (lower < buffer.upper) & (upper > buffer.lower) & (floors != UNBOUNDED)
        floors[meeting] = np.maximum(floors[meeting], offset + buffer.size_bytes)
        floors[lowest] = UNBOUNDED  # placed: never the lowest again
    return offsets
