"""Placement in runs: the rows of a tensor one after the other, as far as memory allows.

An accelerator's operation accesses several rows at once only if they are at a constant distance.
So it matters into how many *runs* of adjacent rows a tensor is divided.  For example, a layer whose
output overwrites its input row by row needs two runs:

    address
      3    i2 i2 i2 .. o0        i0 to i2: rows of the input, live until they are read
      2    i1 i1 .. o2 o2        o0 to o2: rows of the output: one run is o0,
      1    i0 .. o1 o1 o1        the other o1 and o2
      ----------------------> time

Buffers are placed in the order in which they become live.  A row follows the previous one of its
tensor or, if there is no room, begins a run where most of the rows after it fit as well.  Runs
continue at address 0 after the highest address, so a sequence of such layers goes round in circles.
The same is tried with time reversed, for tensors near the end that leave no choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from penstock.compiled import compiled, compiled_in_place
from penstock.memory.even_rows import Series
from penstock.memory.greedy import placement_at
from penstock.memory.problem import (
    Column,
    Placement,
    PlacementProblem,
    peak_live_bytes,
    round_up,
    shapes,
)
from penstock.memory.rows import (
    ROW_DISTANCE,
    ROW_LOWER,
    ROW_SIZE,
    ROW_UPPER,
    SHAPE_ALIGNMENT,
    SHAPE_FIRST,
    SHAPE_LAST,
    RowTables,
    Table,
    ends,
    row_tables,
)

MOST_CEILINGS = 16
"""Number of heights that are tried."""
GROWTH = 64
"""Each height exceeds the previous one by the fraction 1/`GROWTH` of the lower bound."""


def placed_in_runs(
    problem: PlacementProblem, every: Sequence[Series], useful_bytes: float = math.inf
) -> Iterator[Placement]:
    """Yield placements under ascending limits of height, each with fewer runs than the one before.

    every: the rows of tensors, in order; all rows of a series have the same size.
    useful_bytes: no limit follows the first one that is as high; under that one, placements may
        still be lower.
    """
    if not problem.buffers:
        return
    found = shapes(problem.buffers)
    tables, names = row_tables(found), [buffer.name for shape in found for buffer in shape]
    number = {shape[0].name: k for k, shape in enumerate(found)}
    following = np.full(len(found), -1)
    for series in every:
        members = [number[name] for name in series]
        following[members[:-1]] = members[1:]
    alignments = tables.shapes[SHAPE_ALIGNMENT]
    extents = np.maximum.reduceat(ends(tables, 0 * following), tables.shapes[SHAPE_FIRST])
    extents = -(-extents // alignments) * alignments
    reversed_tables, preceding = _with_reversed_time(tables, extents), _inverse(following)
    forward, backward = _order(tables, following), _order(reversed_tables, preceding)
    bound, fewest = peak_live_bytes(problem), len(names) + 1
    ceiling = 0
    for k in range(MOST_CEILINGS):
        if ceiling >= useful_bytes:
            return
        ceiling = round_up(bound + bound * k // GROWTH, int(np.lcm.reduce(alignments)))
        for others_high in (False, True):
            bases, runs = _lay(tables, forward, following, ceiling, others_high, fewest)
            mirrored, other = _lay(reversed_tables, backward, preceding, ceiling, others_high, runs)
            if other < runs:
                bases, runs = ceiling - extents - mirrored, other
            if runs < fewest:
                fewest = runs
                offsets = ends(tables, bases) - tables.rows[ROW_SIZE]
                by_name = dict(zip(names, offsets.tolist(), strict=True))
                yield placement_at(problem, by_name, bound, "runs of rows")


def _with_reversed_time(tables: RowTables, extents: Column) -> RowTables:
    """Return the problem with time and addresses reversed, so that rows still ascend."""
    rows = tables.rows.copy()
    rows[ROW_LOWER], rows[ROW_UPPER] = -tables.rows[ROW_UPPER], -tables.rows[ROW_LOWER]
    counts = tables.shapes[SHAPE_LAST] - tables.shapes[SHAPE_FIRST]
    rows[ROW_DISTANCE] = np.repeat(extents, counts) - rows[ROW_DISTANCE] - rows[ROW_SIZE]
    return tables._replace(rows=rows)


def _inverse(following: Column) -> Column:
    found, rows = np.full(len(following), -1), np.flatnonzero(following >= 0)
    found[following[rows]] = rows
    return found


def _order(tables: RowTables, following: Column) -> Column:
    """Return the shapes in the order in which they become live, rows last and in their order."""
    born = np.minimum.reduceat(tables.rows[ROW_LOWER], tables.shapes[SHAPE_FIRST])
    preceding = _inverse(following)
    in_series = (following >= 0) | (preceding >= 0)
    index = np.zeros(len(born), np.int64)
    for shape in np.flatnonzero(in_series & (preceding < 0)).tolist():
        first, k = shape, 0
        while shape >= 0:
            index[shape], k, shape = first + len(born) * k, k + 1, int(following[shape])
    return np.lexsort((np.arange(len(born)), index, in_series, born))


@compiled
def _lay(
    tables: RowTables,
    order: Column,
    following: Column,
    ceiling: int,
    others_high: bool,
    enough: int,
) -> tuple[Column, int]:
    """Place shapes under a ceiling, in an order in which they become live.

    following: for each shape, the next row of its series; -1 if there is none.
    others_high: whether shapes that are no rows of a series lie as high as possible, else as low.
    enough: a number of runs that is of no use; shapes are not placed if there cannot be fewer.

    Returns the bases, and the number of runs; at least `enough` if a shape does not fit.
    """
    rows, every = tables.rows, tables.shapes
    bases, expected = np.full(len(order), -1), np.full(len(order), -1)
    live = np.empty((5, rows.shape[1]), np.int64)
    count, now = 0, rows[ROW_LOWER].min()
    runs = len(order) - (following >= 0).sum()  # no shape but a following one continues a run
    if runs >= enough:
        return bases, enough
    for shape in order:
        first, last = every[SHAPE_FIRST, shape], every[SHAPE_LAST, shape]
        born = rows[ROW_LOWER, first:last].min()
        if born > now:
            count, now = _forget(live, count, born), born
        is_row = following[shape] >= 0 or expected[shape] >= 0
        base = int(expected[shape])
        if base < 0 or not _fits(tables, shape, base, ceiling, live[:, :count]):
            high = others_high and not is_row
            base = _start(tables, shape, following, ceiling, high, live[:, :count])
            runs += expected[shape] >= 0
        if base < 0 or runs >= enough:
            return bases, enough
        bases[shape] = base
        for row in range(first, last):
            _insert(live, count, rows[:, row], base)
            count += 1
        if following[shape] >= 0:
            expected[following[shape]] = base + rows[ROW_SIZE, first]
    return bases, runs


# Rows of a table of live rows, which are in ascending order of their lowest byte: the live range
# [LIVE_LOWER, LIVE_UPPER), the bytes [LIVE_LOW, LIVE_HIGH), and the highest LIVE_HIGH so far.
LIVE_LOWER, LIVE_UPPER, LIVE_LOW, LIVE_HIGH, LIVE_REACH = range(5)


@compiled_in_place
def _insert(live: Table, count: int, row: Column, base: int) -> None:
    """Add a row, a column of the table of rows, to `count` live rows."""
    low = base + row[ROW_DISTANCE]
    k = count
    while k > 0 and live[LIVE_LOW, k - 1] > low:
        for field in range(LIVE_REACH):
            live[field, k] = live[field, k - 1]
        k -= 1
    live[LIVE_LOWER, k], live[LIVE_UPPER, k] = row[ROW_LOWER], row[ROW_UPPER]
    live[LIVE_LOW, k], live[LIVE_HIGH, k] = low, low + row[ROW_SIZE]
    _update_reach(live[:, : count + 1], k)


@compiled_in_place
def _update_reach(live: Table, first: int) -> None:
    for k in range(first, live.shape[1]):
        before = live[LIVE_REACH, k - 1] if k > 0 else 0
        live[LIVE_REACH, k] = max(before, live[LIVE_HIGH, k])


@compiled_in_place
def _forget(live: Table, count: int, now: int) -> int:
    """Remove the rows that are dead at a tick; return the number of the others."""
    kept = 0
    for k in range(count):
        if live[LIVE_UPPER, k] > now:
            for field in range(LIVE_REACH):
                live[field, kept] = live[field, k]
            kept += 1
    _update_reach(live[:, :kept], 0)
    return kept


@compiled_in_place
def _start(
    tables: RowTables, shape: int, following: Column, ceiling: int, high: bool, live: Table
) -> int:
    """Return the base of a shape from which most of its series fits; -1 if there is no base.

    high: whether the highest one of several is returned, else the lowest.
    """
    rows, alignment = tables.rows, tables.shapes[SHAPE_ALIGNMENT, shape]
    best, longest = -1, 0
    most, row_after = 1, following[shape]
    while row_after >= 0:
        most, row_after = most + 1, following[row_after]
    for row in range(tables.shapes[SHAPE_FIRST, shape], tables.shapes[SHAPE_LAST, shape]):
        size, distance = rows[ROW_SIZE, row], rows[ROW_DISTANCE, row]
        for k in range(-1, live.shape[1]):
            if high:
                end = ceiling if k < 0 else live[LIVE_LOW, k]
                base = (end - size - distance) // alignment * alignment
            else:
                end = 0 if k < 0 else live[LIVE_HIGH, k] - distance
                base = -(-end // alignment) * alignment
            better = base > best if high else base < best
            if base < 0 or (longest == most and not better):
                continue
            length = _length(tables, shape, following, base, ceiling, live)
            if length > longest or (0 < length == longest and better):
                best, longest = base, length
    return best


@compiled_in_place
def _length(
    tables: RowTables, shape: int, following: Column, base: int, ceiling: int, live: Table
) -> int:
    """Return how many rows of a series fit one after the other from a base on, continued once at
    address 0 where the next row would exceed the ceiling; of any other shape, 1 if it fits."""
    start, length, wrapped = base, 0, False
    size = tables.rows[ROW_SIZE, tables.shapes[SHAPE_FIRST, shape]]
    while shape >= 0 and _fits(tables, shape, base, ceiling, live):
        length += 1
        base += size
        shape = following[shape]
        if base + size > ceiling and not wrapped:
            base, wrapped = 0, True
        if wrapped and base + size > start:
            break
    return length


@compiled_in_place
def _fits(tables: RowTables, shape: int, base: int, ceiling: int, live: Table) -> bool:
    """Return whether a shape at a base is aligned, below the ceiling and apart from live rows."""
    rows = tables.rows
    if base % tables.shapes[SHAPE_ALIGNMENT, shape]:
        return False
    for row in range(tables.shapes[SHAPE_FIRST, shape], tables.shapes[SHAPE_LAST, shape]):
        lower, upper = rows[ROW_LOWER, row], rows[ROW_UPPER, row]
        low = base + rows[ROW_DISTANCE, row]
        high = low + rows[ROW_SIZE, row]
        if high > ceiling:
            return False
        for k in range(np.searchsorted(live[LIVE_REACH], low, side="right"), live.shape[1]):
            if live[LIVE_LOW, k] >= high:
                break
            if (
                (live[LIVE_LOWER, k] < upper)
                & (live[LIVE_UPPER, k] > lower)
                & (live[LIVE_HIGH, k] > low)
            ):
                return False
    return True
