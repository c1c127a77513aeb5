"""Tiling: the tiles of a layer, loop order and operand depths, and the resulting traffic.

The loops over the tiles of all axes are nested in `order`, outermost first. The tile of an operand
of depth d is indexed by the loops order[:d] and spans the whole tensor along other axes. It is
loaded whenever it changes, in full, even if the previous tile contained part of it (rows shared by
two tiles are read twice). The output is stored when its tile changes. If its sums are incomplete at
that time, they are stored with `partial_bytes` per element and loaded again later. A tensor is
therefore transferred once per iteration of each loop that does not index it and is outside the
innermost loop that does.

    bytes    of the boxes transferred, without padding
    cycles   copies (`Copies`) plus engine (cycles_per_point for each group of lanes);
             with double buffering, the maximum of the two
    runs     of a box: contiguous pieces in memory

The scratchpad holds the largest tile of an operand, twice if it is double-buffered and has more
than one tile. Elements whose sums are ever incomplete take `partial_bytes`.

A tiling is found by a tiler. Users can implement their own: a plain object whose methods `choose`
calls in this order; `choose_sequence` (`sequence.py`) also takes tilers that write the loops
themselves:

    dims     the axes that may be tiled
    shapes   candidate tile shapes
    cut      the tile boundaries of each axis, which must partition it
    nest     the loop order, and the depth of each operand
    prefer   a sort key of tilings

`LeastTraffic` (`least_traffic.py`) is a tiler; docs/how-to/write-a-tiler.md develops another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from penstock.errors import CapacityError, UsageError
from penstock.frozen import frozen
from penstock.ir.tensor import Interval, Region
from penstock.tiling.layer import Dimension, Layer, LayerOperand, Scratchpads

Cut = tuple[int, ...]
"""Boundaries of the tiles of an axis: 0, then the end of each tile. Tile k lies between boundary k
and boundary k + 1."""


@frozen
class TileShape:
    """The size of the tiles along each axis of a layer.

    extents: points of a tile along each axis, in the order of `Layer.axes`.
    grown: for each axis, (the additional points of its first tile, the most additional points of
        its last tile); if empty, no tile has any.  Where windows are padded, the tiles at a border
        read fewer rows or columns of the input, so they have room for more points.

    >>> TileShape((7,), ((1, 0),)).cuts((64,))
    ((0, 8, 15, 22, 29, 36, 43, 50, 57, 64),)
    """

    extents: tuple[int, ...]
    grown: tuple[tuple[int, int], ...] = ()

    def cuts(self, extents: Sequence[int]) -> tuple[Cut, ...]:
        """Return the tile boundaries of axes with those extents. The last tile may be smaller."""
        grown = self.grown or ((0, 0),) * len(extents)
        return tuple(
            cut_axis(extent, tile, *more)
            for extent, tile, more in zip(extents, self.extents, grown, strict=True)
        )


def cut_axis(extent: int, tile: int, first: int = 0, last: int = 0) -> Cut:
    """Return the boundaries of tiles of `tile` points. The first tile has `first` more points, the
    last one at most `last` more."""
    ends = [0]
    reach = tile + first
    while extent > ends[-1] + reach + last:
        ends.append(ends[-1] + reach)
        reach = tile
    return (*ends, extent)


def intervals(cut: Cut) -> tuple[Interval, ...]:
    """Return the intervals between consecutive boundaries.

    >>> intervals((0, 8, 10))
    ((0, 8), (8, 10))
    """
    return tuple(pairwise(cut))


Box = Mapping[str, Interval]
"""Points of a tile along each axis, by name."""


@frozen
class OperandTraffic:
    """Traffic of one operand.

    `tiles` is the number of distinct tiles, `held_bytes` the memory that they occupy in the
    scratchpad, `copies` the number of boxes transferred, and `runs` the number of contiguous pieces
    in memory.
    """

    operand: LayerOperand
    tiles: int
    held_bytes: int
    elements_read: int
    elements_written: int
    bytes: int
    copies: int
    runs: int

    @property
    def elements(self) -> int:
        return self.elements_read + self.elements_written


@frozen
class TileCopy:
    """A region of a tensor to transfer. `partial` is True if its sums are incomplete."""

    operand: LayerOperand
    region: Region
    partial: bool = False


@frozen
class TilingStep:
    """The operations of one tile: loads, the computation of `box`, stores."""

    box: Box
    loads: tuple[TileCopy, ...]
    stores: tuple[TileCopy, ...]


@dataclass(frozen=True)
class Tiling:
    """The tile boundaries of each axis of the layer, the loop order, and the depth of each operand
    in the order of `Layer.operands`."""

    layer: Layer
    scratchpads: Scratchpads
    cuts: tuple[Cut, ...]
    order: tuple[str, ...]
    depths: tuple[int, ...]

    @cached_property
    def tiles(self) -> Mapping[str, tuple[Interval, ...]]:
        """The tiles of each axis, by name."""
        return {a.name: intervals(cut) for a, cut in zip(self.layer.axes, self.cuts, strict=True)}

    @property
    def count(self) -> int:
        return math.prod(map(len, self.tiles.values()))

    @cached_property
    def moved(self) -> tuple[OperandTraffic, ...]:
        pairs = zip(self.layer.operands, self.depths, strict=True)
        return tuple(self._moved(operand, depth) for operand, depth in pairs)

    @property
    def bytes(self) -> int:
        return sum(moved.bytes for moved in self.moved)

    @property
    def elements(self) -> int:
        return sum(moved.elements for moved in self.moved)

    @property
    def engine_cycles(self) -> int:
        groups = (
            sum(-(-(upper - lower) // axis.lanes) for lower, upper in self.tiles[axis.name])
            for axis in self.layer.axes
        )
        return self.layer.cycles_per_point * math.prod(groups)

    @property
    def copy_cycles(self) -> Fraction:
        return copy_cycles(self.scratchpads, self.moved)

    @property
    def cycles(self) -> Fraction:
        """Cycles of the layer; see the module's docstring."""
        copies, engine = self.copy_cycles, Fraction(self.engine_cycles)
        return max(copies, engine) if self.scratchpads.double_buffered else copies + engine

    @property
    def spilled(self) -> bool:
        """Whether incomplete sums are stored to memory."""
        return self._partial_writes(self.layer.output, self.depths[-1]) > 0

    @property
    def faults(self) -> tuple[str, ...]:
        """Reasons why the tiling is infeasible, as phrases; empty if it is feasible."""
        found = overfull(self.scratchpads, self.moved)
        if self.spilled and not self.scratchpads.spills:
            found.append("incomplete sums would have to be stored to memory")
        return tuple(found)

    def __str__(self) -> str:
        return _text(self)

    def region(self, operand: LayerOperand, box: Box) -> Region:
        """Return the region of a tensor that the scratchpad holds while `box` is computed."""
        depth = self.depths[self.layer.operands.index(operand)]
        outer = self.order[:depth]
        return Region.of(*(self._interval(d, box, outer) for d in operand.dimensions))

    def steps(self) -> Iterator[TilingStep]:
        """Yield the operations of each tile, in loop order."""
        boxes = list(self._boxes())
        held = [
            [self._key(operand, depth, at) for at, _ in boxes]
            for operand, depth in zip(self.layer.operands, self.depths, strict=True)
        ]
        output = self.layer.output
        spilling = self._repeating(output, self.depths[-1])
        for k, (at, box) in enumerate(boxes):
            loads = tuple(
                TileCopy(operand, self.region(operand, box))
                for operand, keys in zip(self.layer.inputs, held, strict=False)
                if not k or keys[k] != keys[k - 1]
            )
            keys, region = held[-1], self.region(output, box)
            begins = not k or keys[k] != keys[k - 1]
            if begins and any(at[name] for name in spilling):
                loads = (*loads, TileCopy(output, region, partial=True))
            ends = k + 1 == len(boxes) or keys[k] != keys[k + 1]
            partial = any(at[name] + 1 < len(self.tiles[name]) for name in spilling)
            yield TilingStep(box, loads, (TileCopy(output, region, partial),) if ends else ())

    def _boxes(self) -> Iterator[tuple[Mapping[str, int], Box]]:
        """Yield the indices of each tile and its box, in loop order."""
        counts = [len(self.tiles[name]) for name in self.order]
        for k in range(self.count):
            at: dict[str, int] = {}
            for name, count in zip(reversed(self.order), reversed(counts), strict=True):
                k, at[name] = divmod(k, count)
            yield at, {name: self.tiles[name][i] for name, i in at.items()}

    def _key(self, operand: LayerOperand, depth: int, at: Mapping[str, int]) -> tuple[int, ...]:
        """Return the indices that identify the tile of a tensor."""
        return tuple(at[name] for name in self.order[:depth] if operand.follows(name))

    def _interval(self, d: Dimension, box: Box, outer: tuple[str, ...]) -> Interval:
        if d.axis is None:
            return (0, d.size)
        return d.needs(box[d.axis] if d.axis in outer else self._whole_axis(d.axis))

    def _whole_axis(self, axis: str) -> Interval:
        return (0, self.layer.axis(axis).extent)

    def _cut_loops(self, operand: LayerOperand, depth: int) -> list[str]:
        """Return the loops of more than one tile that index a tensor's tile, outermost first."""
        outer = self.order[:depth]
        return [name for name in outer if operand.follows(name) and len(self.tiles[name]) > 1]

    def _repeating(self, operand: LayerOperand, depth: int) -> list[str]:
        """Return the loops of more than one tile outside those that index a tensor's tile, and
        that do not index the tensor.  They repeat its transfers."""
        changing = self._cut_loops(operand, depth)
        around = self.order[: self.order.index(changing[-1])] if changing else ()
        return [n for n in around if not operand.follows(n) and len(self.tiles[n]) > 1]

    def _partial_writes(self, operand: LayerOperand, depth: int) -> int:
        """Return how often each tile of the output is stored before its sums are complete."""
        return math.prod(len(self.tiles[name]) for name in self._repeating(operand, depth)) - 1

    def _moved(self, operand: LayerOperand, depth: int) -> OperandTraffic:
        changing = self._cut_loops(operand, depth)
        tiles = math.prod(len(self.tiles[name]) for name in changing)
        lengths = [self._lengths(d, changing) for d in operand.dimensions]
        elements = math.prod(map(sum, lengths))
        runs = self._runs(operand, lengths)
        again = self._partial_writes(operand, depth)
        held = self._held_bytes(operand, lengths, tiles)
        if operand is not self.layer.output:
            loads = again + 1
            moved = elements * loads
            size = moved * operand.element_bytes
            return OperandTraffic(operand, tiles, held, moved, 0, size, tiles * loads, runs * loads)
        copies = 2 * again + 1
        size = elements * (operand.element_bytes + 2 * again * operand.unfinished_bytes)
        read, written = elements * again, elements * (again + 1)
        return OperandTraffic(
            operand, tiles, held, read, written, size, tiles * copies, runs * copies
        )

    def _lengths(self, d: Dimension, changing: list[str]) -> list[int]:
        """Return the length of each tile along a dimension."""
        if d.axis is None:
            return [d.size]
        cut = d.axis in changing
        reads = map(d.needs, self.tiles[d.axis] if cut else (self._whole_axis(d.axis),))
        return [upper - lower for lower, upper in reads]

    def _runs(self, operand: LayerOperand, lengths: list[list[int]]) -> int:
        """Return the number of runs of all tiles; a split dimension is never contiguous."""
        whole = [[d.size] == some for d, some in zip(operand.dimensions, lengths, strict=True)]
        breaks = [k for k, is_whole in enumerate(whole) if not is_whole]
        last = breaks[-1] if breaks else 0
        factors = (sum(some) if k < last else len(some) for k, some in enumerate(lengths))
        return math.prod(factors)

    def _held_bytes(self, operand: LayerOperand, lengths: list[list[int]], tiles: int) -> int:
        room = self.scratchpads.room(operand, [max(some) for some in lengths])
        summing = operand is self.layer.output and any(
            len(self.tiles[axis.name]) > 1 for axis in self.layer.reduced
        )
        size = operand.unfinished_bytes if summing else operand.element_bytes
        copies = 2 if self.scratchpads.double_buffered and tiles > 1 else 1
        return math.prod(room) * size * copies


