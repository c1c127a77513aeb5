"""Smaug: a tiler with the rules of SMAUG's SMV backend, which fill the scratchpads.

Tensors are (N, H, W, C) or (N, C), weights (outputs, rows, columns, C) or (outputs, C). Inputs,
weights and outputs have separate scratchpads. One of seven rules applies to a layer:

    WindowedRule      convolutions: weights with windows, summed over C
    ConnectedRule     fully connected layers: weights summed over C
    PooledRule        windows without weights
    DepthwiseRule     weights with windows, one for each channel; no sum.  SMAUG has no such rule.
    ScaledRule        four weights per channel, as in batch normalisation; no sum
    ElementwiseRule   neither weights nor windows: one row of elements
    VectorsRule       vectors along the innermost dimension, as in softmax

Each rule selects the dimensions to split for each tensor (`smaug_shapes.py`) and enumerates
candidates. The first candidate that occupies the most memory is chosen. Where SMAUG aborts because
it cannot tile a layer, CapacityError or UnsupportedError is raised. The cases of
`python -m benchmarks.cases tests/cases/smaug_drawn.json` are what SMAUG's own code chooses for
layers drawn at random.

Differences: SMAUG's tensors are padded to the alignment in memory, so its rows of elements count
the padding; its output of a convolution has one image, whatever the batch. Where an incomplete sum
takes more bytes than an element, candidates whose sums do not fit are not chosen; on smv,
incomplete sums are in accumulators. No tile exceeds its scratchpad: SMAUG's do if the size of the
scratchpad is not aligned, or if no window reads the rows after the only tile.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from penstock.uma import (
    INPUT,
    OUTPUT,
    WEIGHTS,
    Cut,
    Dimension,
    Layer,
    LayerOperand,
    Scratchpads,
    TileShape,
    Tiling,
    UnsupportedError,
    does_not_fit,
    flattened,
)
from penstock_smv.smaug_shapes import (
    Extents,
    Piece,
    TileCapacity,
    TilingDims,
    enumerated,
    output_pieces,
    output_points,
    overlapping_pieces,
    padding_after,
    preferred,
    stepped,
    stride,
    tile_points,
)

ENGINES = 8
"""Number of output channels computed in parallel; also the vector width."""
CHANNELS = 32
"""Number of input channels summed in parallel."""
NONE, N, NC = TilingDims.NONE, TilingDims.N, TilingDims.NC
NH, NW, NHW = TilingDims.NH, TilingDims.NW, TilingDims.NHW
NCH, NCW = TilingDims.NCH, TilingDims.NCW
CONSTANTS = 4
"""Constants per channel that SMAUG holds for a batch normalisation: mean, variance, gamma, beta."""
WITH_CHANNELS = {NONE: NC, N: NC, NH: NCH, NW: NCW}
"""Split dimensions, by those that are split besides channels."""

Tiles = Mapping[str, Extents]
"""The tile shape of each tensor, by role."""
Dims = Mapping[str, TilingDims]
"""The split dimensions of each tensor, by role."""
Nest = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of axes, outermost loop first, and the depth of each operand."""


