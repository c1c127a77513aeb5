"""AxisTable: the cuts of one axis that are worth considering, and what each does to operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.tiling.cuts import Cut, intervals
from penstock.tiling.layer import Axis, Dimension, Layer
from penstock.tiling.scratchpads import Scratchpads

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AxisTable:
    """Cuts of an axis, one in each row.

    `shapes`: extent, growth of the first tile, growth of the last; `counts`: tiles; `groups`: of
    lanes, summed over tiles; by operand, `lengths`: elements that the tiles read along the axis,
    summed; `rooms`: what the largest takes, aligned; both 1 where it does not follow the axis."""

    shapes: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers

    @property
    def rows(self) -> int:
        return len(self.counts)


def axis_table(layer: Layer, scratchpads: Scratchpads, axis: Axis) -> AxisTable:
    """Every cut of the axis in more than one tile, but those than which another is as good."""
    shapes = _shapes(axis, *layer.growth(axis.name))
    lines = _lines(layer, scratchpads, axis.name)
    forms = np.array([_form(d, alignment) for d, alignment in lines.values()], np.int64)
    measured = _measured(axis.extent, axis.lanes, shapes, forms.reshape(-1, 6))
    shapes, measured = shapes[measured[:, 0] > 1], measured[measured[:, 0] > 1]
    ranked = np.lexsort(measured.T[::-1])
    kept = ranked[_efficient(measured[ranked])]
    return _table(layer, lines, shapes[kept], measured[kept])


def table_of_cut(layer: Layer, scratchpads: Scratchpads, axis: Axis, cut: Cut) -> AxisTable:
    """The one cut, or no row where it is no cut."""
    lines = _lines(layer, scratchpads, axis.name)
    tiles = intervals(cut)
    row = [len(tiles), sum(-(-(upper - lower) // axis.lanes) for lower, upper in tiles)]
    for d, alignment in lines.values():
        lengths = [upper - lower for lower, upper in map(d.needs, tiles)]
        row += [sum(lengths), -(-max(lengths) // alignment) * alignment]
    rows = np.array([row], np.int64)[: len(tiles) - 1]
    return _table(layer, lines, np.zeros((len(rows), 3), np.int64), rows)


def _table(
    layer: Layer, lines: dict[int, tuple[Dimension, int]], shapes: Numbers, measured: Numbers
) -> AxisTable:
    lengths = np.ones((len(layer.operands), len(measured)), np.int64)
    rooms = np.ones_like(lengths)
    for k, operand in enumerate(lines):
        lengths[operand], rooms[operand] = measured[:, 2 + 2 * k], measured[:, 3 + 2 * k]
    return AxisTable(shapes, measured[:, 0], measured[:, 1], lengths, rooms)


def _shapes(axis: Axis, first: int, last: int) -> Numbers:
    """Extent and growth of every shape, those that do not grow first."""
    grown = [(a, b) for a in range(first + 1) for b in range(last + 1)]
    shapes = [(extent, a, b) for a, b in grown for extent in axis.extents[:-1]]
    return np.array(shapes, np.int64).reshape(-1, 3)


def _lines(layer: Layer, scratchpads: Scratchpads, axis: str) -> dict[int, tuple[Dimension, int]]:
    """By operand that follows the axis, the dimension that does, and its alignment."""
    return {
        k: (d, scratchpads.of(operand.role).alignment if d is operand.dimensions[-1] else 1)
        for k, operand in enumerate(layer.operands)
        for d in operand.dimensions
        if d.axis == axis
    }


def _form(d: Dimension, alignment: int) -> Sequence[int]:
    """Factor, offset and offset + extra over their common denominator; that; size; alignment."""
    numbers = [Fraction(n) for n in (d.factor, d.offset, d.offset + d.extra)]
    denominator = math.lcm(*(n.denominator for n in numbers))
    return (*(int(n * denominator) for n in numbers), denominator, d.size, alignment)


@compiled
def _measured(extent: int, lanes: int, shapes: Numbers, forms: Numbers) -> Numbers:
    """By shape: tiles, groups of lanes; by form, sum of lengths and aligned greatest length."""
    found = np.zeros((len(shapes), 2 + 2 * len(forms)), np.int64)
    for s in range(len(shapes)):
        tile, first, last = shapes[s]
        lower = 0
        while lower < extent:
            upper = lower + tile + (first if lower == 0 else 0)
            if extent <= upper + last:
                upper = extent
            found[s, 0] += 1
            found[s, 1] += -(-(upper - lower) // lanes)
            for k in range(len(forms)):
                factor, offset, end, denominator, size, alignment = forms[k]
                begins = min(max((factor * lower + offset) // denominator, 0), size)
                ends = min(-(-(factor * upper + end) // denominator), size)
                length = max(ends - begins, 0)
                found[s, 2 + 2 * k] += length
                room = -(-length // alignment) * alignment
                found[s, 3 + 2 * k] = max(found[s, 3 + 2 * k], room)
            lower = upper
    return found


@compiled
def _efficient(rows: Numbers) -> Numbers:
    """Rows of sorted ones than which none before is as good in every column."""
    kept = np.empty(len(rows), np.int64)
    count = 0
    for r in range(len(rows)):
        beaten = False
        for k in range(count):
            better = rows[kept[k]]
            beaten = True
            for c in range(rows.shape[1]):
                if better[c] > rows[r, c]:
                    beaten = False
                    break
            if beaten:
                break
        if not beaten:
            kept[count] = r
            count += 1
    return kept[:count]
