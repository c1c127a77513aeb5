"""Row placement: problems of thousands of buffers, some of them tied.

In row-by-row execution each row of a tensor is a buffer.  Live bytes are nearly constant over time
then, and buffers are small, so a good placement order comes close to the live bytes.  Several
orders are tried, and the best ones improved (`laying`), until the lower bound is met or the budget
is spent.  Work is counted in comparisons of two buffers, never in time.  Ties are broken by the
order in the problem, so equal problems get equal placements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.memory.greedy import placement_at
from penstock.memory.laying import HIGH, improve, lay
from penstock.memory.problem import (
    Column,
    LiveBuffer,
    Placement,
    PlacementProblem,
    peak_live_bytes,
    shapes,
)


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Budget of the improvement of orders.

    comparisons: per buffer of the problem, over all orders.
    orders: number of orders that are improved, the best ones first.
    patience: failures under one ceiling before it is raised.
    """

    comparisons: int = 8_000
    orders: int = 12
    patience: int = 100


@dataclass(frozen=True, slots=True)
class ShapeTables:
    """A problem's buffers as arrays, shape by shape (see `laying`).

    names: names of the rows; rows: shape (4, rows); shapes: shape (4, shapes).
    """

    names: tuple[str, ...]
    rows: Column
    shapes: Column

    @property
    def pinned(self) -> int:
        """Number of fixed shapes."""
        return int((self.shapes[3] >= 0).sum())


@dataclass(frozen=True, slots=True)
class _Found:
    """An order of shapes, and the placement that results from it."""

    height: int
    bases: Column
    method: str
    order: Column


def place_rows(problem: PlacementProblem, options: RowOptions | None = None) -> Placement:
    """Return the lowest placement found; supports tied and fixed buffers, ignores the capacity."""
    options = options or RowOptions()
    bound = peak_live_bytes(problem)
    if not problem.buffers:
        return Placement((), 0, bound, "rows")
    tables = shape_tables(shapes(problem.buffers))
    best, spent = _search(tables, bound, options)
    rows, columns = tables.rows, tables.shapes
    offsets = np.repeat(best.bases, columns[1] - columns[0]) + rows[3]
    by_name = dict(zip(tables.names, offsets.tolist(), strict=True))
    return replace(placement_at(problem, by_name, bound, best.method), nodes=spent)


def _search(tables: ShapeTables, bound: int, options: RowOptions) -> tuple[_Found, int]:
    """Return the best placement found, and the number of comparisons."""

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


def _lay_all(tables: ShapeTables, order: Column, method: str) -> tuple[_Found, int]:
    """Return the placement by an order without a ceiling, and the number of comparisons."""

    shelf = np.empty((5, len(tables.names)), dtype=np.int64)
    bases = np.zeros(len(order), dtype=np.int64)
    _, _, work = lay(order, 0, tables.rows, tables.shapes, UNBOUNDED, shelf, 0, bases)
    return _Found(int(shelf[HIGH].max()), bases, method, order), work


def shape_tables(found: tuple[tuple[LiveBuffer, ...], ...]) -> ShapeTables:
    """Return the tables of the given shapes, of which there is at least one."""
    rows = [(b.lower, b.upper, b.size_bytes, b.distance_bytes) for shape in found for b in shape]
    ends = np.cumsum([len(shape) for shape in found])
    alignments = [lcm(*(buffer.alignment for buffer in shape)) for shape in found]
    fixed = [-1 if s[0].fixed_offset is None else s[0].fixed_offset for s in found]
    return ShapeTables(
        tuple(buffer.name for shape in found for buffer in shape),
        np.ascontiguousarray(np.array(rows, dtype=np.int64).T),
        np.array([[0, *ends[:-1]], ends, alignments, fixed], dtype=np.int64),
    )


def _orders(tables: ShapeTables) -> Iterator[tuple[str, Column]]:
    """Yield placement orders by several priorities; with ties, also with multi-row shapes first."""
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


def _tightness(tables: ShapeTables, start: Column, end: Column) -> Column:
    """Return, for each shape, the most live bytes at a tick of its live range."""
    lower, upper, size, _ = tables.rows
    ticks = np.unique(np.concatenate((lower, upper)))
    change = np.zeros(len(ticks), dtype=np.int64)
    np.add.at(change, np.searchsorted(ticks, lower), size)
    np.subtract.at(change, np.searchsorted(ticks, upper), size)
    live = change.cumsum()
    intervals = np.stack((np.searchsorted(ticks, start), np.searchsorted(ticks, end)), axis=1)
    return np.maximum.reduceat(live, intervals.ravel())[::2]


def _weight(tables: ShapeTables, start: Column, end: Column) -> Column:
    """Return, for each shape, its bytes; for a chain of rows, the most bytes of the chain that are
    live.

    Neighbours in the problem form a chain, as the rows of a tensor do, if they are untied and of
    equal size, the second one's live range begins and ends no earlier, and the two ranges touch or
    overlap.
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
