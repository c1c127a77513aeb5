"""AxisTable: the candidate tilings of one axis, and their effect on each operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.pareto import efficient_rows
from penstock.tiling.cuts import Cut, intervals
from penstock.tiling.layer import Axis, Dimension, Layer
from penstock.tiling.scratchpads import Scratchpads

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AxisTable:
    """Candidate tilings of an axis, one per row.

    `shapes` contains extent, growth of the first tile and growth of the last; `counts` the number
    of tiles; `groups` the number of lane groups, summed over tiles. For each operand, `lengths` is
    the sum over tiles of the elements that a tile reads along the axis, and `rooms` the aligned
    maximum. Both are 1 if the axis does not index the operand.
    """

    shapes: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers

    @property
    def rows(self) -> int:
        return len(self.counts)


def axis_table(layer: Layer, scratchpads: Scratchpads, axis: Axis) -> AxisTable:
    """Return the Pareto-optimal tilings of an axis with more than one tile."""
    shapes = _shapes(axis, *layer.growth(axis.name))
    lines = _lines(layer, scratchpads, axis.name)
    forms = np.array([_form(d, alignment) for d, alignment in lines.values()], np.int64)
    measured = _measured(axis.extent, axis.lanes, shapes, forms.reshape(-1, 6))
    shapes, measured = shapes[measured[:, 0] > 1], measured[measured[:, 0] > 1]
    kept = efficient_rows(measured)
    return _table(layer, lines, shapes[kept], measured[kept])


def table_of_cut(layer: Layer, scratchpads: Scratchpads, axis: Axis, cut: Cut) -> AxisTable:
    """Return the table of given tile boundaries; it is empty if there is a single tile."""
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
    """Return extent and growth of every candidate shape, those without growth first."""
    grown = [(a, b) for a in range(first + 1) for b in range(last + 1)]
    shapes = [(extent, a, b) for a, b in grown for extent in axis.extents[:-1]]
    return np.array(shapes, np.int64).reshape(-1, 3)


def _lines(layer: Layer, scratchpads: Scratchpads, axis: str) -> dict[int, tuple[Dimension, int]]:
    """Return the dimension that the axis indexes and its alignment, by index of the operand."""
    return {
        k: (d, scratchpads.of(operand.role).alignment if d is operand.dimensions[-1] else 1)
        for k, operand in enumerate(layer.operands)
        for d in operand.dimensions
        if d.axis == axis
    }


def _form(d: Dimension, alignment: int) -> Sequence[int]:
    """Return factor, offset and offset + extra as integers over their common denominator, followed
    by the denominator, the size and the alignment."""
    numbers = [Fraction(n) for n in (d.factor, d.offset, d.offset + d.extra)]
    denominator = math.lcm(*(n.denominator for n in numbers))
    return (*(int(n * denominator) for n in numbers), denominator, d.size, alignment)


@compiled
def _measured(extent: int, lanes: int, shapes: Numbers, forms: Numbers) -> Numbers:
    """Return, for each shape, the number of tiles and of lane groups, followed by the sum of
    lengths and the aligned maximum length for each form."""
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