def copy_cycles(scratchpads: Scratchpads, moved: Sequence[OperandTraffic]) -> Fraction:
    """Return the cycles of the copies of all operands."""
    cost = scratchpads.copies
    setup = sum(cost.per_copy * one.copies + cost.per_run * one.runs for one in moved)
    return setup + Fraction(sum(one.bytes for one in moved), cost.bytes_per_cycle)


def overfull(scratchpads: Scratchpads, moved: Sequence[OperandTraffic]) -> list[str]:
    """Return a phrase for each scratchpad that is too small for the tiles of its operands."""
    found: list[str] = []
    for memory in scratchpads.scratchpads:
        held = sum(one.held_bytes for one in moved if scratchpads.of(one.operand.role) is memory)
        if held > memory.size_bytes:
            found.append(
                f"the tiles take {held} bytes of scratchpad {memory.name}, "
                f"which has {memory.size_bytes}"
            )
    return found


def _text(tiling: Tiling) -> str:
    """Return a summary line, one line per tensor, and the loop nest."""
    cycles = f"{float(tiling.cycles):,.0f}"
    title = f"{tiling.layer.name}: {tiling.count:,} tiles, {tiling.bytes:,} bytes, {cycles} cycles"
    return "\n".join((title, *_tensors(tiling), *_loops(tiling)))


