"""Tiling: a layer's cuts, the order of its loops, where each tensor is held; and what that moves.

The model.  Loops over the tiles of each axis stand in each other, in `order`, outermost first.  A
tensor with depth d is held as the loops order[d:] see it: its tile follows the loops order[:d] and
is all of the tensor along the others.  It is loaded when it changes, and only then, whatever of it
was there before (rows that two tiles share are read twice).  The output is written when its tile
changes; where its sums are not complete then, they are written and later read again, with
`partial_bytes` an element.  So a tensor is moved as often as the loops that it does not follow run
around the innermost that it does.

    bytes    of the boxes that are moved, padding left out
    cycles   of copies (`Copies`) and of the engine: cycles_per_point for each group of lanes.
             They add up; with double buffering, the greater of the two sums
    runs     of a box: a dimension behind which every other is whole makes one run

A tile takes the room of the largest one, twice where it is double-buffered and not the only one;
elements of sums that are ever incomplete take `partial_bytes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from penstock.ir.region import Interval, Region
from penstock.tiling.cuts import Cut, intervals
from penstock.tiling.layer import Dimension, Layer, Operand
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.text import shown

Box = Mapping[str, Interval]
"""By name of an axis, a tile's points along it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What is moved of one tensor.  `tiles`: how many different ones; `held_bytes`: the room that
    it takes in its scratchpad; `copies`, `runs`: boxes, and pieces of memory without a gap."""

    operand: Operand
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


@dataclass(frozen=True, slots=True)
class Copy:
    """A region of a tensor that is moved; `partial`: its sums are not complete."""

    operand: Operand
    region: Region
    partial: bool = False


@dataclass(frozen=True, slots=True)
class TensorTile:
    """A tile of a tensor: its region, and by dimension how many elements of padding it reads before
    and behind it."""

    region: Region
    padding: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens for one tile: loads, then the computation of `box`, then stores."""

    box: Box
    loads: tuple[Copy, ...]
    stores: tuple[Copy, ...]


