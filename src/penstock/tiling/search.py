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
from penstock.tiling.plans import Held, Plan, plans
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
    every = plans(followed, cuttable, scratchpads.spills)
    if cuts is not None:
        every = tuple(plan for plan in every if len(plan.order) == len(cuttable))
    return _best(layer, scratchpads, tables, every)


class _Axes(NamedTuple):
    """AxisTables as arrays: by axis and row; by operand, axis and row."""

    rows: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers


class _Plans(NamedTuple):
    """Plans as arrays: by plan; by plan and operand; by plan, operand and axis.

    `cut`: the cut axes, as many as `cuts`; `groups`, `elements`, `bytes_held`, `runs`: product of
    what no cut changes; `follows`, `repeats`; `stretches`: 1 where runs multiply by lengths."""

    cuts: Numbers
    cut: Numbers
    groups: Numbers
    elements: Numbers
    bytes_held: Numbers
    runs: Numbers
    follows: Numbers
    repeats: Numbers
    stretches: Numbers


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
    layer: Layer, scratchpads: Scratchpads, tables: Sequence[AxisTable], every: Sequence[Plan]
) -> Found | None:
    if not every:
        return None
    axes, costs = _axes(tables), _costs(layer, scratchpads)
    arrays = _plan_arrays(layer, scratchpads, every)
    plan, rows, moved, parts = _branch_and_bound(axes, arrays, costs)
    if plan < 0:
        return None
    return _found(layer, tables, every[plan], rows.tolist(), int(moved), Fraction(
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
    counts = np.ones((len(tables), width), np.int64)
    groups = np.ones_like(counts)
    lengths = np.ones((operands, len(tables), width), np.int64)
    rooms = np.ones_like(lengths)
    for k, table in enumerate(tables):
        counts[k, : table.rows] = table.counts
        groups[k, : table.rows] = table.groups
        lengths[:, k, : table.rows] = table.lengths
        rooms[:, k, : table.rows] = table.rooms
    return _Axes(rows, counts, groups, lengths, rooms)


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


def _plan_arrays(layer: Layer, scratchpads: Scratchpads, every: Sequence[Plan]) -> _Plans:
    shape = (len(every), len(layer.operands), len(layer.axes))
    arrays = _Plans(
        np.array([len(plan.order) for plan in every], np.int64),
        np.zeros((shape[0], shape[2]), np.int64),
        np.ones(shape[0], np.int64),
        *(np.ones(shape[:2], np.int64) for _ in range(3)),
        *(np.zeros(shape, np.bool_) for _ in range(3)),  # pyright: ignore[reportArgumentType]
    )
    whole: dict[tuple[int, Held, bool], tuple[int, int, int, list[int]]] = {}
    groups = [-(-axis.extent // axis.lanes) for axis in layer.axes]
    reduced = {layer.axes.index(axis) for axis in layer.reduced}
    for p, plan in enumerate(every):
        arrays.cut[p, : len(plan.order)] = sorted(plan.order)
        arrays.groups[p] = math.prod(n for k, n in enumerate(groups) if k not in plan.order)
        summing = bool(reduced & set(plan.order))
        for o, held in enumerate(plan.held):
            key = (o, held, summing)
            if key not in whole:
                whole[key] = _whole(layer, scratchpads, o, held, summing)
            arrays.elements[p, o], arrays.bytes_held[p, o], arrays.runs[p, o], run = whole[key]
            arrays.follows[p, o, list(held.follows)] = True
            arrays.repeats[p, o, list(held.repeats)] = True
            arrays.stretches[p, o, run] = True
    return arrays


def _whole(
    layer: Layer, scratchpads: Scratchpads, o: int, held: Held, summing: bool
) -> tuple[int, int, int, list[int]]:
    """Of the dimensions that no cut changes: elements, bytes held, runs; and the axes of those
    others whose lengths multiply the runs."""
    operand = layer.operands[o]
    cut = {layer.axes[k].name: k for k in held.follows}
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


@compiled
def _moved(costs: _Costs, elements: Numbers, repeats: Numbers) -> int:
    """Bytes of operands of so many elements, read so often; the last is the output."""
    total = 0
    for o in range(len(elements)):
        size = costs.element_bytes[o] * repeats[o]
        if o == len(elements) - 1:
            size = costs.element_bytes[o] + 2 * (repeats[o] - 1) * costs.partial_bytes[o]
        total += elements[o] * size
    return total


@compiled
def _fits(costs: _Costs, held: Numbers) -> bool:
    for s in range(len(costs.sizes)):
        size = 0
        for o in range(len(held)):
            if costs.scratchpad[o] == s:
                size += held[o]
        if size > costs.sizes[s]:
            return False
    return True


class _Path(NamedTuple):
    """The products of what is chosen, by level: of groups; by operand, of what a plan moves."""

    groups: Numbers
    elements: Numbers
    repeats: Numbers
    held: Numbers
    tiles: Numbers
    runs: Numbers


@compiled
def _parts(costs: _Costs, moved: int, path: _Path, level: int) -> int:
    """Parts of cycles that the tiling of a path takes."""
    copies = moved
    operands = path.tiles.shape[1]
    for o in range(operands):
        often = path.repeats[level, o]
        if o == operands - 1:
            often = 2 * often - 1
        boxes = costs.per_copy * path.tiles[level, o] + costs.per_run * path.runs[level, o]
        copies += often * boxes
    engine = costs.per_group * path.groups[level]
    return max(copies, engine) if costs.overlapped else copies + engine


@compiled
def _least(axes: _Axes, plans: _Plans, p: int) -> tuple[Numbers, Numbers, Numbers]:
    """By level and operand, the least factors of the axes that are cut at that level or later: of
    elements, of repeats, of room."""
    levels, operands = plans.cuts[p], plans.follows.shape[1]
    elements = np.ones((levels + 1, operands), np.int64)
    repeats = np.ones((levels + 1, operands), np.int64)
    held = np.ones((levels + 1, operands), np.int64)
    for level in range(levels - 1, -1, -1):
        a = plans.cut[p, level]
        n = axes.rows[a]
        for o in range(operands):
            more, again, room = 1, 1, 1
            if plans.follows[p, o, a]:
                more, room = axes.lengths[o, a, :n].min(), axes.rooms[o, a, :n].min()
            if plans.repeats[p, o, a]:
                again = axes.counts[a, :n].min()
            elements[level, o] = elements[level + 1, o] * more
            repeats[level, o] = repeats[level + 1, o] * again
            held[level, o] = held[level + 1, o] * room
    return elements, repeats, held


@compiled
def _begin(plans: _Plans, p: int, path: _Path) -> None:
    """Nothing is chosen."""
    path.groups[0] = plans.groups[p]
    path.elements[0] = plans.elements[p]
    path.repeats[0] = 1
    path.held[0] = plans.bytes_held[p]
    path.tiles[0] = 1
    path.runs[0] = plans.runs[p]


@compiled
def _descend(axes: _Axes, plans: _Plans, p: int, path: _Path, level: int, r: int) -> None:
    """Row r is chosen for the axis of a level."""
    a = plans.cut[p, level]
    count = axes.counts[a, r]
    path.groups[level + 1] = path.groups[level] * axes.groups[a, r]
    for o in range(plans.follows.shape[1]):
        length, tile, room, often, run = 1, 1, 1, 1, 1
        if plans.follows[p, o, a]:
            length, tile, room = axes.lengths[o, a, r], count, axes.rooms[o, a, r]
            run = length if plans.stretches[p, o, a] else tile
        if plans.repeats[p, o, a]:
            often = count
        path.elements[level + 1, o] = path.elements[level, o] * length
        path.repeats[level + 1, o] = path.repeats[level, o] * often
        path.held[level + 1, o] = path.held[level, o] * room
        path.tiles[level + 1, o] = path.tiles[level, o] * tile
        path.runs[level + 1, o] = path.runs[level, o] * run


@compiled
def _bounds(axes: _Axes, plans: _Plans, costs: _Costs) -> Numbers:
    """By plan, the least bytes that it can move; MOST where it cannot fit."""
    bounds = np.full(len(plans.cuts), MOST, np.int64)
    for p in range(len(bounds)):
        more, again, room = _least(axes, plans, p)
        if _fits(costs, plans.bytes_held[p] * room[0]):
            bounds[p] = _moved(costs, plans.elements[p] * more[0], again[0])
    return bounds


@compiled
def _branch_and_bound(axes: _Axes, plans: _Plans, costs: _Costs) -> tuple[int, Numbers, int, int]:
    """The best plan, its row of each axis' table, bytes and parts of cycles; plan -1: none fits."""
    _, operands, width = plans.follows.shape
    best = (-1, np.zeros(width, np.int64), MOST, MOST)
    products = np.ones((5, width + 1, operands), np.int64)
    path = _Path(
        np.ones(width + 1, np.int64),
        products[0], products[1], products[2], products[3], products[4],
    )  # fmt: skip
    bounds = _bounds(axes, plans, costs)
    for p in np.argsort(bounds, kind="mergesort"):
        if bounds[p] == MOST or bounds[p] > best[2]:
            break
        best = _best_of_plan(axes, plans, costs, p, path, best)
    return best


@compiled
def _best_of_plan(
    axes: _Axes,
    plans: _Plans,
    costs: _Costs,
    p: int,
    path: _Path,
    best: tuple[int, Numbers, int, int],
) -> tuple[int, Numbers, int, int]:
    """The better of what was found before and of what a plan can be."""
    more, again, room = _least(axes, plans, p)
    levels = plans.cuts[p]
    rows = np.full(levels + 1, -1, np.int64)
    _begin(plans, p, path)
    level = 0
    while level >= 0:
        if level == levels:
            moved = _moved(costs, path.elements[level], path.repeats[level])
            parts = _parts(costs, moved, path, level)
            if moved < best[2] or (moved == best[2] and parts < best[3]):
                chosen = np.zeros(len(axes.rows), np.int64)
                chosen[plans.cut[p, :levels]] = rows[:levels]
                best = (p, chosen, moved, parts)
            level -= 1
            continue
        rows[level] += 1
        if rows[level] == axes.rows[plans.cut[p, level]]:
            rows[level] = -1
            level -= 1
            continue
        _descend(axes, plans, p, path, level, rows[level])
        below = level + 1
        if _fits(costs, path.held[below] * room[below]):
            elements, repeats = path.elements[below] * more[below], path.repeats[below]
            if _moved(costs, elements, repeats * again[below]) <= best[2]:
                level = below
    return best