@dataclass(frozen=True, slots=True)
class Smaug:
    """SMAUG's tiler. Its methods raise CapacityError if no tile fits, and UnsupportedError if no
    rule applies to the layer."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> frozenset[str]:
        """Return the axes that the chosen tile shape splits."""
        (shape,) = self.shapes(layer, scratchpads, frozenset())
        pairs = zip(layer.axes, shape.extents, strict=True)
        return frozenset(axis.name for axis, extent in pairs if extent < axis.extent)

    def shapes(
        self, layer: Layer, scratchpads: Scratchpads, dims: frozenset[str]
    ) -> tuple[TileShape, ...]:
        """Return the shape that fills the scratchpads best."""
        rule = select_rule(layer, scratchpads)
        return (rule.shape(rule.choose()),)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return tiles with the rows of the shape; tiles that include padding have more."""
        return shape.cuts([axis.extent for axis in layer.axes])

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return SMAUG's loop order: N, H, W, outputs, C. A tensor that is not split is loaded
        once."""
        rule = select_rule(layer, scratchpads)
        return rule.nest(rule.choose())

    def prefer(self, tiling: Tiling) -> tuple[int, ...]:
        """Return a constant, because `shapes` yields a single candidate."""
        return ()

    def tensor_shapes(self, layer: Layer, scratchpads: Scratchpads) -> SmaugShapes:
        """Return the split dimensions and the tile of each tensor."""
        return select_rule(layer, scratchpads).choose()

    def tensor_pieces(
        self, layer: Layer, scratchpads: Scratchpads
    ) -> dict[str, tuple[tuple[Piece, ...], ...]]:
        """Return the pieces into which SMAUG splits each dimension of each tensor, by role.

        An input tile may contain rows that no output reads. Rows of the output follow from those of
        the input.
        """
        rule = select_rule(layer, scratchpads)
        shapes = rule.choose()
        return {role: rule.pieces(shapes, role) for role in shapes.tiles}


@dataclass(frozen=True, slots=True)
class SmaugShapes:
    """The dimensions that SMAUG splits and the tile shape, by role."""

    dims: Dims
    tiles: Tiles


class SmaugRule(ABC):
    """The rule for one kind of layer, and the choice of tile shapes that all rules share."""

    CHANGED: ClassVar[frozenset[str]] = frozenset({WEIGHTS, OUTPUT})
    """Roles whose tiles are the tensor's shape with some extents changed, padding retained."""

    def __init__(self, layer: Layer, scratchpads: Scratchpads) -> None:
        self.layer = layer
        # SMAUG knows the first operand of each role; weights have at least two dimensions.
        known = [o for o in layer.operands if o.role != WEIGHTS or len(o.dimensions) > 1]
        self.operands = {operand.role: operand for operand in reversed(known)}
        self.rooms = {
            role: _room(layer, scratchpads, operand, keeps_padding=role in self.CHANGED)
            for role, operand in self.operands.items()
        }
        self.wholes = {role: operand.shape for role, operand in self.operands.items()}

    @abstractmethod
    def least(self) -> Tiles:
        """Return the smallest useful tile of each tensor."""

    def corrected(self, dims: Dims) -> Dims:
        """Return the split dimensions, made consistent between tensors."""
        return dims

    @abstractmethod
    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        """Yield consistent tile shapes of all tensors."""

    @abstractmethod
    def nest(self, shapes: SmaugShapes) -> Nest:
        """Return loop order and depths of the operands."""

    @abstractmethod
    def shape(self, shapes: SmaugShapes) -> TileShape:
        """Return the points along each axis of the layer that a tile covers."""

    def choose(self) -> SmaugShapes:
        """Return the first candidate that occupies the most memory. Raises CapacityError if none
        fits."""
        preferences: dict[str, TilingDims] = {}
        for role, least in self.least().items():
            found = preferred(self.wholes[role], self.rooms[role], least)
            if found is None:
                raise does_not_fit(self.layer, f"no split dimensions make a tile of the {role} fit")
            preferences[role] = found
        dims = self.corrected(preferences)
        best: Tiles | None = None
        for tiles in self.candidates(dims):
            if self.fit(tiles) and (best is None or self._filled(tiles) > self._filled(best)):
                best = tiles
        if best is None:
            words = ", ".join(f"{role} {found}" for role, found in dims.items())
            raise does_not_fit(
                self.layer, f"SMAUG's split dimensions ({words}) have no tile that fits"
            )
        return SmaugShapes(dims, best)

    def fit(self, tiles: Tiles) -> bool:
        """Return whether the scratchpads hold the tiles."""
        return all(self.rooms[role].holds(tile) for role, tile in tiles.items())

    def pieces(self, shapes: SmaugShapes, role: str) -> tuple[tuple[Piece, ...], ...]:
        """Return the pieces into which SMAUG splits each dimension of a tensor."""
        extents = {axis.name: axis.extent for axis in self.layer.axes}
        return tuple(
            overlapping_pieces(d, n, padding_after(d, extents.get(d.axis or "", 1)))
            for d, n in zip(self.operands[role].dimensions, shapes.tiles[role], strict=True)
        )

    def names(self, role: str) -> tuple[str, ...]:
        """Return the axis of each dimension of a tensor."""
        return tuple(d.axis or "" for d in self.operands[role].dimensions)

    def depths(self, by_role: Mapping[str, int], loops: int) -> tuple[int, ...]:
        """Return the depth of each operand. Operands unknown to SMAUG follow all loops."""
        known = {self.operands[role].name: depth for role, depth in by_role.items()}
        return tuple(known.get(operand.name, loops) for operand in self.layer.operands)

    def extents(
        self, points: Mapping[str, int], grown: Mapping[str, tuple[int, int]] = {}
    ) -> TileShape:
        """Return the tile shape with the given points along the named axes, and whole other
        axes."""
        axes = self.layer.axes
        extents = tuple(points.get(axis.name, axis.extent) for axis in axes)
        more = tuple(grown.get(axis.name, (0, 0)) for axis in axes)
        return TileShape(extents, more if any(map(any, more)) else ())

    def _filled(self, tiles: Tiles) -> int:
        return sum(self.rooms[role].size(tile) for role, tile in tiles.items())


