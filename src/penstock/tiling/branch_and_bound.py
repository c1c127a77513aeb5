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
    """Axis tables as arrays, indexed by [axis, row] or [operand, axis, row], and their minima over
    rows."""

    rows: Numbers
    counts: Numbers
    groups: Numbers
    lengths: Numbers
    rooms: Numbers
    least_counts: Numbers
    least_groups: Numbers
    least_lengths: Numbers
    least_rooms: Numbers


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


def _ones(levels: int, operands: int) -> Products:
    """Return products of one for `levels` levels."""
    return Products(
        np.ones(levels, np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
        np.ones((levels, operands), np.int64),
    )


@compiled
def _least(axes: AxisArrays, plans: PlanArrays, p: int, least: Products) -> None:
    """Fill `least` with the minimum products over the axes of each level and all later ones."""
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
def _begin(plans: PlanArrays, p: int, path: Products) -> None:
    """Initialise the products at the root, where no axis is chosen."""
    path.groups[0] = plans.groups[p]
    for o in range(plans.follows.shape[1]):
        path.elements[0, o], path.repeats[0, o], path.tiles[0, o] = plans.elements[p, o], 1, 1
        path.held[0, o], path.runs[0, o] = plans.bytes_held[p, o], plans.runs[p, o]


@compiled
def _descend(
    axes: AxisArrays, plans: PlanArrays, p: int, path: Products, level: int, r: int
) -> None:
    """Choose row r for the axis of a level, and compute the products of the next level."""
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
        _least(axes, plans, p, least)
        _begin(plans, p, path)
        if _fits(costs, path, least, 0):
            moved[p], parts[p] = _at_best(costs, path, least, 0)
    return moved, parts


def branch_and_bound(
    axes: AxisArrays, plans: PlanArrays, costs: CostArrays
) -> tuple[int, Numbers, int, int] | None:
    """Return the best plan, its row in the table of each axis, bytes and cycle fractions; None if
    no plan fits."""
    _, operands, width = plans.follows.shape
    path, least = _ones(width + 1, operands), _ones(width + 1, operands)
    moved, parts = _bounds(axes, plans, costs, path, least)
    best = (0, np.zeros(width, np.int64), UNBOUNDED, UNBOUNDED)
    for p in np.lexsort((parts, moved)).tolist():
        if (int(moved[p]), int(parts[p])) >= (best[2], best[3]):
            break
        best = _best_of_plan(axes, plans, costs, p, path, least, best)
    return None if best[2] == UNBOUNDED else best


@compiled
def _best_of_plan(
    axes: AxisArrays,
    plans: PlanArrays,
    costs: CostArrays,
    p: int,
    path: Products,
    least: Products,
    best: tuple[int, Numbers, int, int],
) -> tuple[int, Numbers, int, int]:
    """Return the better of `best` and the best choice of rows for plan `p`."""
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
