"""Even rows: the rows of a tensor at one address, in a ring buffer, or one after the other.

Rows with different live ranges are placed as separate buffers, at any addresses.  The generated C
finds such rows by a table of their offsets, unless they form a ring buffer:

    address   placed          moved
       8      r0 r1 .. ..     r0 r1 r2 r3       r0 to r3: rows, live one after the other
       4      xx xx .. ..     xx xx .. ..       xx: another buffer
       0      xx .. r2 r3     xx .. .. ..

Where memory is not scarce, `placed_evenly` ties rows together before they are placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.memory.greedy import placement_at
from penstock.memory.problem import Column, Placement, PlacementProblem, columns, live_peak
from penstock.memory.rows import RowOptions, place_rows

Series = tuple[str, ...]
"""The buffers of a tensor's rows, in order; each holds one row, and all have the same size."""
MOST_PAIRS = 1 << 20
"""Pairs of a row and another buffer that are compared at a time: tensors may have many rows."""


def ring_rows(offsets: Column, row_bytes: int) -> int | None:
    """Return the number of rows of the ring buffer in which rows lie; None if they form none.

    A whole tensor is a ring buffer of all its rows.
    offsets: those of the rows, in order.
    """
    repeats = np.flatnonzero(offsets == offsets[0])
    ring = int(repeats[1]) if len(repeats) > 1 else len(offsets)
    expected = offsets[0] + np.arange(len(offsets)) % ring * row_bytes
    return ring if (offsets == expected).all() else None


def with_even_rows(
    problem: PlacementProblem, placement: Placement, every: Sequence[Series]
) -> Placement:
    """Return the placement, its height unchanged or lower, with series moved into ring buffers.

    A series that forms no ring buffer moves to one address or, failing that, becomes a whole
    tensor.  It stays where it is if neither fits between the other buffers.
    """
    found = dict(placement.offsets)
    offsets = np.array([found[buffer.name] for buffer in problem.buffers], np.int64)
    number = {buffer.name: i for i, buffer in enumerate(problem.buffers)}
    rows_of = [np.array([number[name] for name in series]) for series in every]
    sizes = [problem.buffers[rows[0]].size_bytes for rows in rows_of]
    uneven = [
        (rows, size)
        for rows, size in zip(rows_of, sizes, strict=True)
        if ring_rows(offsets[rows], size) is None
    ]
    if not uneven:
        return placement
    table = columns(problem.buffers)
    for rows, size in uneven:
        for pitch in (0, size):
            base = _free_base(rows, pitch, table, offsets, placement.height_bytes)
            if base is not None:
                offsets[rows] = base + pitch * np.arange(len(rows))
                break
    names = (buffer.name for buffer in problem.buffers)
    even = dict(zip(names, offsets.tolist(), strict=True))
    placed = placement_at(problem, even, placement.bound_bytes, placement.method)
    return replace(placed, nodes=placement.nodes)


def placed_evenly(
    problem: PlacementProblem, every: Sequence[Series], ceiling_bytes: int, options: RowOptions
) -> Placement | None:
    """Return a placement up to a ceiling with as many series as possible in rings or whole tensors.

    First, all series are whole tensors, then the least rings.  Then the series that are live at the
    peak are placed row by row.  None if no placement up to the ceiling is found.
    """
    for whole in (True, False):
        tied = every
        while tied:
            even = _with_tied_rows(problem, tied, whole=whole)
            found = place_rows(even, options)
            if found.height_bytes <= ceiling_bytes:
                return found
            peak = frozenset(live_peak(even).names)
            rest = [series for series in tied if peak.isdisjoint(series)]
            tied = rest if not whole and len(rest) < len(tied) else ()
    return None


def _with_tied_rows(
    problem: PlacementProblem, every: Sequence[Series], *, whole: bool
) -> PlacementProblem:
    """Return the problem with the rows of series in whole tensors or the least rings, where their
    alignment allows it."""
    buffers = {buffer.name: buffer for buffer in problem.buffers}
    for series in every:
        first, *others = (buffers[name] for name in series)
        if first.size_bytes % first.alignment:
            continue
        lower, upper = columns((first, *others))[:2]
        sizes = range(len(series) if whole else 1, len(series) + 1)
        ring = next(k for k in sizes if (upper[:-k] <= lower[k:]).all())
        for row, buffer in enumerate(others, 1):
            distance = row % ring * first.size_bytes
            buffers[buffer.name] = replace(buffer, anchor=first.name, distance_bytes=distance)
    return replace(problem, buffers=tuple(buffers.values()))


def _free_base(
    rows: Column,
    pitch: int,
    table: tuple[Column, Column, Column, Column],
    offsets: Column,
    height_bytes: int,
) -> int | None:
    """Return the lowest address at which rows can begin; None if they have no room.

    rows: indices of buffers; all others stay where they are.
    pitch: bytes from one row to the next, which is 0 or the size of a row.
    table: lower and upper ticks, sizes and alignments of all buffers.
    offsets: those of all buffers.
    height_bytes: no row may end above it.
    """
    lower, upper, sizes, alignments = table
    size, alignment = int(sizes[rows[0]]), int(alignments[rows[0]])
    last = height_bytes - size - pitch * (len(rows) - 1)
    if last < 0 or pitch % alignment or (pitch == 0 and _meet(lower[rows], upper[rows])):
        return None
    near = (lower < upper[rows].max()) & (lower[rows].min() < upper)
    near[rows] = False
    others = np.flatnonzero(near)
    taken = np.zeros((2, 0), np.int64)
    at_once = max(1, MOST_PAIRS // max(1, len(others)))
    for begin in range(0, len(rows), at_once):
        some = rows[begin : begin + at_once, None]
        row, other = np.nonzero((lower[others] < upper[some]) & (lower[some] < upper[others]))
        low = offsets[others[other]] - pitch * (begin + row)
        high = low + sizes[others[other]]
        taken = _union(np.concatenate((taken, (low - size + 1, high)), axis=1))
    low, high = taken
    return _least_outside(low, high, alignment, last)


def _union(intervals: Column) -> Column:
    """Return the union of intervals (lower, upper) as disjoint ones in ascending order."""
    lower, upper = intervals[:, np.argsort(intervals[0], kind="stable")]
    reached = np.maximum.accumulate(upper)
    begins = np.append(True, lower[1:] > reached[:-1])[: len(lower)]
    return np.array((lower[begins], reached[np.append(begins[1:], True)[: len(lower)]]))


def _least_outside(lower: Column, upper: Column, alignment: int, last: int) -> int | None:
    """Return the least aligned address in [0, last] that is in none of the intervals, or None."""
    order = np.argsort(lower, kind="stable")
    reached = np.maximum.accumulate(np.concatenate(((0,), upper[order])))
    candidates = -(-reached // alignment) * alignment
    free = np.append(candidates[:-1] < lower[order], True)
    least = int(candidates[free.argmax()])
    return least if least <= last else None


def _meet(lower: Column, upper: Column) -> bool:
    """Return whether some of these live ranges overlap."""
    order = np.argsort(lower)
    return bool((lower[order][1:] < upper[order][:-1]).any())