def _tensors(tiling: Tiling) -> Iterator[str]:
    width = max(len(moved.operand.name) for moved in tiling.moved)
    for moved in tiling.moved:
        shape = " x ".join(map(str, moved.operand.shape)) or "1"
        yield (
            f"  {moved.operand.name:{width}}  {shape}: {moved.elements:,} elements in "
            f"{moved.copies:,} copies of {moved.runs:,} runs, {moved.held_bytes:,} bytes held"
        )


def _loops(tiling: Tiling) -> Iterator[str]:
    names = [name for name in tiling.order if len(tiling.tiles[name]) > 1]
    levels = {moved.operand.name: _level(tiling, k, names) for k, moved in enumerate(tiling.moved)}
    for level in range(len(names) + 1):
        indent = "  " * (level + 1)
        for moved in tiling.moved:
            if levels[moved.operand.name] == level and _is_read(moved, tiling):
                yield f"{indent}load {moved.operand.name}"
        if level < len(names):
            cut = sorted({upper - lower for lower, upper in tiling.tiles[names[level]]})
            sizes = "-".join(map(str, dict.fromkeys((cut[0], cut[-1]))))
            yield f"{indent}for {names[level]} in {len(tiling.tiles[names[level]])} x {sizes}"
    yield "  " * (len(names) + 1) + "compute"
    yield "  " * (levels[tiling.layer.output.name] + 1) + f"store {tiling.layer.output.name}"


