"""Greedy placement: several priorities, the best of them; some thousands of buffers in a second.

Most priorities say who is placed first; each buffer then takes the lowest hole that it fits into.
`Priority.STACK` says nothing of the kind: it lays the buffer whose floor is lowest, like bricks.
Ties are broken by the buffers' order in the problem; names carry no meaning.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from penstock.memory.problem import (
    Buffer,
    Column,
    Placement,
    Problem,
    columns,
    peak_live_bytes,
    refuse_ties,
    round_up,
)


class Priority(Enum):
    """Who is placed first."""

    SIZE = "size"  # the largest
    AREA = "area"  # the largest size x lifetime
    BREADTH = "breadth"  # the one that meets the most bytes of others
    LIFETIME = "lifetime"  # the longest alive
    START = "start"  # the earliest, then the largest
    END = "end"  # the last to die, then the largest
    STACK = "stack"  # the one that can lie lowest, then the most met


def place_greedily(
    problem: Problem, priorities: tuple[Priority, ...] = tuple(Priority)
) -> Placement:
    """The lowest placement by any of `priorities`; the first of equals. Stops at the bound."""
    refuse_ties(problem, "greedy placement")
    bound_bytes = peak_live_bytes(problem)
    best: Placement | None = None
    for priority in priorities:
        offsets = _place(problem, priority)
        placement = placement_of(problem, offsets, bound_bytes, f"greedy by {priority.value}")
        if best is None or placement.height_bytes < best.height_bytes:
            best = placement
        if best.optimal:
            break
    if best is None:
        raise ValueError("at least one priority is needed")
    return best


def placement_of(
    problem: Problem, offsets: dict[str, int], bound_bytes: int, method: str
) -> Placement:
    """A Placement of given offsets, which are put into the problem's order."""
    pairs = tuple((buffer.name, offsets[buffer.name]) for buffer in problem.buffers)
    ends = (offsets[buffer.name] + buffer.size_bytes for buffer in problem.buffers)
    return Placement(pairs, max(ends, default=0), bound_bytes, method)


def place_in_order(buffers: list[Buffer]) -> dict[str, int]:
    """Every buffer, in this order, at its fixed offset or in the lowest hole that it fits into."""
    count = len(buffers)
    # Columns of the buffers placed so far, in order of their offsets: lower, upper, offset, end.
    placed = np.empty((4, count), dtype=np.int64)
    offsets: dict[str, int] = {}
    for done, buffer in enumerate(buffers):
        lower, upper, starts, ends = placed[:, :done]
        meeting = (lower < buffer.upper) & (upper > buffer.lower)
        offset = buffer.fixed_offset
        if offset is None:
            offset = _lowest_hole(starts[meeting], ends[meeting], buffer)
        offsets[buffer.name] = offset
        row = int(np.searchsorted(starts, offset))
        placed[:, row + 1 : done + 1] = placed[:, row:done].copy()
        placed[:, row] = (buffer.lower, buffer.upper, offset, offset + buffer.size_bytes)
    return offsets


def _lowest_hole(starts: Column, ends: Column, buffer: Buffer) -> int:
    """Lowest aligned offset between obstacles, which are given in order of their starts."""
    floors = np.concatenate(([0], np.maximum.accumulate(ends)))
    floors = -(-floors // buffer.alignment) * buffer.alignment
    fits = floors[:-1] + buffer.size_bytes <= starts
    return int(floors[fits.argmax()] if fits.any() else floors[-1])


def _place(problem: Problem, priority: Priority) -> dict[str, int]:
    fixed = any(buffer.fixed_offset is not None for buffer in problem.buffers)
    if priority is Priority.STACK and not fixed:
        return _stack(problem)
    if priority is Priority.STACK:  # what is laid early must not block what lies above it
        priority = Priority.BREADTH
    breadth = _breadths(problem) if priority is Priority.BREADTH else {}

    def rank(buffer: Buffer) -> tuple[bool, int, int, int]:
        length = buffer.upper - buffer.lower
        first = {
            Priority.SIZE: -buffer.size_bytes,
            Priority.AREA: -buffer.size_bytes * length,
            Priority.BREADTH: -breadth.get(buffer.name, 0),
            Priority.LIFETIME: -length,
            Priority.START: buffer.lower,
            Priority.END: -buffer.upper,
        }[priority]
        movable = buffer.fixed_offset is None
        return movable, first, -buffer.size_bytes, buffer.lower

    return place_in_order(sorted(problem.buffers, key=rank))


def _breadths(problem: Problem) -> dict[str, int]:
    """Bytes of the others that each buffer meets in its life."""
    lower, upper, sizes, _ = columns(problem.buffers)
    return {
        buffer.name: int(sizes[(lower < buffer.upper) & (upper > buffer.lower)].sum())
        for buffer in problem.buffers
    }


def _stack(problem: Problem) -> dict[str, int]:
    """Lay the buffer of the lowest floor on what lies under it, until all are laid.

    Fills no holes under what is laid; takes no fixed buffers.
    """
    breadth = _breadths(problem)
    buffers = sorted(problem.buffers, key=lambda b: (-breadth[b.name], -b.size_bytes, b.lower))
    lower, upper, _, _ = columns(tuple(buffers))
    floors = np.zeros(len(buffers), dtype=np.int64)
    laid = np.iinfo(np.int64).max
    offsets: dict[str, int] = {}
    for _ in buffers:
        lowest = int(floors.argmin())  # the first of equals, so the most met
        buffer = buffers[lowest]
        offset = round_up(int(floors[lowest]), buffer.alignment)
        offsets[buffer.name] = offset
        meeting = (lower < buffer.upper) & (upper > buffer.lower) & (floors != laid)
        floors[meeting] = np.maximum(floors[meeting], offset + buffer.size_bytes)
        floors[lowest] = laid
    return offsets