class SummedRule(SmaugRule):
    """Base of the rules with weights that are summed over C."""

    def fit(self, tiles: Tiles) -> bool:
        """Return whether the scratchpads hold the tiles. Where an incomplete sum takes more bytes
        than an element, unlike in SMAUG, they must hold those, too, if the sum is split."""
        output, deep = self.operands[OUTPUT], min(tiles[INPUT][-1], tiles[WEIGHTS][-1])
        grown = 1
        if deep < self.wholes[INPUT][-1]:
            grown = output.unfinished_bytes // output.element_bytes
        room = self.rooms[OUTPUT]
        return super().fit(tiles) and grown * room.size(tiles[OUTPUT]) <= room.most

    def weight_tiles(self, dims: TilingDims, cut: bool, channels: int) -> Iterator[Extents]:
        """Yield tiles of the weights for an input tile of `channels`. If `cut`, C is split."""
        whole, room = self.wholes[WEIGHTS], self.rooms[WEIGHTS]
        if dims is NONE:
            yield (*whole[:-1], channels if cut else whole[-1])
            return
        for outputs in stepped(whole[0], ENGINES):
            some = stepped(whole[-1], CHANNELS) if dims is NC and not cut else (channels,)
            for deep in some:
                tile = (outputs, *whole[1:-1], deep)
                if not room.holds(tile):
                    break
                yield tile

    def channel_points(self, tiles: Tiles) -> dict[str, int]:
        """Return the points of a tile along N, the outputs and the channels that are summed."""
        outputs = self.names(OUTPUT)
        return {
            outputs[0]: tiles[INPUT][0],
            outputs[-1]: min(tiles[WEIGHTS][0], tiles[OUTPUT][-1]),
            self.names(INPUT)[-1]: min(tiles[INPUT][-1], tiles[WEIGHTS][-1]),
        }

    def nest(self, shapes: SmaugShapes) -> Nest:
        tiles, order = shapes.tiles, (*self.names(OUTPUT), self.names(INPUT)[-1])
        loops = len(order)
        depths = {
            INPUT: loops - 1 if tiles[INPUT][-1] == self.wholes[INPUT][-1] else loops,
            WEIGHTS: loops - 2 if tiles[WEIGHTS] == self.wholes[WEIGHTS] else loops,
            OUTPUT: 0 if tiles[OUTPUT] == self.wholes[OUTPUT] else loops,
        }
        return order, self.depths(depths, loops)


