"""Branch and bound over the tilings of all axes, for every loop plan; see `least_traffic.py`.

For each operand, the quantities that a plan determines are products over axes of entries of the
axis tables:

    elements   `lengths` of the axes that its tile follows; of other axes, the whole length
    repeats    `counts` of the axes whose loops repeat its transfers
    room       `rooms`, like elements
    runs       `lengths` of the dimensions before the last split one, `counts` of the others

A lower bound is therefore the product of the entries chosen so far and of the smallest entries of
the remaining axes.  The compiled functions and their types are in one file, because the cache of
machine code only checks that file for changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class AxisArrays(NamedTuple):
    """Axis tables as arrays, indexed by [axis, row] or [operand, axis, row].  The last row has the
    minimum of each column; `rows` is the number of the others.  Columns are as in `AxisTable`."""

    rows: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers


class PlanArrays(NamedTuple):
    """Loop plans as arrays, indexed by [plan], [plan, operand] or [plan, operand, axis].

    `cuts` is the number of split axes, `cut` contains their indices; axes with many candidates come
    first, because bounds are tighter when less remains to be chosen. `groups`, `elements`,
    `bytes_held` and `runs` are the products over everything that no split changes. `follows` and
    `repeats` are as in `LoopPlans`. `stretches` is True if an axis multiplies the runs by lengths
    instead of counts.
    """

    cuts: Numbers
    cut: Numbers
    groups: Numbers
    elements: Numbers
    bytes_held: Numbers
    runs: Numbers
    follows: Flags
    repeats: Flags
    stretches: Flags


class CostArrays(NamedTuple):
    """Costs. Per operand: bytes of an element, bytes of a partial sum, index of the scratchpad. Per
    scratchpad: bytes.

    Cycles are counted in fractions of a cycle; the denominator is the number of bytes copied per
    cycle.
    """

    element_bytes: Numbers
    partial_bytes: Numbers
    scratchpad: Numbers
    sizes: Numbers
    per_copy: int
    per_run: int
    per_group: int
    overlapped: bool


class Products(NamedTuple):
    """Products of the chosen factors, by level of the search: `groups`, and per operand the
    others."""

    groups: Numbers
    elements: Numbers
    repeats: Numbers
    held: Numbers
    tiles: Numbers
    runs: Numbers


class Found(NamedTuple):
    """A plan, its row in the table of each axis, bytes and cycle fractions."""

    plan: int
    rows: Numbers
    bytes: int
    cycle_fractions: int


def _ones(levels: int, operands: int) -> Products:
    arrays = (np.ones((levels, operands), np.int64) for _ in range(5))
    return Products(np.ones(levels, np.int64), *arrays)


@compiled
def _multiply(
    axes: AxisArrays,
    plans: PlanArrays,
    p: int,
    products: Products,
    source: int,
    target: int,
    r: int,
) -> None:
    """Multiply the products of level `source` by row r of the axis between two levels, into those
    of level `target`."""
    a = plans.cut[p, min(source, target)]
    count = axes.counts[a, r]
    products.groups[target] = products.groups[source] * axes.groups[a, r]
    for o in range(plans.follows.shape[1]):
        length, tile, room, often, run = 1, 1, 1, 1, 1
        if plans.follows[p, o, a]:
            length, tile, room = axes.lengths[o, a, r], count, axes.rooms[o, a, r]
            run = length if plans.stretches[p, o, a] else tile
        if plans.repeats[p, o, a]:
            often = count
        products.elements[target, o] = products.elements[source, o] * length
        products.repeats[target, o] = products.repeats[source, o] * often
        products.held[target, o] = products.held[source, o] * room
        products.tiles[target, o] = products.tiles[source, o] * tile
        products.runs[target, o] = products.runs[source, o] * run


@compiled
def _begin(axes: AxisArrays, plans: PlanArrays, p: int, path: Products, least: Products) -> None:
    """Initialise `path` at the root, where no axis is chosen, and `least` with the minimum products
    over the axes of each level and all later ones."""
    path.groups[0] = plans.groups[p]
    levels = plans.cuts[p]
    least.groups[levels] = 1
    for o in range(plans.follows.shape[1]):
        path.elements[0, o], path.repeats[0, o], path.tiles[0, o] = plans.elements[p, o], 1, 1
        path.held[0, o], path.runs[0, o] = plans.bytes_held[p, o], plans.runs[p, o]
        least.elements[levels, o], least.repeats[levels, o], least.held[levels, o] = 1, 1, 1
        least.tiles[levels, o], least.runs[levels, o] = 1, 1
    for level in range(levels - 1, -1, -1):
        _multiply(axes, plans, p, least, level + 1, level, -1)


@compiled
def _fits(costs: CostArrays, path: Products, least: Products, level: int) -> bool:
    """Return whether the smallest tiles still possible at a level fit into the scratchpads."""
    for s in range(len(costs.sizes)):
        size = 0
        for o in range(path.held.shape[1]):
            if costs.scratchpad[o] == s:
                size += path.held[level, o] * least.held[level, o]
        if size > costs.sizes[s]:
            return False
    return True


@compiled
def _at_best(costs: CostArrays, path: Products, least: Products, level: int) -> tuple[int, int]:
    """Return lower bounds of bytes and cycle fractions at a level; they are exact at the last
    level. The last operand is the output."""
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
    axes: AxisArrays, plans: PlanArrays, costs: CostArrays, path: Products, least: Products
) -> tuple[Numbers, Numbers]:
    """Return lower bounds of bytes and cycle fractions for each plan, UNBOUNDED if it cannot
    fit."""
    moved = np.full(len(plans.cuts), UNBOUNDED, np.int64)
    parts = np.full(len(plans.cuts), UNBOUNDED, np.int64)
    for p in range(len(moved)):
        _begin(axes, plans, p, path, least)
        if _fits(costs, path, least, 0):
            moved[p], parts[p] = _at_best(costs, path, least, 0)
    return moved, parts


def branch_and_bound(axes: AxisArrays, plans: PlanArrays, costs: CostArrays) -> Found | None:
    """Return the best plan and rows; None if no plan fits."""
    _, operands, width = plans.follows.shape
    path, least = _ones(width + 1, operands), _ones(width + 1, operands)
    moved, parts = _bounds(axes, plans, costs, path, least)
    best = Found(0, np.zeros(width, np.int64), UNBOUNDED, UNBOUNDED)
    for p in np.lexsort((parts, moved)).tolist():
        if (int(moved[p]), int(parts[p])) >= (best.bytes, best.cycle_fractions):
            break
        _begin(axes, plans, p, path, least)
        best = _best_of_plan(axes, plans, costs, p, path, least, best)
    return None if best.bytes == UNBOUNDED else best


@compiled
def _best_of_plan(
    axes: AxisArrays,
    plans: PlanArrays,
    costs: CostArrays,
    p: int,
    path: Products,
    least: Products,
    best: Found,
) -> Found:
    """Return the better of `best` and the best choice of rows for plan `p`."""
    levels = plans.cuts[p]
    rows = np.full(levels + 1, -1, np.int64)
    if levels == 0:
        moved, parts = _at_best(costs, path, least, 0)
        return Found(p, best.rows, moved, parts)
    level = 0
    while level >= 0:
        rows[level] += 1
        if rows[level] == axes.rows[plans.cut[p, level]]:
            rows[level] = -1
            level -= 1
            continue
        _multiply(axes, plans, p, path, level, level + 1, rows[level])
        if not _fits(costs, path, least, level + 1):
            continue
        moved, parts = _at_best(costs, path, least, level + 1)
        if moved > best.bytes or (moved == best.bytes and parts >= best.cycle_fractions):
            continue
        if level + 1 < levels:
            level += 1
            continue
        chosen = np.zeros(len(axes.rows), np.int64)
        chosen[plans.cut[p, :levels]] = rows[:levels]
        best = Found(p, chosen, moved, parts)
    return best


@compiled
def measured_shapes(extent: int, lanes: int, shapes: Numbers, forms: Numbers) -> Numbers:
    """Return `AxisTable.measured` of tile shapes (extent, growth of the first and the last tile).

    forms: by operand, (factor, offset, offset + extra, their denominator, size, alignment) of the
        dimension that the axis indexes.
    """
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
