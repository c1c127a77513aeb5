"""The search for the tiling of least traffic: tables of candidates, then branch and bound.

`least_traffic.py` describes the search space, `branch_and_bound.py` the algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.tiling.axis_table import AxisTable, axis_table, table_of_cut
from penstock.tiling.branch_and_bound import (
    AxisArrays,
    CostArrays,
    Numbers,
    PlanArrays,
    branch_and_bound,
)
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer, LayerOperand
from penstock.tiling.plans import Axes, LoopPlan, LoopPlans, plans
from penstock.tiling.scratchpads import Scratchpads


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best tiling, with bytes and cycles as the search counts them."""

    shape: TileShape
    order: tuple[str, ...]
    depths: tuple[int, ...]
    bytes: int
    cycles: Fraction


def search(
    layer: Layer,
    scratchpads: Scratchpads,
    dims: frozenset[str],
    cuts: Sequence[Cut] | None = None,
) -> SearchResult | None:
    """Return the best tiling that splits only axes of `dims`, or the best one with given tile
    boundaries. Return None if no tiling fits."""
    if cuts is None:
        tables = [axis_table(layer, scratchpads, axis) for axis in layer.axes]
    else:
        pairs = zip(layer.axes, cuts, strict=True)
        tables = [table_of_cut(layer, scratchpads, axis, cut) for axis, cut in pairs]
    cuttable = tuple(k for k, axis in enumerate(layer.axes) if tables[k].rows and axis.name in dims)
    followed = tuple(
        tuple(k for k, axis in enumerate(layer.axes) if operand.follows(axis.name))
        for operand in layer.operands
    )
    every = plans(
        followed, cuttable, scratchpads.spills, axes=len(layer.axes), all_cut=cuts is not None
    )
    return _best(layer, scratchpads, tables, every)


def _best(
    layer: Layer, scratchpads: Scratchpads, tables: Sequence[AxisTable], every: LoopPlans
) -> SearchResult | None:
    if not every.plans:
        return None
    axes, costs = _axes(tables), _costs(layer, scratchpads)
    arrays = _plan_arrays(layer, scratchpads, every, axes.rows)
    best = branch_and_bound(axes, arrays, costs)
    if best is None:
        return None
    plan, rows, moved, parts = best
    return _found(layer, tables, every.plans[plan], rows.tolist(), int(moved), Fraction(
        int(parts), scratchpads.copies.bytes_per_cycle
    ))  # fmt: skip


def _found(
    layer: Layer,
    tables: Sequence[AxisTable],
    plan: LoopPlan,
    rows: Sequence[int],
    moved: int,
    cycles: Fraction,
) -> SearchResult:
    """Return a plan and its rows in terms of axis names; loops with a single tile are outermost."""
    extents = [axis.extent for axis in layer.axes]
    grown = [(0, 0)] * len(extents)
    for axis in plan.order:
        extent, first, last = tables[axis].shapes[rows[axis]].tolist()
        extents[axis], grown[axis] = extent, (first, last)
    whole = [k for k in range(len(extents)) if k not in plan.order]
    order = tuple(layer.axes[k].name for k in (*whole, *plan.order))
    shape = TileShape(tuple(extents), tuple(grown) if any(map(any, grown)) else ())
    depths = tuple(len(whole) + depth for depth in plan.depths)
    return SearchResult(shape, order, depths, moved, cycles)


def _axes(tables: Sequence[AxisTable]) -> AxisArrays:
    rows = np.array([table.rows for table in tables], np.int64)
    width = int(max(1, rows.max()))
    operands = len(tables[0].lengths)
    arrays = (
        np.full((len(tables), width), UNBOUNDED, np.int64),
        np.full((len(tables), width), UNBOUNDED, np.int64),
        np.full((operands, len(tables), width), UNBOUNDED, np.int64),
        np.full((operands, len(tables), width), UNBOUNDED, np.int64),
    )
    for k, table in enumerate(tables):
        for array, column in zip(
            arrays, (table.counts, table.groups, table.lengths, table.rooms), strict=True
        ):
            array[..., k, : table.rows] = column
    return AxisArrays(rows, *arrays, *(array.min(axis=-1) for array in arrays))


