"""Row placement: problems of thousands of buffers, some of them tied.

In row-by-row execution each row of a tensor is a buffer.  Live bytes are nearly constant over time
then, and buffers are small, so a good placement order comes close to the live bytes.  Each shape
takes the lowest base that fits.  Several orders are tried, and the best ones improved, until the
lower bound is met or the budget is spent:

    order -> a, b, c, d, e, f        d does not fit under the ceiling:
    order -> a, d, b, c, e, f        d moves half-way to the front, and laying resumes there

The *shelf* contains the placed rows, sorted by address, apart for each *segment* of time: a row is
compared with those of its segments only.  Bases depend on the order only, work is counted in
comparisons of two rows, and ties are broken by the order in the problem, so results are the same on
every machine.

Source of the idea: elements that do not fit are moved forward (Joslin and Clements, "Squeaky wheel"
optimization, 1999).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import lcm
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled, compiled_in_place
from penstock.frozen import frozen
from penstock.memory.greedy import placement_at
from penstock.memory.problem import (
    Column,
    LiveBuffer,
    Placement,
    PlacementProblem,
    peak_live_bytes,
    shapes,
)

Table = npt.NDArray[np.int64]
"""Shape (fields, columns)."""

SMALL = 700
"""Number of buffers up to which a problem has one segment."""
SEGMENT_ROWS = 32
"""Number of rows whose live ranges begin in a segment, unless rows are in too many segments."""
MOST_SEGMENTS = 4
"""Mean number of segments of a row, at most."""
KEPT_SEARCHES = 128
"""Number of results that are kept: a schedule is placed quickly, and again with all rounds if it
remains in the frontier; several schedules have equal buffers."""

# Fields of rows: live range, bytes, distance above the base of their shape, and segments [first,
# end).  Rows of a shape are neighbours.
ROW_LOWER, ROW_UPPER, ROW_SIZE, ROW_DISTANCE, ROW_FIRST, ROW_END = range(6)
# Fields of shapes: their rows [first, last), and the alignment of their base.
SHAPE_FIRST, SHAPE_LAST, SHAPE_ALIGNMENT = range(3)
# Fields of the shelf: live range, bytes [low, high), and the turn in which the row was placed.
LOWER, UPPER, LOW, HIGH, TURN = range(5)


@frozen
class RowOptions:
    """Budget of the improvement of orders.

    rounds: (comparisons for each buffer, over all orders; largest number of buffers that they are
        granted for).
    orders: number of orders that are improved, the best ones first.
    patience: failures under one ceiling before it is raised.
    """

    rounds: tuple[tuple[int, int], ...] = ((16_000, SMALL), (64_000, 4_000))
    orders: int = 12
    patience: int = 100


class RowTables(NamedTuple):
    """A problem's buffers as arrays, shape by shape.

    rows, shapes: int64 tables with one column each; starts: where each segment begins on a shelf.
    """

    rows: Table
    shapes: Table
    starts: Column


class Shelf(NamedTuple):
    """Placed rows: a table with a part for each segment; the number of rows in each segment, and
    the turn of the last one, -1 if there is none."""

    rows: Table
    filled: Column
    latest: Column


class _Bytes(NamedTuple):
    """The bytes of `RowTables`, which compare by value."""

    rows: bytes
    shapes: bytes
    starts: bytes

    @property
    def tables(self) -> RowTables:
        """Copies of the tables; compiled code would be compiled again for read-only ones."""
        rows, shapes, starts = (np.frombuffer(data, np.int64).copy() for data in self)
        return RowTables(rows.reshape(6, -1), shapes.reshape(3, -1), starts)


@frozen
class _Found:
    """A placement that results from an order of shapes."""

    height: int
    bases: Column
    method: str


_Orders = tuple[tuple[str, Column], ...]
"""(method, order of shapes), the one that leads to the lowest placement first."""


def place_rows(problem: PlacementProblem, options: RowOptions | None = None) -> Placement:
    """Return the lowest placement found; supports tied buffers, ignores the capacity."""
    options = options or RowOptions()
    bound = peak_live_bytes(problem)
    if not problem.buffers:
        return Placement((), 0, bound, "rows")
    every = shapes(problem.buffers)
    tables = row_tables(every)
    arrays = _Bytes(*(table.tobytes() for table in tables))
    best, _, spent = _search(arrays, bound, options)
    offsets = ends(tables, best.bases) - tables.rows[ROW_SIZE]
    names = (buffer.name for shape in every for buffer in shape)
    by_name = dict(zip(names, offsets.tolist(), strict=True))
    return replace(placement_at(problem, by_name, bound, best.method), nodes=spent)


@lru_cache(maxsize=KEPT_SEARCHES)
def _search(arrays: _Bytes, bound: int, options: RowOptions) -> tuple[_Found, _Orders, int]:
    """Return the best placement found, the orders to improve, and the number of comparisons."""
    tables = arrays.tables
    if not options.rounds:
        return _by_priorities(tables, bound)
    *earlier, (comparisons, most) = options.rounds
    best, orders, spent = _search(arrays, bound, replace(options, rounds=tuple(earlier)))
    share = comparisons * min(tables.rows.shape[1], most) // max(options.orders, 1)
    known: dict[tuple[bytes, int], tuple[int, Column, int]] = {}
    for method, order in orders[: options.orders]:
        if best.height == bound:
            break
        start = order.tobytes(), best.height
        if start not in known:  # several priorities may lead to one order
            known[start] = improve(tables, order, bound, best.height, share, options.patience)
        height, bases, work = known[start]
        spent += work
        if height < best.height:
            best = _Found(height, bases, f"{method}, improved")
    return best, orders, spent


def _by_priorities(tables: RowTables, bound: int) -> tuple[_Found, _Orders, int]:
    """Return what `_search` does without improvement."""
    tried: list[tuple[_Found, Column]] = []
    spent = 0
    for name, order in _orders(tables):
        bases = np.zeros(len(order), dtype=np.int64)
        _, work = lay(tables, order, 0, UNBOUNDED, empty_shelf(tables), bases)
        spent += work
        found = _Found(int(ends(tables, bases).max()), bases, f"rows by {name}")
        tried.append((found, order))
        if found.height == bound:
            break
    tried.sort(key=lambda each: each[0].height)
    return tried[0][0], tuple((found.method, order) for found, order in tried), spent


def row_tables(found: tuple[tuple[LiveBuffer, ...], ...], segment_rows: int = 0) -> RowTables:
    """Return the tables of the given shapes, of which there is at least one.

    segment_rows: number of rows whose live ranges begin in a segment; 0: as the problem's size
        suggests.
    """
    rows = [(b.lower, b.upper, b.size_bytes, b.distance_bytes) for shape in found for b in shape]
    ends = np.cumsum([len(shape) for shape in found])
    alignments = [lcm(*(buffer.alignment for buffer in shape)) for shape in found]
    table = np.array(rows, dtype=np.int64).T
    step = segment_rows or (SEGMENT_ROWS if len(rows) > SMALL else SMALL)
    segments = _segments(table[ROW_LOWER], table[ROW_UPPER], step)
    change = np.bincount(segments[0], minlength=segments[1].max() + 1)
    change -= np.bincount(segments[1], minlength=len(change))
    return RowTables(
        np.ascontiguousarray(np.concatenate((table, segments))),
        np.array([[0, *ends[:-1]], ends, alignments], dtype=np.int64),
        np.concatenate(([0], change.cumsum().cumsum())),
    )


def _segments(lower: Column, upper: Column, step: int) -> Table:
    """Return the segments [first, end) of each row.

    step: number of rows whose live ranges begin in a segment; doubled while rows are in too many
        segments.
    """
    births = np.sort(lower)
    while True:
        bounds = np.unique(births[step::step])
        first = np.searchsorted(bounds, lower, side="right")
        end = np.searchsorted(bounds, upper, side="left") + 1
        if (end - first).sum() <= MOST_SEGMENTS * len(lower):
            return np.stack((first, end))
        step *= 2


@compiled
def empty_shelf(tables: RowTables) -> Shelf:
    """Return a shelf with room for all rows."""
    rows = np.empty((5, tables.starts[-1]), np.int64)
    return Shelf(
        rows, np.zeros(len(tables.starts) - 1, np.int64), np.full(len(tables.starts) - 1, -1)
    )


def _orders(tables: RowTables) -> Iterator[tuple[str, Column]]:
    """Yield placement orders by several priorities; with ties, also with multi-row shapes first."""
    lower, upper, size = tables.rows[:3]
    first, last, _ = tables.shapes
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
        yield name, np.lexsort(keys[::-1])
        if not single.all():
            yield f"ties and {name}", np.lexsort((*keys[::-1], single))


def _tightness(tables: RowTables, start: Column, end: Column) -> Column:
    """Return, for each shape, the most live bytes at a tick of its live range."""
    lower, upper, size = tables.rows[:3]
    ticks = np.unique(np.concatenate((lower, upper)))
    change = np.zeros(len(ticks), dtype=np.int64)
    np.add.at(change, np.searchsorted(ticks, lower), size)
    np.subtract.at(change, np.searchsorted(ticks, upper), size)
    live = change.cumsum()
    intervals = np.stack((np.searchsorted(ticks, start), np.searchsorted(ticks, end)), axis=1)
    return np.maximum.reduceat(live, intervals.ravel())[::2]


def _weight(tables: RowTables, start: Column, end: Column) -> Column:
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


@compiled_in_place
def lay(
    tables: RowTables, order: Column, turn: int, ceiling: int, shelf: Shelf, bases: Column
) -> tuple[int, int]:
    """Place the shapes order[turn:] on a shelf, and write their `bases`.

    Returns the turn of the first shape that does not fit under the ceiling, or len(order) if all
    do; and the number of comparisons.
    """
    rows, every, starts = tables
    placed, filled, work = shelf.rows, shelf.filled, 0
    while turn < len(order):
        shape = order[turn]
        base, spent = _lowest_base(rows, every, shape, starts, placed, filled)
        work += spent
        first, last = every[SHAPE_FIRST, shape], every[SHAPE_LAST, shape]
        for row in range(first, last):
            if base + rows[ROW_DISTANCE, row] + rows[ROW_SIZE, row] > ceiling:
                return turn, work
        bases[shape] = base
        for row in range(first, last):
            _put(tables, row, base, turn, shelf)
        turn += 1
    return turn, work


@compiled
def improve(
    tables: RowTables, order: Column, bound: int, height: int, allowance: int, patience: int
) -> tuple[int, Column, int]:
    """Lower the height by changing the order.

    bound: proven lower bound; height: the height reached so far.
    allowance: budget in comparisons.
    patience: failures under one ceiling before the ceiling is raised.

    The ceiling is half-way between bound and height; after `patience` failures it moves half-way to
    the height.  Stops at the bound or when the budget is spent.

    Returns the height, the bases (-1 each if the height was not lowered), and the comparisons made.
    """
    order = order.copy()
    bases = np.full(len(order), -1)
    best = bases.copy()
    shelf = empty_shelf(tables)
    turn, work = 0, 0
    ceiling, left = (bound + height) // 2, patience
    while bound < height and work < allowance:
        turn, spent = lay(tables, order, turn, ceiling, shelf, bases)
        work += spent + 1
        left -= 1
        if turn == len(order):
            best = bases.copy()
            height = ends(tables, best).max()
            ceiling, left = (bound + height) // 2, patience
            turn = _first_above(tables, ceiling, order, bases)
        elif left == 0:
            ceiling, left = (ceiling + height) // 2, patience
        if turn == 0 or turn == len(order):
            break  # no other shape can make room, or everything lies under the bound
        sooner = turn // 2
        _take_off(tables, sooner, shelf)
        late = order[turn]
        order[sooner + 1 : turn + 1] = order[sooner:turn].copy()
        order[sooner] = late
        turn = sooner
    return height, best, work


@compiled_in_place
def _lowest_base(
    rows: Table, shapes: Table, shape: int, starts: Column, placed: Table, filled: Column
) -> tuple[int, int]:
    """Return the lowest base of a shape, and the number of comparisons.

    The base is raised until no row of the shape overlaps a segment of the shelf.

    placed, filled: fields of the shelf.
    """
    first, last = shapes[SHAPE_FIRST, shape], shapes[SHAPE_LAST, shape]
    alignment = shapes[SHAPE_ALIGNMENT, shape]
    base, before, work = 0, -1, 1
    while before < base:
        before = base
        for row in range(first, last):
            lower, upper = rows[ROW_LOWER, row], rows[ROW_UPPER, row]
            size, distance = rows[ROW_SIZE, row], rows[ROW_DISTANCE, row]
            low = base + distance
            for segment in range(rows[ROW_FIRST, row], rows[ROW_END, row]):
                start = starts[segment]
                work += filled[segment] + 1
                for i in range(start, start + filled[segment]):
                    if (placed[LOWER, i] < upper) & (placed[UPPER, i] > lower):
                        if placed[LOW, i] - low >= size:  # before alignment, which takes longer
                            low = _aligned(low, distance, alignment)
                            if placed[LOW, i] - low >= size:
                                work += i - start - filled[segment]
                                break
                        low = max(low, placed[HIGH, i])
                low = _aligned(low, distance, alignment)
            base = low - distance
        if last - first == 1 and rows[ROW_END, first] - rows[ROW_FIRST, first] == 1:
            break
    return base, work


@compiled_in_place
def _aligned(low: int, distance: int, alignment: int) -> int:
    """Return the lowest address from `low` on that is `distance` above an aligned base."""
    return distance - (distance - low) // alignment * alignment


@compiled_in_place
def _put(tables: RowTables, row: int, base: int, turn: int, shelf: Shelf) -> None:
    """Insert a row into its segments of the shelf, after rows with the same address."""
    low = base + tables.rows[ROW_DISTANCE, row]
    for segment in range(tables.rows[ROW_FIRST, row], tables.rows[ROW_END, row]):
        start = tables.starts[segment]
        i = start + shelf.filled[segment]
        shelf.filled[segment] += 1
        shelf.latest[segment] = turn
        while i > start and shelf.rows[LOW, i - 1] > low:
            for field in range(5):
                shelf.rows[field, i] = shelf.rows[field, i - 1]
            i -= 1
        shelf.rows[LOWER, i] = tables.rows[ROW_LOWER, row]
        shelf.rows[UPPER, i] = tables.rows[ROW_UPPER, row]
        shelf.rows[LOW, i], shelf.rows[HIGH, i] = low, low + tables.rows[ROW_SIZE, row]
        shelf.rows[TURN, i] = turn


@compiled_in_place
def _take_off(tables: RowTables, turn: int, shelf: Shelf) -> None:
    """Remove the rows that were placed at `turn` or later."""
    rows = shelf.rows
    for segment in range(len(shelf.filled)):
        if shelf.latest[segment] < turn:
            continue
        shelf.latest[segment] = -1
        start = kept = tables.starts[segment]
        for i in range(start, start + shelf.filled[segment]):
            if rows[TURN, i] < turn:
                for field in range(5):
                    rows[field, kept] = rows[field, i]
                kept += 1
                shelf.latest[segment] = max(shelf.latest[segment], rows[TURN, i])
        shelf.filled[segment] = kept - start


@compiled
def ends(tables: RowTables, bases: Column) -> Column:
    """Return the end of each row, given the base of each shape."""
    found = tables.rows[ROW_DISTANCE] + tables.rows[ROW_SIZE]
    for shape in range(len(bases)):
        found[tables.shapes[SHAPE_FIRST, shape] : tables.shapes[SHAPE_LAST, shape]] += bases[shape]
    return found


@compiled
def _first_above(tables: RowTables, ceiling: int, order: Column, bases: Column) -> int:
    """Return the first turn whose shape ends above the ceiling; len(order) if there is none."""
    above = ends(tables, bases) > ceiling
    for turn in range(len(order)):
        shape = order[turn]
        if above[tables.shapes[SHAPE_FIRST, shape] : tables.shapes[SHAPE_LAST, shape]].any():
            return turn
    return len(order)