class WindowedRule(SummedRule):
    """Convolutions: weights with windows, summed over C."""

    @property
    def rows(self) -> Dimension:
        return self.operands[INPUT].dimensions[1]

    def least(self) -> Tiles:
        return {
            INPUT: (1, self.rows.window, self.wholes[INPUT][2], CHANNELS),
            WEIGHTS: (ENGINES, *self.wholes[WEIGHTS][1:3], CHANNELS),
            OUTPUT: (1, 1, self.wholes[OUTPUT][2], ENGINES),
        }

    def corrected(self, dims: Dims) -> Dims:
        if dims[WEIGHTS] not in (NONE, N, NC):
            raise refused(self.layer, f"weights are split along {dims[WEIGHTS]}")
        output = NC if dims[WEIGHTS] is not NONE else dims[OUTPUT]
        if dims[INPUT].needs("H"):
            output = NCH if output.needs("C") else NH
        return {**dims, OUTPUT: output}

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        cut, whole = dims[INPUT], self.wholes[INPUT]
        if cut.needs("W"):
            cut = NONE
        least = (1, self.rows.window, whole[2], CHANNELS)
        steps = (1, stride(self.rows), 1, CHANNELS)
        for tile in enumerated(whole, self.rooms[INPUT], cut, least, steps):
            for weights in self.weight_tiles(dims[WEIGHTS], cut.needs("C"), tile[3]):
                for output in self._output_tiles(dims, tile, weights):
                    yield {INPUT: tile, WEIGHTS: weights, OUTPUT: output}

    def _output_tiles(self, dims: Dims, tile: Extents, weights: Extents) -> Iterator[Extents]:
        _, rows, columns, channels = self.wholes[OUTPUT]
        some: Sequence[int] = (weights[0],)
        if dims[OUTPUT].needs("H"):
            rows = output_points(self.rows, tile[1] + self.rows.before)
        elif dims[WEIGHTS] is NONE:
            some = (channels,) if dims[OUTPUT] is NONE else stepped(channels, ENGINES)
        for deep in some:
            yield (tile[0], rows, columns, deep)

    def pieces(self, shapes: SmaugShapes, role: str) -> tuple[tuple[Piece, ...], ...]:
        found = super().pieces(shapes, role)
        if role != OUTPUT or not shapes.dims[OUTPUT].needs("H"):
            return found
        after = padding_after(self.rows, self.wholes[OUTPUT][1])
        rows = output_pieces(self.rows, [n for _, n in self.pieces(shapes, INPUT)[1]], after)
        return (found[0], rows, *found[2:])

    def shape(self, shapes: SmaugShapes) -> TileShape:
        points, height = self.channel_points(shapes.tiles), shapes.tiles[INPUT][1]
        grown: dict[str, tuple[int, int]] = {}
        if height < self.wholes[INPUT][1]:
            name = self.names(OUTPUT)[1]
            points[name], grown[name] = tile_points(self.rows, height, self.layer)
        return self.extents(points, grown)


class ConnectedRule(SummedRule):
    """Fully connected layers: weights summed over C, no rows."""

    def least(self) -> Tiles:
        return {INPUT: (1, CHANNELS), WEIGHTS: (ENGINES, CHANNELS), OUTPUT: (1, ENGINES)}

    def corrected(self, dims: Dims) -> Dims:
        both = dims[WEIGHTS] is not NONE and dims[OUTPUT] is not NONE
        return {**dims, OUTPUT: NC} if both else dims

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        cut, room = dims[INPUT], self.rooms[INPUT]
        channels = self.wholes[OUTPUT][1]
        for tile in enumerated(self.wholes[INPUT], room, cut, (1, CHANNELS), (1, CHANNELS)):
            for weights in self.weight_tiles(dims[WEIGHTS], cut.needs("C"), tile[1]):
                some: Sequence[int] = (channels,)
                if dims[OUTPUT] is not NONE:
                    untouched = dims[WEIGHTS] is NONE
                    some = stepped(channels, ENGINES) if untouched else (weights[0],)
                for deep in some:
                    yield {INPUT: tile, WEIGHTS: weights, OUTPUT: (tile[0], deep)}

    def shape(self, shapes: SmaugShapes) -> TileShape:
        return self.extents(self.channel_points(shapes.tiles))