def _costs(layer: Layer, scratchpads: Scratchpads) -> CostArrays:
    memories = scratchpads.scratchpads
    copies, operands = scratchpads.copies, layer.operands
    return CostArrays(
        np.array([o.element_bytes for o in operands], np.int64),
        np.array([o.unfinished_bytes for o in operands], np.int64),
        np.array([memories.index(scratchpads.of(o.role)) for o in operands], np.int64),
        np.array([memory.size_bytes for memory in memories], np.int64),
        copies.per_copy * copies.bytes_per_cycle,
        copies.per_run * copies.bytes_per_cycle,
        layer.cycles_per_point * copies.bytes_per_cycle,
        scratchpads.double_buffered,
    )


def _plan_arrays(
    layer: Layer, scratchpads: Scratchpads, every: LoopPlans, rows: Numbers
) -> PlanArrays:
    groups = np.array([-(-axis.extent // axis.lanes) for axis in layer.axes], np.int64)
    reduced = [layer.axes.index(axis) for axis in layer.reduced]
    summing = every.is_cut[:, reduced].any(axis=1).astype(np.int64)
    shape = every.follows.shape
    elements, held, runs = (np.ones(shape[:2], np.int64) for _ in range(3))
    stretches = np.zeros(shape, np.bool_)
    for o, ways in enumerate(every.ways):
        whole = [
            [_whole(layer, scratchpads, o, follows, s) for s in (False, True)] for follows in ways
        ]
        numbers = np.array([[w[:3] for w in some] for some in whole], np.int64)
        found = numbers[every.way[:, o], summing]
        elements[:, o], held[:, o], runs[:, o] = found[:, 0], found[:, 1], found[:, 2]
        run = np.zeros((len(ways), shape[2]), np.bool_)
        for k, some in enumerate(whole):
            run[k, some[0][3]] = True
        stretches[:, o] = run[every.way[:, o]]
    return PlanArrays(
        every.cuts,
        np.argsort(np.where(every.is_cut, -rows, 1), axis=1, kind="stable"),
        np.where(every.is_cut, 1, groups).prod(axis=1),
        elements,
        held,
        runs,
        every.follows,
        every.repeats,
        stretches,
    )


def _whole(
    layer: Layer, scratchpads: Scratchpads, o: int, follows: Axes, summing: bool
) -> tuple[int, int, int, list[int]]:
    """Return elements, bytes held and runs of the dimensions that no split changes, and the split
    axes whose lengths multiply the runs."""
    operand = layer.operands[o]
    cut = {layer.axes[k].name: k for k in follows}
    lengths = [_length(layer, operand, k) for k in range(len(operand.dimensions))]
    fixed = [d.axis not in cut for d in operand.dimensions]
    breaks = [k for k, d in enumerate(operand.dimensions) if not fixed[k] or lengths[k] < d.size]
    last = breaks[-1] if breaks else 0
    alignment = scratchpads.of(operand.role).alignment
    rooms = [*lengths[:-1], *(-(-n // alignment) * alignment for n in lengths[-1:])]
    unfinished = operand is layer.output and summing
    size = operand.unfinished_bytes if unfinished else operand.element_bytes
    copies = 2 if scratchpads.double_buffered and cut else 1
    run_axes = [cut[d.axis] for d in operand.dimensions[:last] if d.axis in cut]
    return (
        math.prod(n for n, is_fixed in zip(lengths, fixed, strict=True) if is_fixed),
        size * copies * math.prod(n for n, is_f in zip(rooms, fixed, strict=True) if is_f),
        math.prod(n for n, is_f in list(zip(lengths, fixed, strict=True))[:last] if is_f),
        run_axes,
    )


def _length(layer: Layer, operand: LayerOperand, k: int) -> int:
    """Return the number of elements along a dimension that the whole layer reads."""
    d = operand.dimensions[k]
    if d.axis is None:
        return d.size
    lower, upper = d.needs((0, layer.axis(d.axis).extent))
    return upper - lower
