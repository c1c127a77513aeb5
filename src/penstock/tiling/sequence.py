"""TileSequence: the tiles of a layer in a free order, with free choice of what stays on the chip.

A `Tiling` is a loop nest with one loop per axis.  A tile sequence is any loop nest: its loops may
be interchanged, split, reversed or irregular.  A tiler describes it by a list of visits, one for
each tile:

    tile    the index of the tile along each axis, among the boundaries of the tiler
    held    by operand: the tiles along some axes that the scratchpad holds; by default, along each
            axis only the tile that is visited

An operand is loaded when the region that it holds changes, and the output is stored before that.
The sums of an output tile may be completed in any order of the reduction axes.  Incomplete sums
stay in the scratchpad; they cannot be stored to memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Protocol, runtime_checkable

from penstock.errors import UsageError
from penstock.ir.tensor import Interval, Region
from penstock.tiling.layer import Layer, LayerOperand, Scratchpads, runs_of
from penstock.tiling.nest import (
    Box,
    Cut,
    OperandTraffic,
    TileCopy,
    Tiler,
    Tiling,
    TilingStep,
    check_tiles,
    copy_cycles,
    does_not_fit,
    innermost_depths,
    overfull,
)

HeldTiles = Mapping[str, Interval]
"""By axis, the half-open interval of indices of tiles that a scratchpad holds."""


@dataclass(frozen=True)
class TileVisit:
    """The computation of a tile: its index along each axis, 0 if there is none, and by name of an
    operand the tiles that are held along some axes."""

    tile: Mapping[str, int]
    held: Mapping[str, HeldTiles] = field(default_factory=dict[str, HeldTiles])


@runtime_checkable
class TileSequencer(Tiler, Protocol):
    """A tiler with a further method, which replaces its loop nest."""

    def visits(self, tiling: Tiling) -> Iterable[TileVisit]:
        """Return each tile of a tiling once, in the order of their computation."""
        ...


@dataclass(frozen=True)
class TileSequence:
    """The visits of the tiles of `grid`, whose order and depths do not apply.  Raises UsageError
    unless each tile is visited once, and held tiles contain the one that is visited."""

    grid: Tiling
    visits: tuple[TileVisit, ...]

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise UsageError(
                "tiling-008",
                fault,
                where=f'layer "{self.layer.name}"',
                why="each tile must be computed once, from tiles in the scratchpads",
                help="visit each combination of tiles once, and hold at least the visited tile",
            )

    @staticmethod
    def of(
        tiler: TileSequencer, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]
    ) -> TileSequence:
        """Return the sequence that a tiler states for given boundaries of each axis.

        Raises UsageError, with the name of the tiler, if the boundaries do not partition the axes
        or if its visits are wrong."""
        order = tuple(axis.name for axis in layer.axes)
        depths = innermost_depths(layer, order)
        check_tiles(tiler, layer, cuts, order, depths)
        grid = Tiling(layer, scratchpads, tuple(cuts), order, depths)
        try:
            return TileSequence(grid, tuple(tiler.visits(grid)))
        except UsageError as error:
            raise error.at(f"tiler {type(tiler).__name__}") from error

    @property
    def layer(self) -> Layer:
        return self.grid.layer

    @property
    def scratchpads(self) -> Scratchpads:
        return self.grid.scratchpads

    @property
    def tiles(self) -> Mapping[str, tuple[Interval, ...]]:
        """The tiles of each axis, by name."""
        return self.grid.tiles

    @property
    def count(self) -> int:
        return len(self.visits)

    @property
    def engine_cycles(self) -> int:
        return self.grid.engine_cycles

    @property
    def has_partial_sums(self) -> bool:
        """Whether several tiles contribute to the same sum."""
        return any(len(self.tiles[axis.name]) > 1 for axis in self.layer.reduced)

    def box(self, visit: TileVisit) -> Box:
        """Return the points that a visit computes."""
        return {name: tiles[visit.tile.get(name, 0)] for name, tiles in self.tiles.items()}

    def held(self, visit: TileVisit, operand: LayerOperand) -> Region:
        """Return the region of an operand that its scratchpad holds during a visit."""
        held, box = visit.held.get(operand.name, {}), self.box(visit)
        for name, (first, end) in held.items():
            box = {**box, name: (self.tiles[name][first][0], self.tiles[name][end - 1][1])}
        return Region.of(
            *((0, d.size) if d.axis is None else d.needs(box[d.axis]) for d in operand.dimensions)
        )

    @cached_property
    def steps(self) -> tuple[TilingStep, ...]:
        """The loads, the computation and the stores of each visit."""
        held = [[self.held(v, operand) for v in self.visits] for operand in self.layer.operands]
        found: list[TilingStep] = []
        for k, visit in enumerate(self.visits):
            loads = tuple(
                TileCopy(operand, regions[k])
                for operand, regions in zip(self.layer.inputs, held, strict=False)
                if not k or regions[k] != regions[k - 1]
            )
            ends = k + 1 == self.count or held[-1][k] != held[-1][k + 1]
            stores = (TileCopy(self.layer.output, held[-1][k]),) if ends else ()
            found.append(TilingStep(self.box(visit), loads, stores))
        return tuple(found)

    @cached_property
    def accumulation(self) -> tuple[tuple[bool, bool], ...]:
        """For each visit, whether it adds to sums of earlier visits, and whether it completes
        them."""
        keys = [self._output_key(visit) for visit in self.visits]
        total = math.prod(len(self.tiles[axis.name]) for axis in self.layer.reduced)
        seen: Counter[tuple[int, ...]] = Counter()
        found: list[tuple[bool, bool]] = []
        for key in keys:
            seen[key] += 1
            found.append((seen[key] > 1, seen[key] == total))
        return tuple(found)

    def room(self, operand: LayerOperand) -> tuple[int, ...]:
        """Return the largest number of elements that is held along each dimension, the last one
        aligned."""
        shapes = (self.held(visit, operand).shape for visit in self.visits)
        return self.scratchpads.room(operand, [max(some) for some in zip(*shapes, strict=True)])

    @cached_property
    def moved(self) -> tuple[OperandTraffic, ...]:
        return tuple(self._moved(operand) for operand in self.layer.operands)

    @property
    def moved_bytes(self) -> int:
        return sum(moved.bytes for moved in self.moved)

    @property
    def copy_cycles(self) -> Fraction:
        return copy_cycles(self.scratchpads, self.moved)

    @property
    def faults(self) -> tuple[str, ...]:
        """Reasons why the sequence is infeasible, as phrases; empty if it is feasible."""
        found = overfull(self.scratchpads, self.moved)
        if self.scratchpads.double_buffered:
            found.append("a sequence of tiles cannot be double-buffered")
        begun: set[tuple[int, ...]] = set()
        for visit, step, (_, ends) in zip(self.visits, self.steps, self.accumulation, strict=True):
            key = self._output_key(visit)
            begun = begun - {key} if ends else begun | {key}
            if step.stores and begun:
                found.append("incomplete sums would have to be stored to memory")
                break
        stored = sum(copy.region.elements for step in self.steps for copy in step.stores)
        if stored > math.prod(self.layer.output.shape):
            found.append("elements of the output are stored more than once")
        return tuple(found)

    def _output_key(self, visit: TileVisit) -> tuple[int, ...]:
        """Return the indices that identify the part of the output that a visit computes."""
        output = self.layer.output
        return tuple(visit.tile.get(name, 0) for name in self.tiles if output.follows(name))

    def _moved(self, operand: LayerOperand) -> OperandTraffic:
        copies = [
            copy.region
            for step in self.steps
            for copy in (*step.loads, *step.stores)
            if copy.operand is operand
        ]
        elements = sum(region.elements for region in copies)
        size = operand.element_bytes
        summing = operand is self.layer.output and self.has_partial_sums
        held = math.prod(self.room(operand)) * (operand.unfinished_bytes if summing else size)
        runs = sum(runs_of(operand, region) for region in copies)
        read, written = (0, elements) if operand is self.layer.output else (elements, 0)
        return OperandTraffic(
            operand, len(set(copies)), held, read, written, elements * size, len(copies), runs
        )


def choose_sequence(
    tiler: TileSequencer,
    layer: Layer,
    scratchpads: Scratchpads,
    engine_faults: Callable[[TileSequence], Sequence[str]] = lambda sequence: (),
) -> TileSequence:
    """Return the first feasible sequence of tiles of a tiler, in the order of its `shapes`.

    engine_faults: returns reasons, as phrases, why the engine cannot execute a sequence, besides
        its `faults`.

    Raises CapacityError if no sequence is feasible, UsageError if the tiles of one do not partition
    the layer or if its visits are wrong.
    """
    fault = "the tiler yields no shape"
    for shape in tiler.shapes(layer, scratchpads, tiler.dims(layer, scratchpads)):
        found = TileSequence.of(tiler, layer, scratchpads, tiler.cut(layer, shape))
        faults = (*found.faults, *engine_faults(found))
        if not faults:
            return found
        fault = faults[0]
    raise does_not_fit(layer, fault)


def _faults(sequence: TileSequence) -> Iterator[str]:
    names = list(sequence.tiles)
    counts = [range(len(sequence.tiles[name])) for name in names]
    for visit in sequence.visits:
        indices = [*visit.tile.items()]
        held = [(name, part) for each in visit.held.values() for name, part in each.items()]
        if unknown := [name for name, _ in (*indices, *held) if name not in names]:
            yield f'a visit names the axis "{unknown[0]}", which the layer does not have'
            return
        operands = {operand.name for operand in sequence.layer.operands}
        if other := [name for name in visit.held if name not in operands]:
            yield f'a visit holds "{other[0]}", which is no tensor of the layer'
        for name, (first, end) in held:
            if not 0 <= first <= visit.tile.get(name, 0) < end <= len(sequence.tiles[name]):
                yield (
                    f'a visit of tile {visit.tile.get(name, 0)} along "{name}" holds tiles '
                    f"[{first}, {end}) of {len(sequence.tiles[name])}"
                )
    visited = Counter(tuple(v.tile.get(name, 0) for name in names) for v in sequence.visits)
    expected = set(product(*counts))
    if missing := sorted(expected - set(visited)):
        yield f"{len(missing)} tiles are not visited, the first at {missing[0]}"
    if wrong := sorted(set(visited) - expected):
        yield f"the visited tile {wrong[0]} does not exist"
    if repeated := sorted(tile for tile, count in visited.items() if count > 1):
        yield f"the tile {repeated[0]} is visited {visited[repeated[0]]} times"
