"""Laying: one shape after the other, each at the lowest base where it fits; compiled by numba.

    order -> a, b, c, d, e, f        d does not fit under the ceiling:
    order -> a, d, b, c, e, f        it goes half the way to the front, and the rest is laid anew

Shapes and their rows stand in tables of int64, one column each. The *shelf* has a column for each
row that is laid, from low to high. Offsets depend on the order alone, work is counted in
comparisons, nothing is drawn: the same arguments have the same answer everywhere.

Source of the idea: what does not fit is moved forward (Joslin and Clements, "Squeaky wheel"
optimization, 1999).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.memory.problem import Column

Table = npt.NDArray[np.int64]
"""(fields, columns)"""
NONE = np.int64(0)
"""A zero that is no literal, of which numba would make a type, and a function anew for it."""

# Fields of rows: life, bytes, and distance above the base of their shape. Rows of a shape are
# neighbours.
ROW_LOWER, ROW_UPPER, ROW_SIZE, ROW_DISTANCE = range(4)
# Fields of shapes: their rows [first, last), the alignment of their base, and it, or -1 if free.
SHAPE_FIRST, SHAPE_LAST, SHAPE_ALIGNMENT, SHAPE_FIXED = range(4)
# Fields of the shelf: life, bytes [low, high), and the turn in which the row was laid.
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
    """Lays the shapes order[turn:] on a shelf with `filled` rows; writes their `bases`.

    Returns the turn of the shape that does not fit under the ceiling, or len(order) if all do; the
    rows now on the shelf; and comparisons made.
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
    """Lowers the height that is reached, by changing the order, of which `pinned` stay in front.

    The ceiling is put half-way between bound and height, and after every `patience` failures
    half-way to the height. Stops at the bound, or when the comparisons reach the allowance.
    Returns the height, the bases (-1 each if the height could not be lowered), and comparisons.
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
            break  # no one can make room for it, or all is under the bound
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
    """The lowest base of a shape of one row, and comparisons made."""
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
    """The lowest base of a shape of rows, and comparisons made: raised until none is in the way."""
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
                break  # and so are all that follow
            work += 1
            if shelf[HIGH, i] > base and shelf[LOWER, i] < upper and shelf[UPPER, i] > lower:
                base = _raised(base, i, first, last, alignment, rows, shelf)
                work += last - first
    return base, work


@compiled
def _raised(
    base: int, i: int, first: int, last: int, alignment: int, rows: Table, shelf: Table
) -> int:
    """The lowest base from `base` on at which no row of a shape overlaps the shelf's row i.

    Rows that were passed may overlap it again at the base that a later one asks for: the caller
    asks until nothing changes.
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
    return -(-value // alignment) * alignment


@compiled
def _put(row: int, base: int, turn: int, rows: Table, shelf: Table, filled: int) -> None:
    """Puts a row on the shelf, above those that lie as low."""
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
    """Takes all rows off the shelf that were laid at `turn` or later; returns how many stay."""
    kept = 0
    for i in range(filled):
        if shelf[TURN, i] < turn:
            for field in range(5):
                shelf[field, kept] = shelf[field, i]
            kept += 1
    return kept


@compiled
def _first_above(ceiling: int, shelf: Table, filled: int, turn: int) -> int:
    """The earliest turn whose shape reaches above the ceiling; `turn` if none does."""
    for i in range(filled):
        if shelf[HIGH, i] > ceiling and shelf[TURN, i] < turn:
            turn = shelf[TURN, i]
    return turn
