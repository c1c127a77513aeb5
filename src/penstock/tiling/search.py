"""search: branch and bound over the cuts of every axis, for every plan; see `least_traffic.py`.

What a plan moves is, for each operand, a product over axes of what a table says of their cuts:

    elements   of the axes that its tile follows, `lengths`; of others, all that it reads
    repeats    of the axes that repeat it, `counts`
    room       `rooms`, likewise
    runs       `lengths` of dimensions before the last one that is not whole, `counts` of others

so a bound is the product of what is chosen and of the least that may follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from penstock.compiled import compiled
from penstock.tiling.axis_table import AxisTable, Numbers, axis_table, table_of_cut
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer, Operand
from penstock.tiling.plans import Axes, Flags, Plan, PlanSet, plans
from penstock.tiling.scratchpads import Scratchpads

MOST = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class Found:
    """The best tiling as the search counts it."""

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
) -> Found | None:
    """The best tiling that cuts some of `dims`, or with given cuts; None where nothing fits."""
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


class _Axes(NamedTuple):
    """AxisTables as arrays: by axis and row; by operand, axis and row; and the least over rows."""

    rows: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers
    least_counts: Numbers
    least_groups: Numbers
    least_lengths: Numbers
    least_rooms: Numbers


class _Plans(NamedTuple):
    """Plans as arrays: by plan; by plan and operand; by plan, operand and axis.

    `cut`: the cut axes, as many as `cuts`, those of most rows first, since bounds are the better
    the less is left to choose; `groups`, `elements`, `bytes_held`, `runs`: product of what no cut
    changes; `follows`, `repeats`; `stretches`: whether runs multiply by lengths."""

    cuts: Numbers
    cut: Numbers
    groups: Numbers
    elements: Numbers
    bytes_held: Numbers
    runs: Numbers
    follows: Flags
    repeats: Flags
    stretches: Flags


class _Costs(NamedTuple):
    """By operand: bytes of an element, of an incomplete one, its scratchpad; by scratchpad, bytes.

    Cycles are counted in parts of a cycle, as many as bytes are copied in one."""

    element_bytes: Numbers
    partial_bytes: Numbers
    scratchpad: Numbers
    sizes: Numbers
    per_copy: int
    per_run: int
    per_group: int
    overlapped: bool


def _best(
    layer: Layer, scratchpads: Scratchpads, tables: Sequence[AxisTable], every: PlanSet
) -> Found | None:
    if not every.plans:
        return None
    axes, costs = _axes(tables), _costs(layer, scratchpads)
    arrays = _plan_arrays(layer, scratchpads, every, axes.rows)
    plan, rows, moved, parts = _branch_and_bound(axes, arrays, costs)
    if plan < 0:
        return None
    return _found(layer, tables, every.plans[plan], rows.tolist(), int(moved), Fraction(
        int(parts), scratchpads.copies.bytes_per_cycle
    ))  # fmt: skip


def _found(
    layer: Layer,
    tables: Sequence[AxisTable],
    plan: Plan,
    rows: Sequence[int],
    moved: int,
    cycles: Fraction,
) -> Found:
    """The plan and its cuts by name; loops of one tile stand outside."""
    extents = [axis.extent for axis in layer.axes]
    grown = [(0, 0)] * len(extents)
    for axis in plan.order:
        extent, first, last = tables[axis].shapes[rows[axis]].tolist()
        extents[axis], grown[axis] = extent, (first, last)
    whole = [k for k in range(len(extents)) if k not in plan.order]
    order = tuple(layer.axes[k].name for k in (*whole, *plan.order))
    shape = TileShape(tuple(extents), tuple(grown) if any(map(any, grown)) else ())
    depths = tuple(len(whole) + depth for depth in plan.depths)
    return Found(shape, order, depths, moved, cycles)


def _axes(tables: Sequence[AxisTable]) -> _Axes:
    rows = np.array([table.rows for table in tables], np.int64)
    width = int(max(1, rows.max()))
    operands = len(tables[0].lengths)
    arrays = (
        np.full((len(tables), width), MOST, np.int64),
        np.full((len(tables), width), MOST, np.int64),
        np.full((operands, len(tables), width), MOST, np.int64),
        np.full((operands, len(tables), width), MOST, np.int64),
    )
    for k, table in enumerate(tables):
        for array, column in zip(
            arrays, (table.counts, table.groups, table.lengths, table.rooms), strict=True
        ):
            array[..., k, : table.rows] = column
    return _Axes(rows, *arrays, *(array.min(axis=-1) for array in arrays))


def _costs(layer: Layer, scratchpads: Scratchpads) -> _Costs:
    memories = scratchpads.scratchpads
    copies, operands = scratchpads.copies, layer.operands
    return _Costs(
        np.array([o.element_bytes for o in operands], np.int64),
        np.array([o.unfinished_bytes for o in operands], np.int64),
        np.array([memories.index(scratchpads.of(o.role)) for o in operands], np.int64),
        np.array([memory.size_bytes for memory in memories], np.int64),
        copies.per_copy * copies.bytes_per_cycle,
        copies.per_run * copies.bytes_per_cycle,
        layer.cycles_per_point * copies.bytes_per_cycle,
        scratchpads.double_buffered,
    )


def _plan_arrays(layer: Layer, scratchpads: Scratchpads, every: PlanSet, rows: Numbers) -> _Plans:
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
    return _Plans(
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
    """Of the dimensions that no cut changes: elements, bytes held, runs; and the axes of those
    others whose lengths multiply the runs."""
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


def _length(layer: Layer, operand: Operand, k: int) -> int:
    """Elements along a dimension that the whole layer reads."""
    d = operand.dimensions[k]
    if d.axis is None:
        return d.size
    lower, upper = d.needs((0, layer.axis(d.axis).extent))
    return upper - lower


class _Path(NamedTuple):
    """Products of factors, by level: of groups; by operand, of what a plan moves."""

    groups: Numbers
    elements: Numbers
    repeats: Numbers
    held: Numbers
    tiles: Numbers
    runs: Numbers


def _ones(levels: int, operands: int) -> _Path:
    """Room for so many levels."""
    return _Path(
        np.ones(levels, np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
    )


@compiled
def _least(axes: _Axes, plans: _Plans, p: int, least: _Path) -> None:
    """By level, the least factors of the axes that are cut at that level or later."""
    levels, operands = plans.cuts[p], plans.follows.shape[1]
    least.groups[levels] = 1
    for o in range(operands):
        least.elements[levels, o], least.repeats[levels, o], least.held[levels, o] = 1, 1, 1
        least.tiles[levels, o], least.runs[levels, o] = 1, 1
    for level in range(levels - 1, -1, -1):
        a, below = plans.cut[p, level], level + 1
        least.groups[level] = least.groups[below] * axes.least_groups[a]
        for o in range(operands):
            length, tile, room, often, run = 1, 1, 1, 1, 1
            if plans.follows[p, o, a]:
                length, tile = axes.least_lengths[o, a], axes.least_counts[a]
                room = axes.least_rooms[o, a]
                run = length if plans.stretches[p, o, a] else tile
            if plans.repeats[p, o, a]:
                often = axes.least_counts[a]
            least.elements[level, o] = least.elements[below, o] * length
            least.repeats[level, o] = least.repeats[below, o] * often
            least.held[level, o] = least.held[below, o] * room
            least.tiles[level, o] = least.tiles[below, o] * tile
            least.runs[level, o] = least.runs[below, o] * run


@compiled
def _begin(plans: _Plans, p: int, path: _Path) -> None:
    """Nothing is chosen."""
    path.groups[0] = plans.groups[p]
    for o in range(plans.follows.shape[1]):
        path.elements[0, o], path.repeats[0, o], path.tiles[0, o] = plans.elements[p, o], 1, 1
        path.held[0, o], path.runs[0, o] = plans.bytes_held[p, o], plans.runs[p, o]


@compiled
def _descend(axes: _Axes, plans: _Plans, p: int, path: _Path, level: int, r: int) -> None:
    """Row r is chosen for the axis of a level."""
    a, below = plans.cut[p, level], level + 1
    count = axes.counts[a, r]
    path.groups[below] = path.groups[level] * axes.groups[a, r]
    for o in range(plans.follows.shape[1]):
        length, tile, room, often, run = 1, 1, 1, 1, 1
        if plans.follows[p, o, a]:
            length, tile, room = axes.lengths[o, a, r], count, axes.rooms[o, a, r]
            run = length if plans.stretches[p, o, a] else tile
        if plans.repeats[p, o, a]:
            often = count
        path.elements[below, o] = path.elements[level, o] * length
        path.repeats[below, o] = path.repeats[level, o] * often
        path.held[below, o] = path.held[level, o] * room
        path.tiles[below, o] = path.tiles[level, o] * tile
        path.runs[below, o] = path.runs[level, o] * run


@compiled
def _fits(costs: _Costs, path: _Path, least: _Path, level: int) -> bool:
    """Whether tiles as small as they can still become lie in the scratchpads."""
    for s in range(len(costs.sizes)):
        size = 0
        for o in range(path.held.shape[1]):
            if costs.scratchpad[o] == s:
                size += path.held[level, o] * least.held[level, o]
        if size > costs.sizes[s]:
            return False
    return True


@compiled
def _at_best(costs: _Costs, path: _Path, least: _Path, level: int) -> tuple[int, int]:
    """Bytes and parts of cycles that what is chosen comes to at the least; exactly where nothing is
    left to choose.  The last operand is the output."""
    moved = setup = 0
    output = path.held.shape[1] - 1
    for o in range(output + 1):
        elements = path.elements[level, o] * least.elements[level, o]
        often = path.repeats[level, o] * least.repeats[level, o]
        size = costs.element_bytes[o] * often
        if o == output:
            size = costs.element_bytes[o] + 2 * (often - 1) * costs.partial_bytes[o]
            often = 2 * often - 1
        moved += elements * size
        tiles = path.tiles[level, o] * least.tiles[level, o]
        runs = path.runs[level, o] * least.runs[level, o]
        setup += often * (costs.per_copy * tiles + costs.per_run * runs)
    engine = costs.per_group * path.groups[level] * least.groups[level]
    copies = moved + setup
    return moved, max(copies, engine) if costs.overlapped else copies + engine


@compiled
def _bounds(
    axes: _Axes, plans: _Plans, costs: _Costs, path: _Path, least: _Path
) -> tuple[Numbers, Numbers]:
    """By plan, bytes and parts of cycles that it takes at the least; MOST where nothing fits."""
    moved = np.full(len(plans.cuts), MOST, np.int64)
    parts = np.full(len(plans.cuts), MOST, np.int64)
    for p in range(len(moved)):
        _least(axes, plans, p, least)
        _begin(plans, p, path)
        if _fits(costs, path, least, 0):
            moved[p], parts[p] = _at_best(costs, path, least, 0)
    return moved, parts


def _branch_and_bound(axes: _Axes, plans: _Plans, costs: _Costs) -> tuple[int, Numbers, int, int]:
    """The best plan, its row of each axis' table, bytes and parts of cycles; plan -1: none fits."""
    _, operands, width = plans.follows.shape
    path, least = _ones(width + 1, operands), _ones(width + 1, operands)
    moved, parts = _bounds(axes, plans, costs, path, least)
    best = (-1, np.zeros(width, np.int64), MOST, MOST)
    for p in np.lexsort((parts, moved)).tolist():
        if (int(moved[p]), int(parts[p])) >= (best[2], best[3]):
            break
        best = _best_of_plan(axes, plans, costs, p, path, least, best)
    return best


@compiled
def _best_of_plan(
    axes: _Axes,
    plans: _Plans,
    costs: _Costs,
    p: int,
    path: _Path,
    least: _Path,
    best: tuple[int, Numbers, int, int],
) -> tuple[int, Numbers, int, int]:
    """The better of what was found before and of what a plan can be."""
    _least(axes, plans, p, least)
    _begin(plans, p, path)
    levels = plans.cuts[p]
    rows = np.full(levels + 1, -1, np.int64)
    if levels == 0:
        return (p, best[1], *_at_best(costs, path, least, 0))
    level = 0
    while level >= 0:
        rows[level] += 1
        if rows[level] == axes.rows[plans.cut[p, level]]:
            rows[level] = -1
            level -= 1
            continue
        _descend(axes, plans, p, path, level, rows[level])
        if not _fits(costs, path, least, level + 1):
            continue
        moved, parts = _at_best(costs, path, least, level + 1)
        if moved > best[2] or (moved == best[2] and parts >= best[3]):
            continue
        if level + 1 < levels:
            level += 1
            continue
        chosen = np.zeros(len(axes.rows), np.int64)
        chosen[plans.cut[p, :levels]] = rows[:levels]
        best = (p, chosen, moved, parts)
    return best