class PooledRule(SmaugRule):
    """Pools: windows without weights."""

    @property
    def windows(self) -> tuple[Dimension, Dimension]:
        """Rows and columns of the input."""
        return self.operands[INPUT].dimensions[1], self.operands[INPUT].dimensions[2]

    @property
    def outputs_per_channel(self) -> int:
        """The number of output channels that read an input channel."""
        return self.wholes[OUTPUT][3] // self.wholes[INPUT][3]

    def least(self) -> Tiles:
        rows, columns = self.windows
        return {INPUT: (1, rows.window, columns.window, ENGINES), OUTPUT: (1, 1, 1, ENGINES)}

    def corrected(self, dims: Dims) -> Dims:
        output = dims[OUTPUT]
        if dims[INPUT].needs("H"):
            output = NCH if output.needs("C") else NHW if output.needs("W") else NH
        if dims[INPUT].needs("W"):
            output = NCW if output.needs("C") else NHW if output.needs("H") else NW
        return {**dims, OUTPUT: output}

    def input_tiles(self, dims: TilingDims) -> Iterator[Extents]:
        """Yield tiles of the input that hold at least a window."""
        rows, columns = self.windows
        least = (1, rows.window, columns.window, ENGINES)
        steps = (1, stride(rows), stride(columns), ENGINES)
        return enumerated(self.wholes[INPUT], self.rooms[INPUT], dims, least, steps)

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        rows, columns = self.windows
        for tile in self.input_tiles(dims[INPUT]):
            n, h, w, c = tile
            _, height, width, channels = self.wholes[OUTPUT]
            if dims[OUTPUT].needs("H"):
                height = output_points(rows, h)
            if dims[OUTPUT].needs("W"):
                width = output_points(columns, w)
            if dims[INPUT].needs("C") and dims[OUTPUT].needs("C"):
                channels = c
            yield {INPUT: tile, OUTPUT: (n, height, width, channels)}

    def shape(self, shapes: SmaugShapes) -> TileShape:
        names, tile = self.names(INPUT), shapes.tiles[INPUT]
        points = {names[0]: tile[0], names[3]: tile[3] * self.outputs_per_channel}
        grown: dict[str, tuple[int, int]] = {}
        for k, window in enumerate(self.windows, 1):
            if tile[k] < window.size:
                points[names[k]], grown[names[k]] = tile_points(window, tile[k], self.layer)
        return self.extents(points, grown)

    def nest(self, shapes: SmaugShapes) -> Nest:
        together = shapes.tiles[OUTPUT][3] == self.wholes[OUTPUT][3]
        return self.names(OUTPUT), self.depths({OUTPUT: 3 if together else 4}, 4)


class DepthwiseRule(PooledRule):
    """Depthwise convolutions, as pools with weights for the channels of a tile.

    SMAUG's engine does not run them, so this rule is penstock's.
    """

    CHANGED: ClassVar[frozenset[str]] = frozenset()

    def least(self) -> Tiles:
        return {**super().least(), WEIGHTS: (*self.wholes[WEIGHTS][:3], ENGINES)}

    def corrected(self, dims: Dims) -> Dims:
        both = dims[INPUT] if dims[INPUT] is not NONE else dims[OUTPUT]
        if dims[WEIGHTS] is not NONE and not both.needs("C"):
            if both not in WITH_CHANNELS:
                split = f"weights are split along {dims[WEIGHTS]}, the input along {both}"
                raise refused(self.layer, split)
            both = WITH_CHANNELS[both]
        return {**dims, INPUT: both, OUTPUT: both}

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        rows, columns = self.windows
        cut, (_, height, width, _) = dims[INPUT], self.wholes[OUTPUT]
        for tile in self.input_tiles(cut):
            n, h, w, c = tile
            high = output_points(rows, h + rows.before) if cut.needs("H") else height
            wide = output_points(columns, w + columns.before) if cut.needs("W") else width
            channels = c * self.outputs_per_channel
            weights = (*self.wholes[WEIGHTS][:3], channels)
            yield {INPUT: tile, WEIGHTS: weights, OUTPUT: (n, high, wide, channels)}