def _level(tiling: Tiling, k: int, names: list[str]) -> int:
    """Return the number of loops of more than one tile outside the loads of a tensor."""
    followed = [
        level + 1
        for level, name in enumerate(names)
        if tiling.layer.operands[k].follows(name) and name in tiling.order[: tiling.depths[k]]
    ]
    return max(followed, default=0)


def _is_read(moved: OperandTraffic, tiling: Tiling) -> bool:
    return moved.operand is not tiling.layer.output or moved.elements_read > 0


Dims = frozenset[str]
"""Names of the axes that are tiled; if empty, the layer is a single tile."""
Nest = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of axes, outermost loop first; and for each operand its depth, the number of outer loops
that index its tile."""
TILER_METHODS = ("dims", "shapes", "cut", "nest", "prefer")
"""The methods of a tiler, in the order in which `choose` calls them."""
Preference = tuple[int | Fraction, ...]
"""A sort key; the tiling with the least one is chosen."""


class Tiler(Protocol):
    """The methods of a tiler. Each method may rely on the results of the preceding ones."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """Return the axes that may be tiled."""
        ...

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> Iterable[TileShape]:
        """Return candidate shapes, in points along each axis of the layer. Those that do not fit
        are skipped."""
        ...

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return the tile boundaries of that shape for each axis of the layer."""
        ...

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return the loop order, and the depth of each operand."""
        ...

    def prefer(self, tiling: Tiling) -> Preference:
        """Return the sort key of a tiling. The least is chosen, and the first among equals."""
        ...


def choose(tiler: Tiler, layer: Layer, scratchpads: Scratchpads) -> Tiling:
    """Return the tiling that a tiler prefers among its candidates that fit.

    A shape whose `nest` raises CapacityError does not fit. Raises CapacityError if none fits,
    UsageError if its tiles do not partition the layer, or if the tiler states visits
    (`TileSequencer`), which a tiling cannot express.
    """
    if callable(getattr(tiler, "visits", None)):
        raise UsageError(
            "tiling-010",
            f"the tiler {type(tiler).__name__} states visits, which `choose` would ignore",
            where=f'layer "{layer.name}"',
            why="`choose` returns a tiling: one loop for each axis",
            help="call `choose_sequence`, and execute the steps of the sequence that it returns",
        )
    best: tuple[Preference, Tiling] | None = None
    fault = does_not_fit(layer, "the tiler yields no shape")
    for shape in tiler.shapes(layer, scratchpads, tiler.dims(layer, scratchpads)):
        try:
            tiling = _tiling(tiler, layer, scratchpads, shape)
        except CapacityError as error:
            fault = error
            continue
        if tiling.faults:
            fault = does_not_fit(layer, tiling.faults[0])
            continue
        preference = tiler.prefer(tiling)
        if best is None or preference < best[0]:
            best = (preference, tiling)
    if best is None:
        raise fault
    return best[1]


def does_not_fit(layer: Layer, fault: str) -> CapacityError:
    """Return the error for a layer without a feasible tiling: a tiler refuses a layer by raising
    it."""
    return CapacityError(
        "tiling-003",
        f"no tile fits: {fault}",
        where=f'layer "{layer.name}"',
        why="the scratchpads must hold a tile of every tensor while the engine computes",
        help="use larger scratchpads, or let the tiler split more axes or into smaller tiles",
    )


def innermost_depths(layer: Layer, order: Sequence[str]) -> tuple[int, ...]:
    """Return depths for which all loops index every operand, so each tile is loaded when it is
    needed."""
    return (len(order),) * len(layer.operands)


def _tiling(tiler: Tiler, layer: Layer, scratchpads: Scratchpads, shape: TileShape) -> Tiling:
    cuts = tiler.cut(layer, shape)
    order, depths = tiler.nest(layer, scratchpads, cuts)
    check_tiles(tiler, layer, cuts, order, depths)
    return Tiling(layer, scratchpads, cuts, order, depths)


def check_tiles(
    tiler: Tiler, layer: Layer, cuts: Sequence[Cut], order: Sequence[str], depths: Sequence[int]
) -> None:
    """Raise UsageError if boundaries do not partition the axes of a layer, or if a loop order or
    depths are not those of its axes and operands."""
    for fault in _faults(layer, cuts, order, depths):
        raise UsageError(
            "tiling-004",
            f"the tiler {type(tiler).__name__} {fault}",
            where=f'layer "{layer.name}"',
            why="tiles must partition the layer: each point is in exactly one tile; and each axis "
            "has one loop",
            help="return the result of TileShape.cuts, and an order that contains every axis once",
        )


def _faults(
    layer: Layer, cuts: Sequence[Cut], order: Sequence[str], depths: Sequence[int]
) -> Iterable[str]:
    if len(cuts) != len(layer.axes):
        yield f"returns boundaries for {len(cuts)} axes, the layer has {len(layer.axes)}"
        return
    for axis, cut in zip(layer.axes, cuts, strict=True):
        rises = all(a < b for a, b in pairwise(cut))
        if not rises or cut[:1] != (0,) or cut[-1] != axis.extent or len(cut) < 2:
            yield f'splits axis "{axis.name}" of {axis.extent} points at {list(cut)}'
    if sorted(order) != sorted(axis.name for axis in layer.axes):
        yield f"orders the loops {', '.join(order)}"
    if len(depths) != len(layer.operands) or not all(0 <= d <= len(order) for d in depths):
        yield f"holds tensors at depths {list(depths)} of {len(order)} loops"
