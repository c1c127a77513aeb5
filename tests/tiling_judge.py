"""An exhaustive reference for tilings: every cut, loop order and holding depth, tile by tile.

It reads the fields of layers and scratchpads and calls nothing of `penstock.tiling`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any, NamedTuple


class Option(NamedTuple):
    """A way to hold an operand, with its traffic."""

    size: int
    copies: int
    runs: int
    room: int
    spilled: bool


def least(layer: Any, memories: Any) -> tuple[int, Fraction] | None:
    """Bytes and cycles of the best tiling; None if no tiling fits."""
    best = None
    for tiles in product(*(list(cuts_of(layer, axis)) for axis in layer.axes)):
        by_name = {axis.name: t for axis, t in zip(layer.axes, tiles, strict=True)}
        engine = layer.cycles_per_point
        for axis in layer.axes:
            engine *= sum(
                math.ceil((upper - lower) / axis.lanes) for lower, upper in by_name[axis.name]
            )
        loops = [name for name, t in by_name.items() if len(t) > 1]
        for order in permutations(loops):
            options = [
                {walk(layer, memories, by_name, order, depth, o) for depth in range(len(order) + 1)}
                for o in (*layer.inputs, layer.output)
            ]
            for choice in product(*options):
                cost = judged(layer, memories, choice, engine)
                if cost is not None and (best is None or cost < best):
                    best = cost
    return best


def cuts_of(layer: Any, axis: Any) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every cut with an allowed extent.

    The first and the last tile are larger where they read padding.
    """
    sizes = [n for n in range(axis.least, axis.extent) if (n - axis.least) % axis.step == 0]
    first = last = 0
    if axis.step == 1:
        for d in (d for o in layer.inputs for d in o.dimensions if d.axis == axis.name):
            begins, end = d.offset, d.factor * axis.extent + d.offset + d.extra
            if begins < 0:
                first = max(first, min(8, math.ceil(Fraction(-math.floor(begins)) / d.factor)))
            if math.ceil(end) > d.size:
                last = max(last, min(8, math.ceil(Fraction(math.ceil(end) - d.size) / d.factor)))
    seen = set()
    for size, f, b in product(sizes, range(first + 1), range(last + 1)):
        cut = [0]
        while cut[-1] < axis.extent:
            end = cut[-1] + size + (f if len(cut) == 1 else 0)
            cut.append(axis.extent if axis.extent - end <= b else end)
        seen.add(tuple(pairwise(cut)))
    yield from sorted(seen | {((0, axis.extent),)})


def interval(d: Any, lower: int, upper: int) -> tuple[int, int]:
    if d.axis is None:
        return 0, d.size
    begins = math.floor(d.factor * lower + d.offset)
    ends = math.ceil(d.factor * upper + d.offset + d.extra)
    inside = [i for i in range(begins, ends) if 0 <= i < d.size]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


def walk(
    layer: Any, memories: Any, tiles: dict[str, Any], order: Any, depth: int, operand: Any
) -> Option:
    """Visits the tiles in order and records where the operand's tile changes."""
    (memory,) = [m for m in memories.scratchpads if operand.role in m.roles]
    is_output = operand is layer.output
    axes = {d.axis for d in operand.dimensions}
    extent = {axis.name: axis.extent for axis in layer.axes}
    reduced = [name for name in order if is_output and name not in axes]
    visits: dict[Any, int] = {}
    room = runs = elements = copies = 0
    partial_elements = 0
    last: Any = None
    for at in product(*(range(len(tiles[name])) for name in order)):
        index = dict(zip(order, at, strict=True))
        key = tuple(index[name] for name in order[:depth] if name in axes)
        if key == last:
            continue
        last = key
        lengths, whole = [], []
        for d in operand.dimensions:
            cut = d.axis in order[:depth]
            box = tiles[d.axis][index[d.axis]] if cut else (0, extent.get(d.axis, 0))
            lower, upper = interval(d, *box)
            lengths.append(upper - lower)
            whole.append(not cut and upper - lower == d.size)
        aligned = [*lengths[:-1], math.ceil(lengths[-1] / memory.alignment) * memory.alignment]
        room = max(room, math.prod(aligned))
        pieces = 1
        for k in range(len(lengths)):
            if not all(whole[k + 1 :]):
                pieces *= lengths[k]
        seen = visits.get(key, 0)
        visits[key] = seen + 1
        times = 1 if not is_output or not seen else 2
        copies += times
        runs += times * pieces
        elements += math.prod(lengths)
        if is_output and seen:
            partial_elements += 2 * math.prod(lengths)
    wide = operand.partial_bytes or operand.element_bytes
    if is_output:
        size = sum_of_output(operand.element_bytes, wide, elements, partial_elements)
    else:
        size = elements * operand.element_bytes
    room *= wide if reduced else operand.element_bytes
    if memories.double_buffered and len(visits) > 1:
        room *= 2
    return Option(size, copies, runs, room, is_output and max(visits.values()) > 1)


def sum_of_output(narrow: int, wide: int, elements: int, partial: int) -> int:
    """Every visit but the last writes partial sums, every visit but the first reads them."""
    return (elements - partial // 2) * narrow + partial * wide


def judged(
    layer: Any, memories: Any, choice: tuple[Option, ...], engine: int
) -> tuple[int, Fraction] | None:
    operands = (*layer.inputs, layer.output)
    for memory in memories.scratchpads:
        held = [c.room for c, o in zip(choice, operands, strict=True) if o.role in memory.roles]
        if sum(held) > memory.size_bytes:
            return None
    if choice[-1].spilled and not memories.spills:
        return None
    cost = memories.copies
    size = sum(c.size for c in choice)
    copying = Fraction(size, cost.bytes_per_cycle) + sum(
        cost.per_copy * c.copies + cost.per_run * c.runs for c in choice
    )
    both = max(copying, engine) if memories.double_buffered else copying + engine
    return size, Fraction(both)