class ScaledRule(SmaugRule):
    """Weights per channel without a sum, as in batch normalisation."""

    CHANGED: ClassVar[frozenset[str]] = frozenset({WEIGHTS})

    def __init__(self, layer: Layer, scratchpads: Scratchpads) -> None:
        super().__init__(layer, scratchpads)
        rows, channels = self.wholes[WEIGHTS]
        if rows > 1:  # A factor and an offset suffice for a batch normalisation.
            self.wholes[WEIGHTS] = (CONSTANTS, channels)

    def least(self) -> Tiles:
        tile = (1, *(ENGINES,) * (len(self.wholes[INPUT]) - 1))
        return {INPUT: tile, WEIGHTS: (self.wholes[WEIGHTS][0], ENGINES), OUTPUT: tile}

    def corrected(self, dims: Dims) -> Dims:
        flat = len(self.wholes[INPUT]) == 2
        if dims[WEIGHTS] not in ((NONE, NC) if flat else (NONE,)):
            raise refused(self.layer, f"weights are split along {dims[WEIGHTS]}")
        return {**dims, OUTPUT: dims[INPUT]}

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        whole, weights = self.wholes[INPUT], self.wholes[WEIGHTS]
        steps = (1, *(ENGINES,) * (len(whole) - 1))
        for tile in enumerated(whole, self.rooms[INPUT], dims[INPUT], steps, steps):
            some: Sequence[int] = (weights[1],)
            if dims[WEIGHTS] is NC:
                apart = not dims[INPUT].needs("C")
                some = stepped(weights[1], ENGINES) if apart else (tile[-1],)
                if not apart and not self.rooms[WEIGHTS].holds((weights[0], tile[-1])):
                    return  # Further images are not considered, either.
            for deep in some:
                yield {INPUT: tile, WEIGHTS: (weights[0], deep), OUTPUT: tile}

    def shape(self, shapes: SmaugShapes) -> TileShape:
        tile, names = shapes.tiles[INPUT], self.names(INPUT)
        points = dict(zip(names, tile, strict=True))
        if shapes.dims[WEIGHTS] is NC:
            points[names[-1]] = min(tile[-1], shapes.tiles[WEIGHTS][1])
        return self.extents(points)

    def nest(self, shapes: SmaugShapes) -> Nest:
        order = self.names(OUTPUT)
        loops = len(order)
        whole = shapes.tiles[WEIGHTS] == self.wholes[WEIGHTS]
        data = loops if shapes.tiles[INPUT][-1] < self.wholes[INPUT][-1] else loops - 1
        depths = {INPUT: data, WEIGHTS: 0 if whole else loops, OUTPUT: data}
        return order, self.depths(depths, loops)


class ElementwiseRule(SmaugRule):
    """Element-wise layers, as one row of elements."""

    CHANGED: ClassVar[frozenset[str]] = frozenset()

    def least(self) -> Tiles:
        return {}

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        most = min(room.most - room.most % room.alignment for room in self.rooms.values())
        if most > 0:
            yield dict.fromkeys(self.wholes, (1, min(most, self.wholes[INPUT][1])))

    def shape(self, shapes: SmaugShapes) -> TileShape:
        return self.extents({self.names(OUTPUT)[1]: shapes.tiles[OUTPUT][1]})

    def nest(self, shapes: SmaugShapes) -> Nest:
        return tuple(axis.name for axis in self.layer.axes), self.depths({}, len(self.layer.axes))