@dataclass(frozen=True)
class Tiling:
    """`cuts` by axis of the layer; `depths` by operand, in the order of `Layer.operands`."""

    layer: Layer
    scratchpads: Scratchpads
    cuts: tuple[Cut, ...]
    order: tuple[str, ...]
    depths: tuple[int, ...]

    @cached_property
    def tiles(self) -> Mapping[str, tuple[Interval, ...]]:
        """By axis, its tiles."""
        return {a.name: intervals(cut) for a, cut in zip(self.layer.axes, self.cuts, strict=True)}

    @property
    def count(self) -> int:
        """How many tiles are computed."""
        return math.prod(map(len, self.tiles.values()))

    @cached_property
    def moved(self) -> tuple[Moved, ...]:
        """What is moved of each operand."""
        pairs = zip(self.layer.operands, self.depths, strict=True)
        return tuple(self._moved(operand, depth) for operand, depth in pairs)

    @property
    def bytes(self) -> int:
        """Bytes moved between memory and scratchpads."""
        return sum(moved.bytes for moved in self.moved)

    @property
    def elements(self) -> int:
        """Elements moved between memory and scratchpads."""
        return sum(moved.elements for moved in self.moved)

    @property
    def engine_cycles(self) -> int:
        """Cycles that the engine computes."""
        groups = (
            sum(-(-(upper - lower) // axis.lanes) for lower, upper in self.tiles[axis.name])
            for axis in self.layer.axes
        )
        return self.layer.cycles_per_point * math.prod(groups)

    @property
    def copy_cycles(self) -> Fraction:
        """Cycles that copies take."""
        cost = self.scratchpads.copies
        setup = sum(cost.per_copy * m.copies + cost.per_run * m.runs for m in self.moved)
        return setup + Fraction(self.bytes, cost.bytes_per_cycle)

    @property
    def cycles(self) -> Fraction:
        """Cycles that the layer takes, see above."""
        copies, engine = self.copy_cycles, Fraction(self.engine_cycles)
        return max(copies, engine) if self.scratchpads.double_buffered else copies + engine

    @property
    def spilled(self) -> bool:
        """Whether incomplete sums are written to memory."""
        return self._partial_writes(self.layer.output, self.depths[-1]) > 0

    @property
    def faults(self) -> tuple[str, ...]:
        """In words, what is too large for its scratchpad, or else not possible."""
        found: list[str] = []
        for memory in self.scratchpads.scratchpads:
            held = sum(m.held_bytes for m in self.moved if m.operand.role in memory.roles)
            if held > memory.size_bytes:
                found.append(
                    f"the tiles take {held} bytes of scratchpad {memory.name}, "
                    f"it has {memory.size_bytes}"
                )
        if self.spilled and not self.scratchpads.spills:
            found.append("incomplete sums would have to leave the scratchpad")
        return tuple(found)

    def __str__(self) -> str:
        return shown(self)

    def region(self, operand: Operand, box: Box) -> Region:
        """What of a tensor is held while `box` is computed."""
        depth = self.depths[self.layer.operands.index(operand)]
        outer = self.order[:depth]
        return Region.of(*(self._interval(d, box, outer) for d in operand.dimensions))

    def padding(self, operand: Operand, box: Box) -> tuple[tuple[int, int], ...]:
        """By dimension of a tensor, how much of the padding before and behind it `box` reads."""
        found: list[tuple[int, int]] = []
        for d in operand.dimensions:
            lower, upper = d.reads(box[d.axis] if d.axis is not None else (0, 0))
            found.append((max(0, -lower), max(0, upper - d.size)))
        return tuple(found)

    def tensor_tiles(self, operand: Operand) -> tuple[TensorTile, ...]:
        """The tensor in tiles, in the order in which the loops meet them."""
        depth = self.depths[self.layer.operands.index(operand)]
        changing = self._cut_loops(operand, depth)
        found: list[TensorTile] = []
        for chosen in product(*(self.tiles[name] for name in changing)):
            box = {axis.name: self._all_of(axis.name) for axis in self.layer.axes}
            box |= dict(zip(changing, chosen, strict=True))
            found.append(TensorTile(self.region(operand, box), self.padding(operand, box)))
        return tuple(found)

    def steps(self) -> Iterator[Step]:
        """Tile after tile, in the order of the loops: what is loaded, computed and stored."""
        boxes = list(self._boxes())
        held = [
            [self._key(operand, depth, at) for at, _ in boxes]
            for operand, depth in zip(self.layer.operands, self.depths, strict=True)
        ]
        output = self.layer.output
        spilling = self._spilling(output, self.depths[-1])
        for k, (at, box) in enumerate(boxes):
            loads = tuple(
                Copy(operand, self.region(operand, box))
                for operand, keys in zip(self.layer.inputs, held, strict=False)
                if not k or keys[k] != keys[k - 1]
            )
            keys, region = held[-1], self.region(output, box)
            begins = not k or keys[k] != keys[k - 1]
            if begins and any(at[name] for name in spilling):
                loads = (*loads, Copy(output, region, partial=True))
            ends = k + 1 == len(boxes) or keys[k] != keys[k + 1]
            partial = any(at[name] + 1 < len(self.tiles[name]) for name in spilling)
            yield Step(box, loads, (Copy(output, region, partial),) if ends else ())

    def _boxes(self) -> Iterator[tuple[Mapping[str, int], Box]]:
        """Indices of a tile, and the tile, in the order of the loops."""
        counts = [len(self.tiles[name]) for name in self.order]
        for k in range(self.count):
            at: dict[str, int] = {}
            for name, count in zip(reversed(self.order), reversed(counts), strict=True):
                k, at[name] = divmod(k, count)
            yield at, {name: self.tiles[name][i] for name, i in at.items()}

    def _key(self, operand: Operand, depth: int, at: Mapping[str, int]) -> tuple[int, ...]:
        """Which tile of a tensor it is."""
        return tuple(at[name] for name in self.order[:depth] if operand.follows(name))

    def _interval(self, d: Dimension, box: Box, outer: tuple[str, ...]) -> Interval:
        if d.axis is None:
            return (0, d.size)
        return d.needs(box[d.axis] if d.axis in outer else self._all_of(d.axis))

    def _all_of(self, axis: str) -> Interval:
        return (0, self.layer.axis(axis).extent)

    def _cut_loops(self, operand: Operand, depth: int) -> list[str]:
        """The loops of more than one tile that change a tensor's tile, outermost first."""
        outer = self.order[:depth]
        return [name for name in outer if operand.follows(name) and len(self.tiles[name]) > 1]

    def _repeating(self, operand: Operand, depth: int) -> list[str]:
        """The loops around those that change a tensor's tile, which it does not follow."""
        changing = self._cut_loops(operand, depth)
        around = self.order[: self.order.index(changing[-1])] if changing else ()
        return [name for name in around if not operand.follows(name)]

    def _spilling(self, operand: Operand, depth: int) -> list[str]:
        """The loops for which a tile of the output is written more than once."""
        return [n for n in self._repeating(operand, depth) if len(self.tiles[n]) > 1]

    def _partial_writes(self, operand: Operand, depth: int) -> int:
        """How often each tile of the output is written before its sums are complete."""
        return math.prod(len(self.tiles[name]) for name in self._repeating(operand, depth)) - 1

    def _moved(self, operand: Operand, depth: int) -> Moved:
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
            return Moved(operand, tiles, held, moved, 0, size, tiles * loads, runs * loads)
        copies = 2 * again + 1
        size = elements * (operand.element_bytes + 2 * again * operand.unfinished_bytes)
        read, written = elements * again, elements * (again + 1)
        return Moved(operand, tiles, held, read, written, size, tiles * copies, runs * copies)

    def _lengths(self, d: Dimension, changing: list[str]) -> list[int]:
        """Elements along a dimension of each of its tiles."""
        if d.axis is None:
            return [d.size]
        cut = d.axis in changing
        reads = map(d.needs, self.tiles[d.axis] if cut else (self._all_of(d.axis),))
        return [upper - lower for lower, upper in reads]

    def _runs(self, operand: Operand, lengths: list[list[int]]) -> int:
        """Runs of all tiles; a dimension that is cut does not count as whole."""
        whole = [[d.size] == some for d, some in zip(operand.dimensions, lengths, strict=True)]
        breaks = [k for k, is_whole in enumerate(whole) if not is_whole]
        last = breaks[-1] if breaks else 0
        factors = (sum(some) if k < last else len(some) for k, some in enumerate(lengths))
        return math.prod(factors)

    def _held_bytes(self, operand: Operand, lengths: list[list[int]], tiles: int) -> int:
        alignment = self.scratchpads.of(operand.role).alignment
        room = [max(some) for some in lengths]
        room[-1:] = [-(-n // alignment) * alignment for n in room[-1:]]
        summing = operand is self.layer.output and any(
            len(self.tiles[axis.name]) > 1 for axis in self.layer.reduced
        )
        size = operand.unfinished_bytes if summing else operand.element_bytes
        copies = 2 if self.scratchpads.double_buffered and tiles > 1 else 1
        return math.prod(room) * size * copies
