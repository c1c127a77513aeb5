"""Rows: placement of thousands of buffers, some of them tied, in some hundredths of a second.

Where networks run row by row, each row of a tensor is a buffer. Peaks are flat then, and buffers
small beside the height: laying them in a good order comes close to the live bytes. So several
orders are tried, and the best of them improved (`laying`), until the bound is met or the work is
spent. Work is counted in comparisons of two buffers, never in time.
Equals stand in the problem's order, so the same problem always gets the same placement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

import numpy as np

from penstock.memory.greedy import placement_of
from penstock.memory.laying import HIGH, improve, lay
from penstock.memory.problem import Buffer, Column, Placement, Problem, peak_live_bytes, shapes


@dataclass(frozen=True, slots=True)
class RowOptions:
    """How much the improvement of orders may spend."""

    comparisons: int = 8_000  # per buffer of the problem, over all orders
    orders: int = 12  # how many are improved, the best ones first
    patience: int = 100  # failures under one ceiling before it is raised


@dataclass(frozen=True, slots=True)
class Tables:
    """A problem's buffers, shape by shape, in columns (see `laying`)."""

    names: tuple[str, ...]  # of the rows
    rows: Column  # (4, rows)
    shapes: Column  # (4, shapes)

    @property
    def pinned(self) -> int:
        """How many shapes are fixed."""
        return int((self.shapes[3] >= 0).sum())


@dataclass(frozen=True, slots=True)
class _Found:
    """An order of shapes, and the bases that it leads to."""

    height: int
    bases: Column
    method: str
    order: Column


def place_rows(problem: Problem, options: RowOptions | None = None) -> Placement:
    """The lowest placement found; takes tied and fixed buffers. Does not heed the capacity."""
    options = options or RowOptions()
    bound = peak_live_bytes(problem)
    if not problem.buffers:
        return Placement((), 0, bound, "rows")
    tables = tables_of(shapes(problem.buffers))
    best, spent = _search(tables, bound, options)
    rows, columns = tables.rows, tables.shapes
    offsets = np.repeat(best.bases, columns[1] - columns[0]) + rows[3]
    by_name = dict(zip(tables.names, offsets.tolist(), strict=True))
    return replace(placement_of(problem, by_name, bound, best.method), nodes=spent)


def _search(tables: Tables, bound: int, options: RowOptions) -> tuple[_Found, int]:
    """The best that is found, and the comparisons that it took."""

    tried: list[_Found] = []
    spent = 0
    for name, order in _orders(tables):
        found, work = _lay_all(tables, order, f"rows by {name}")
        spent += work
        tried.append(found)
        if found.height == bound:
            return found, spent
    tried.sort(key=lambda found: found.height)
    best = tried[0]
    share = options.comparisons * len(tables.names) // max(options.orders, 1)
    for start in tried[: options.orders]:
        height, bases, work = improve(
            start.order, tables.pinned, tables.rows, tables.shapes,
            bound, best.height, share, options.patience,
        )  # fmt: skip
        spent += work
        if height < best.height:
            best = _Found(height, bases, f"{start.method}, improved", start.order)
        if height == bound:
            break
    return best, spent


def _lay_all(tables: Tables, order: Column, method: str) -> tuple[_Found, int]:
    """What an order leads to without a ceiling, and the comparisons that it took."""

    shelf = np.empty((5, len(tables.names)), dtype=np.int64)
    bases = np.zeros(len(order), dtype=np.int64)
    everywhere = np.iinfo(np.int64).max
    _, _, work = lay(order, 0, tables.rows, tables.shapes, everywhere, shelf, 0, bases)
    return _Found(int(shelf[HIGH].max()), bases, method, order), work


def tables_of(found: tuple[tuple[Buffer, ...], ...]) -> Tables:
    """The columns of at least one shape, in the order given."""
    rows = [(b.lower, b.upper, b.size_bytes, b.distance_bytes) for shape in found for b in shape]
    ends = np.cumsum([len(shape) for shape in found])
    alignments = [lcm(*(buffer.alignment for buffer in shape)) for shape in found]
    fixed = [-1 if s[0].fixed_offset is None else s[0].fixed_offset for s in found]
    return Tables(
        tuple(buffer.name for shape in found for buffer in shape),
        np.ascontiguousarray(np.array(rows, dtype=np.int64).T),
        np.array([[0, *ends[:-1]], ends, alignments, fixed], dtype=np.int64),
    )


def _orders(tables: Tables) -> Iterator[tuple[str, Column]]:
    """Who is laid first, by several priorities; with ties, also shapes of several rows first."""
    lower, upper, size, _ = tables.rows
    first, last, _, fixed = tables.shapes
    start, end = np.minimum.reduceat(lower, first), np.maximum.reduceat(upper, first)
    largest = np.maximum.reduceat(size, first)
    tightness, weight = _tightness(tables, start, end), _weight(tables, start, end)
    priorities = {
        "size": (-largest, start),
        "weight": (-weight, start),
        "tightness and end": (-tightness, -end, -largest),
        "tightness and size": (-tightness, -largest, start),
        "tightness and start": (-tightness, start, -largest),
        "tightness and weight": (-tightness, -weight, start),
    }
    single = last - first == 1
    for name, keys in priorities.items():
        yield name, np.lexsort((*keys[::-1], fixed < 0))
        if not single.all():
            yield f"ties and {name}", np.lexsort((*keys[::-1], single, fixed < 0))


def _tightness(tables: Tables, start: Column, end: Column) -> Column:
    """For each shape the most bytes that are alive at a tick of its life."""
    lower, upper, size, _ = tables.rows
    ticks = np.unique(np.concatenate((lower, upper)))
    change = np.zeros(len(ticks), dtype=np.int64)
    np.add.at(change, np.searchsorted(ticks, lower), size)
    np.subtract.at(change, np.searchsorted(ticks, upper), size)
    live = change.cumsum()
    intervals = np.stack((np.searchsorted(ticks, start), np.searchsorted(ticks, end)), axis=1)
    return np.maximum.reduceat(live, intervals.ravel())[::2]


def _weight(tables: Tables, start: Column, end: Column) -> Column:
    """For each shape its bytes, or of rows that follow each other the most that are ever alive.

    Neighbours in the problem follow each other if they are untied, equal in size, and the life of
    the second begins and ends no sooner, and before the first is dead: as rows of one tensor do.
    """
    size, (first, last) = tables.rows[2], tables.shapes[:2]
    weight = np.add.reduceat(size, first)
    single = last - first == 1
    following = single[1:] & single[:-1] & (weight[1:] == weight[:-1])
    following &= (start[:-1] <= start[1:]) & (end[:-1] <= end[1:]) & (start[1:] <= end[:-1])
    breaks = [0, *(np.flatnonzero(~following) + 1).tolist(), len(start)]
    for a, b in pairwise(breaks):
        dead = np.searchsorted(end[a:b], start[a:b], side="right")
        weight[a:b] *= (np.arange(1, b - a + 1) - dead).max()
    return weight
