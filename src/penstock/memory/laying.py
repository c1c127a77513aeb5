"""Laying: placement of shapes in a given order, each at the lowest base that fits; compiled by
numba.

    order -> a, b, c, d, e, f        d does not fit under the ceiling:
    order -> a, d, b, c, e, f        d moves half-way to the front, and laying resumes there

Shapes and their rows are given as int64 tables with one column each.  The *shelf* has one column
for each placed row, sorted by address.  Offsets depend on the order only, work is counted in
comparisons, and nothing is random, so results are the same on every machine.

Source of the idea: elements that do not fit are moved forward (Joslin and Clements, "Squeaky wheel"
optimization, 1999).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.memory.problem import Column

Table = npt.NDArray[np.int64]
"""Shape (fields, columns)."""
NONE = np.int64(0)
"""Zero as a variable: numba would specialise functions for the literal 0."""

# Fields of rows: live range, bytes, and distance above the base of their shape. Rows of a shape are
# neighbours.
ROW_LOWER, ROW_UPPER, ROW_SIZE, ROW_DISTANCE = range(4)
# Fields of shapes: their rows [first, last), the alignment of their base, and it, or -1 if free.
SHAPE_FIRST, SHAPE_LAST, SHAPE_ALIGNMENT, SHAPE_FIXED = range(4)
# Fields of the shelf: live range, bytes [low, high), and the turn in which the row was placed.
LOWER, UPPER, LOW, HIGH, TURN = range(5)


@compiled
def lay(
    order: Column,
    turn: int,
    rows: Table,
    shapes: Table,
    ceiling: int,
    shelf: Table,
    filled: int,
    bases: Column,
) -> tuple[int, int, int]:
    """Place the shapes order[turn:] on a shelf with `filled` rows, and write their `bases`.

    Returns the turn of the first shape that does not fit under the ceiling, or len(order) if all
    do; the number of rows on the shelf; and the number of comparisons.
    """
    work = 0
    while turn < len(order):
        shape = order[turn]
        first, last = shapes[SHAPE_FIRST, shape], shapes[SHAPE_LAST, shape]
        if shapes[SHAPE_FIXED, shape] >= 0:
            base, spent = shapes[SHAPE_FIXED, shape], 1
        elif last - first == 1:
            base, spent = _base_of_one(first, shapes[SHAPE_ALIGNMENT, shape], rows, shelf, filled)
        else:
            base, spent = _base_of_many(
                first, last, shapes[SHAPE_ALIGNMENT, shape], rows, shelf, filled
            )
        work += spent
        for row in range(first, last):
            if base + rows[ROW_DISTANCE, row] + rows[ROW_SIZE, row] > ceiling:
                return turn, filled, work
        bases[shape] = base
        for row in range(first, last):
            _put(row, base, turn, rows, shelf, filled)
            filled += 1
        turn += 1
    return turn, filled, work


@compiled
def improve(
    order: Column,
    pinned: int,
    rows: Table,
    shapes: Table,
    bound: int,
    height: int,
    allowance: int,
    patience: int,
) -> tuple[int, Column, int]:
    """Lower the height by changing the order; the first `pinned` shapes keep their turns.

    bound: proven lower bound; height: the height reached so far.
    allowance: budget in comparisons.
    patience: failures under one ceiling before the ceiling is raised.

    The ceiling is half-way between bound and height; after `patience` failures it moves half-way to
    the height.  Stops at the bound or when the budget is spent.

    Returns the height, the bases (-1 each if the height was not lowered), and the comparisons made.
    """
    order = order.copy()
    bases = np.full(shapes.shape[1], -1)
    best = bases.copy()
    shelf = np.empty((5, rows.shape[1]), dtype=np.int64)
    turn, filled, work = int(NONE), int(NONE), 0
    ceiling, left = (bound + height) // 2, patience
    while bound < height and work < allowance:
        turn, filled, spent = lay(order, turn, rows, shapes, ceiling, shelf, filled, bases)
        work += spent + 1
        left -= 1
        if turn == len(order):
            height = shelf[HIGH, :filled].max()
            best = bases.copy()
            ceiling, left = (bound + height) // 2, patience
            turn = _first_above(ceiling, shelf, filled, turn)
        elif left == 0:
            ceiling, left = (ceiling + height) // 2, patience
        if turn <= pinned or turn == len(order):
            break  # no other shape can make room, or everything lies under the bound
        sooner = pinned + (turn - pinned) // 2
        late = order[turn]
        for place in range(turn, sooner, -1):
            order[place] = order[place - 1]
        order[sooner] = late
        turn, filled = sooner, _take_off(sooner, shelf, filled)
    return height, best, work


@compiled
def _base_of_one(
    row: int, alignment: int, rows: Table, shelf: Table, filled: int
) -> tuple[int, int]:
    """Return the lowest base of a shape of one row, and the number of comparisons."""
    lower, upper, size = rows[ROW_LOWER, row], rows[ROW_UPPER, row], rows[ROW_SIZE, row]
    lowers, uppers, lows, highs = shelf[LOWER], shelf[UPPER], shelf[LOW], shelf[HIGH]
    base = 0
    for i in range(filled):
        if (lowers[i] < upper) & (uppers[i] > lower):
            if lows[i] - base >= size:
                return base, i + 1
            if highs[i] > base:
                base = _aligned(highs[i], alignment)
    return base, filled + 1


@compiled
def _base_of_many(
    first: int, last: int, alignment: int, rows: Table, shelf: Table, filled: int
) -> tuple[int, int]:
    """Return the lowest base of a shape of several rows, and the number of comparisons.

    The base is raised until no row of the shape overlaps the shelf.
    """
    lower, upper, height = rows[ROW_LOWER, first], rows[ROW_UPPER, first], 0
    for row in range(first, last):
        lower, upper = min(lower, rows[ROW_LOWER, row]), max(upper, rows[ROW_UPPER, row])
        height = max(height, rows[ROW_DISTANCE, row] + rows[ROW_SIZE, row])
    base, work = int(NONE), 1
    before = -1
    while before < base:
        before = base
        for i in range(filled):
            if shelf[LOW, i] >= base + height:
                break  # as do all later rows
            work += 1
            if shelf[HIGH, i] > base and shelf[LOWER, i] < upper and shelf[UPPER, i] > lower:
                base = _raised(base, i, first, last, alignment, rows, shelf)
                work += last - first
    return base, work


@compiled
def _raised(
    base: int, i: int, first: int, last: int, alignment: int, rows: Table, shelf: Table
) -> int:
    """Return the lowest base from `base` on at which no row of a shape overlaps the shelf's row i.

    Raising the base may create overlaps with rows already passed; the caller repeats until the base
    is stable.
    """
    for row in range(first, last):
        low = base + rows[ROW_DISTANCE, row]
        if (
            shelf[LOW, i] < low + rows[ROW_SIZE, row]
            and low < shelf[HIGH, i]
            and shelf[LOWER, i] < rows[ROW_UPPER, row]
            and rows[ROW_LOWER, row] < shelf[UPPER, i]
        ):
            base = _aligned(shelf[HIGH, i] - rows[ROW_DISTANCE, row], alignment)
    return base


@compiled
def _aligned(value: int, alignment: int) -> int:
    """Return `value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


@compiled
def _put(row: int, base: int, turn: int, rows: Table, shelf: Table, filled: int) -> None:
    """Insert a row into the shelf, after rows with the same address."""
    low = base + rows[ROW_DISTANCE, row]
    i = filled
    while i > 0 and shelf[LOW, i - 1] > low:
        for field in range(5):
            shelf[field, i] = shelf[field, i - 1]
        i -= 1
    shelf[LOWER, i], shelf[UPPER, i] = rows[ROW_LOWER, row], rows[ROW_UPPER, row]
    shelf[LOW, i], shelf[HIGH, i] = low, low + rows[ROW_SIZE, row]
    shelf[TURN, i] = turn


@compiled
def _take_off(turn: int, shelf: Table, filled: int) -> int:
    """Remove the rows that were placed at `turn` or later; return the number of remaining rows."""
    kept = 0
    for i in range(filled):
        if shelf[TURN, i] < turn:
            for field in range(5):
                shelf[field, kept] = shelf[field, i]
            kept += 1
    return kept


@compiled
def _first_above(ceiling: int, shelf: Table, filled: int, turn: int) -> int:
    """Return the earliest turn whose shape reaches above the ceiling; `turn` if there is none."""
    for i in range(filled):
        if shelf[HIGH, i] > ceiling and shelf[TURN, i] < turn:
            turn = shelf[TURN, i]
    return turn