class VectorsRule(SmaugRule):
    """Functions of whole vectors along the innermost dimension: as many of them as fit, first along
    the innermost of the other dimensions. SMAUG has the rule for tensors (N, C)."""

    CHANGED: ClassVar[frozenset[str]] = frozenset()

    def least(self) -> Tiles:
        return {}

    def candidates(self, dims: Dims) -> Iterator[Tiles]:
        *outer, channels = self.wholes[OUTPUT]
        most, tile = min(room.most for room in self.rooms.values()), [1] * len(outer)
        size = self.rooms[OUTPUT].size((channels,))
        for k in reversed(range(len(outer))):
            tile[k] = min(outer[k], most // size)
            size *= tile[k]
            if tile[k] < outer[k]:
                break
        if 0 not in tile:
            yield dict.fromkeys(self.wholes, (*tile, channels))

    def shape(self, shapes: SmaugShapes) -> TileShape:
        return self.extents(dict(zip(self.names(OUTPUT), shapes.tiles[OUTPUT], strict=True)))

    def nest(self, shapes: SmaugShapes) -> Nest:
        return self.names(OUTPUT), self.depths({}, len(self.layer.axes))


def select_rule(layer: Layer, scratchpads: Scratchpads) -> SmaugRule:
    """Return the rule for a layer. Raises UnsupportedError if SMAUG has none."""
    if any(len(memory.roles) > 1 for memory in scratchpads.scratchpads):
        raise refused(layer, "tensors share a scratchpad")
    kinds = {operand.role: operand for operand in reversed(layer.operands)}
    if INPUT not in kinds:
        raise refused(layer, "it reads only weights")
    rank = len(kinds[INPUT].dimensions)
    if rank == 2 and flattened(layer) and layer.output.shape[0] == 1:
        return ElementwiseRule(layer, scratchpads)
    if kinds[INPUT].dimensions[-1].axis is None and kinds[INPUT].shape == layer.output.shape:
        return VectorsRule(layer, scratchpads)
    weights = [o for o in layer.inputs if o.role == WEIGHTS and len(o.dimensions) > 1]
    if weights:
        rules: dict[tuple[bool, int, int], type[SmaugRule]] = {
            (True, 4, 4): WindowedRule,
            (True, 2, 2): ConnectedRule,
            (False, 4, 2): ScaledRule,
            (False, 2, 2): ScaledRule,
        }
        if all(d.axis is None for d in weights[0].dimensions[:3]):
            rules[False, 4, 4] = DepthwiseRule
        if rule := rules.get((bool(layer.reduced), rank, len(weights[0].dimensions))):
            return rule(layer, scratchpads)
    elif not layer.reduced and rank == 4 and len(layer.inputs) == 1:
        return PooledRule(layer, scratchpads)
    raise refused(layer, "its combination of tensors matches none of SMAUG's operators")


def refused(layer: Layer, what: str) -> UnsupportedError:
    """Return the error for a layer that SMAUG's rules do not cover."""
    return UnsupportedError(
        "tiling-006",
        f"SMAUG has no rule for this layer: {what}",
        where=f'layer "{layer.name}"',
        why="it tiles windows and products of (N, H, W, C) or (N, C) tensors with separate "
        "scratchpads, and rows of elements",
        help="use LeastTraffic, which tiles any layer, or flatten the layer",
    )


def _room(
    layer: Layer, scratchpads: Scratchpads, operand: LayerOperand, *, keeps_padding: bool
) -> TileCapacity:
    """Return the capacity for tiles of an operand: the scratchpad minus the other operands of its
    role, which are stored whole."""
    memory = scratchpads.of(operand.role)
    same_role = [o for o in layer.operands if scratchpads.of(o.role) is memory]
    others = sum(
        math.prod(o.shape) * o.element_bytes
        for o in same_role
        if o.dimensions != operand.dimensions
    )
    alike = sum(o.dimensions == operand.dimensions for o in same_role)
    copies = 2 if scratchpads.double_buffered else 1
    return TileCapacity(
        max(0, memory.size_bytes - others) // (operand.element_bytes * copies * alike),
        memory.alignment,
        -operand.shape[-1] % memory.alignment if keeps_padding else None,
    )
