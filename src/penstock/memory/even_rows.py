"""Even rows: moves the rows of a tensor to one address, or one after the other.

Rows with different live ranges are placed as separate buffers, at any addresses.  The generated C
finds such rows by a table of their offsets, unless they form a ring buffer:

    address   placed          moved
       8      r0 r1 .. ..     r0 r1 r2 r3       r0 to r3: rows, live one after the other
       4      xx xx .. ..     xx xx .. ..       xx: another buffer
       0      xx .. r2 r3     xx .. .. ..
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.memory.greedy import placement_at
from penstock.memory.problem import Column, Placement, PlacementProblem, columns, round_up

Series = tuple[str, ...]
"""The buffers of a tensor's rows, in order; each holds one row, and all have the same size."""


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
    """Return the placement, its height unchanged, with series moved into ring buffers.

    A series that forms no ring buffer moves to one address or, failing that, becomes a whole
    tensor.  It stays where it is if neither fits between the other buffers.
    """
    number = {buffer.name: i for i, buffer in enumerate(problem.buffers)}
    found = dict(placement.offsets)
    offsets = np.array([found[buffer.name] for buffer in problem.buffers], np.int64)
    lower, upper, sizes, alignments = columns(problem.buffers)
    moved = False
    for series in every:
        rows = np.array([number[name] for name in series], np.int64)
        pitch = int(sizes[rows[0]])
        if ring_rows(offsets[rows], pitch) is not None:
            continue
        others = np.delete(np.arange(len(number)), rows)
        room = placement.height_bytes - pitch
        alignment = int(alignments[rows[0]])
        for distances in (np.zeros(len(rows), np.int64), np.arange(len(rows)) * pitch):
            misaligned = (distances % alignment).any()
            if misaligned or distances[-1] > room or _meet(lower[rows], upper[rows], distances):
                continue
            meeting = (lower[rows, None] < upper[others]) & (lower[others] < upper[rows, None])
            ends = offsets[others] + sizes[others]
            base = _lowest_base(distances, pitch, meeting, offsets[others], ends, alignment)
            if base + distances[-1] <= room:
                offsets[rows] = base + distances
                moved = True
                break
    if not moved:
        return placement
    placed = {buffer.name: at for buffer, at in zip(problem.buffers, offsets.tolist(), strict=True)}
    return replace(
        placement_at(problem, placed, placement.bound_bytes, placement.method),
        nodes=placement.nodes,
    )


def _meet(lower: Column, upper: Column, distances: Column) -> bool:
    """Return whether two rows at one address are live at the same tick."""
    if distances.any():
        return False
    order = np.argsort(lower)
    return bool((lower[order][1:] < upper[order][:-1]).any())


def _lowest_base(
    distances: Column,
    size: int,
    meeting: npt.NDArray[np.bool_],
    starts: Column,
    ends: Column,
    alignment: int,
) -> int:
    """Return the lowest aligned base at which no row overlaps a buffer that is live with it.

    distances: those of the rows above the base; size: bytes of a row.
    meeting: whether a row and a buffer are live at the same tick, shape (rows, buffers).
    starts, ends: addresses of the buffers.
    """
    base, raised = -1, 0
    while base < raised:
        base = raised
        low = base + distances[:, None]
        overlaps = meeting & (low < ends) & (starts < low + size)
        raised = int(np.where(overlaps, ends - distances[:, None], base).max(initial=base))
        raised = round_up(raised, alignment)
    return base
