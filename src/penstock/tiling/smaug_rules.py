"""SMAUG's rules for the kinds of layers: tile shapes of all tensors, and loop order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.tiling.cuts import TileShape
from penstock.tiling.layer import INPUT, OUTPUT, WEIGHTS, Dimension
from penstock.tiling.smaug_dims import Extents, TilingDims, enumerated, stepped
from penstock.tiling.smaug_rule import CHANNELS, ENGINES, SmaugRule, SmaugShapes
from penstock.tiling.smaug_windows import (
    Piece,
    output_pieces,
    output_points,
    padding_after,
    stride,
    tile_points,
)
from penstock.tiling.tiler import Nest

NONE, N, NC = TilingDims.NONE, TilingDims.N, TilingDims.NC
NH, NW, NHW = TilingDims.NH, TilingDims.NW, TilingDims.NHW
NCH, NCW = TilingDims.NCH, TilingDims.NCW
WITH_CHANNELS = {NONE: NC, N: NC, NH: NCH, NW: NCW}
"""Split dimensions, by those that are split besides channels."""


class SummedRule(SmaugRule):
    """Base of the rules with weights that are summed over C."""

    def weight_tiles(self, dims: TilingDims, cut: bool, channels: int) -> Iterator[Extents]:
        """Yield tiles of the weights for an input tile of `channels`. If `cut`, C is split."""
        whole, room = self.wholes[WEIGHTS], self.rooms[WEIGHTS]
        if dims is NONE:
            yield (*whole[:-1], channels if cut else whole[-1])
            return
        for outputs in stepped(whole[0], ENGINES):
            some = (channels,)
            if dims is NC and not cut:
                some = stepped(whole[-1], CHANNELS)
            for deep in some:
                tile = (outputs, *whole[1:-1], deep)
                if not room.holds(tile):
                    break
                yield tile

    def summed_nest(self, shapes: SmaugShapes, order: tuple[str, ...], outputs: int) -> Nest:
        """Return the loop nest with C innermost; `outputs` is the index of the loop over output
        channels."""
        tiles, loops = shapes.tiles, len(order)
        apart = tiles[INPUT][-1] == self.wholes[INPUT][-1]
        depths = {
            INPUT: loops - 1 if apart else loops,
            WEIGHTS: outputs if tiles[WEIGHTS] == self.wholes[WEIGHTS] else loops,
            OUTPUT: 0 if tiles[OUTPUT] == self.wholes[OUTPUT] else loops,
        }
        return order, self.depths(depths, loops)


class WindowedRule(SummedRule):
    """Convolutions: weights with windows, summed over C."""

    def least(self) -> dict[str, Extents]:
        _, _, columns, _ = self.wholes[INPUT]
        taps = self.wholes[WEIGHTS][1:3]
        return {
            INPUT: (1, self.rows.window, columns, CHANNELS),
            WEIGHTS: (ENGINES, *taps, CHANNELS),
            OUTPUT: (1, 1, self.wholes[OUTPUT][2], ENGINES),
        }

    @property
    def rows(self) -> Dimension:
        return self.operands[INPUT].dimensions[1]

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        if dims[WEIGHTS] not in (NONE, N, NC):
            raise self.refuse(f"weights are split along {dims[WEIGHTS]}")
        output = NC if dims[WEIGHTS] is not NONE else dims[OUTPUT]
        if dims[INPUT].needs("H"):
            output = NCH if output.needs("C") else NH
        return {**dims, OUTPUT: output}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        cut, whole = dims[INPUT], self.wholes[INPUT]
        if cut.needs("W"):
            cut = NONE
        least = (1, self.rows.window, whole[2], CHANNELS)
        steps = (1, stride(self.rows), 1, CHANNELS)
        for tile in enumerated(whole, self.rooms[INPUT], cut, least, steps):
            for weights in self.weight_tiles(dims[WEIGHTS], cut.needs("C"), tile[3]):
                for output in self._output_tiles(dims, tile, weights):
                    yield {INPUT: tile, WEIGHTS: weights, OUTPUT: output}

    def _output_tiles(
        self, dims: dict[str, TilingDims], tile: Extents, weights: Extents
    ) -> Iterator[Extents]:
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
        n, h, _, _ = shapes.tiles[INPUT]
        deep = min(shapes.tiles[INPUT][3], shapes.tiles[WEIGHTS][3])
        wide = min(shapes.tiles[WEIGHTS][0], shapes.tiles[OUTPUT][3])
        names = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        summed = self.operands[INPUT].dimensions[3].axis or ""
        points = {names[0]: n, names[3]: wide, summed: deep}
        grown: dict[str, tuple[int, int]] = {}
        if h < self.wholes[INPUT][1]:
            points[names[1]], grown[names[1]] = tile_points(self.rows, h, self.layer)
        return self.extents(points, grown)

    def nest(self, shapes: SmaugShapes) -> Nest:
        outputs = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        order = (*outputs, self.operands[INPUT].dimensions[3].axis or "")
        return self.summed_nest(shapes, order, 3)


class ConnectedRule(SummedRule):
    """Fully connected layers: weights summed over C, no rows."""

    def least(self) -> dict[str, Extents]:
        return {INPUT: (1, CHANNELS), WEIGHTS: (ENGINES, CHANNELS), OUTPUT: (1, ENGINES)}

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        both = dims[WEIGHTS] is not NONE and dims[OUTPUT] is not NONE
        return {**dims, OUTPUT: NC} if both else dims

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        cut, room = dims[INPUT], self.rooms[INPUT]
        channels = self.wholes[OUTPUT][1]
        for tile in enumerated(self.wholes[INPUT], room, cut, (1, CHANNELS), (1, CHANNELS)):
            for weights in self.weight_tiles(dims[WEIGHTS], cut.needs("C"), tile[1]):
                some: Sequence[int] = (channels,)
                if dims[OUTPUT] is NC:
                    untouched = dims[WEIGHTS] is NONE
                    some = stepped(channels, ENGINES) if untouched else (weights[0],)
                for deep in some:
                    yield {INPUT: tile, WEIGHTS: weights, OUTPUT: (tile[0], deep)}

    def shape(self, shapes: SmaugShapes) -> TileShape:
        n, wide = (d.axis or "" for d in self.operands[OUTPUT].dimensions)
        summed = self.operands[INPUT].dimensions[1].axis or ""
        tiles = shapes.tiles
        points = {
            n: tiles[INPUT][0],
            wide: min(tiles[WEIGHTS][0], tiles[OUTPUT][1]),
            summed: min(tiles[INPUT][1], tiles[WEIGHTS][1]),
        }
        return self.extents(points, {})

    def nest(self, shapes: SmaugShapes) -> Nest:
        outputs = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        order = (*outputs, self.operands[INPUT].dimensions[1].axis or "")
        return self.summed_nest(shapes, order, 1)


class PooledRule(SmaugRule):
    """Pools: windows without weights."""

    @property
    def outputs_per_channel(self) -> int:
        """The number of output channels that read an input channel."""
        return self.wholes[OUTPUT][3] // self.wholes[INPUT][3]

    def least(self) -> dict[str, Extents]:
        rows, columns = self.operands[INPUT].dimensions[1:3]
        return {INPUT: (1, rows.window, columns.window, ENGINES), OUTPUT: (1, 1, 1, ENGINES)}

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        output = dims[OUTPUT]
        if dims[INPUT].needs("H"):
            output = NCH if output.needs("C") else NHW if output.needs("W") else NH
        if dims[INPUT].needs("W"):
            output = NCW if output.needs("C") else NHW if output.needs("H") else NW
        return {**dims, OUTPUT: output}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        rows, columns = self.operands[INPUT].dimensions[1:3]
        least = (1, rows.window, columns.window, ENGINES)
        steps = (1, stride(rows), stride(columns), ENGINES)
        for tile in enumerated(self.wholes[INPUT], self.rooms[INPUT], dims[INPUT], least, steps):
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
        dimensions, tile = self.operands[INPUT].dimensions, shapes.tiles[INPUT]
        names = [d.axis or "" for d in dimensions]
        channels = tile[3] * self.outputs_per_channel
        points, grown = {names[0]: tile[0], names[3]: channels}, dict[str, tuple[int, int]]()
        for k in (1, 2):
            if tile[k] < dimensions[k].size:
                points[names[k]], grown[names[k]] = tile_points(dimensions[k], tile[k], self.layer)
        return self.extents(points, grown)

    def nest(self, shapes: SmaugShapes) -> Nest:
        order = tuple(d.axis or "" for d in self.operands[OUTPUT].dimensions)
        together = shapes.tiles[OUTPUT][3] == self.wholes[OUTPUT][3]
        return order, self.depths({OUTPUT: 3 if together else 4}, 4)


class DepthwiseRule(PooledRule):
    """Depthwise convolutions, as pools with weights for the channels of a tile.

    SMAUG's engine does not run them, so this rule is penstock's.
    """

    def least(self) -> dict[str, Extents]:
        return {**super().least(), WEIGHTS: (*self.wholes[WEIGHTS][:3], ENGINES)}

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        both = dims[INPUT] if dims[INPUT] is not NONE else dims[OUTPUT]
        if dims[WEIGHTS] is not NONE and not both.needs("C"):
            if both not in WITH_CHANNELS:
                raise self.refuse(
                    f"weights are split along {dims[WEIGHTS]}, the input along {both}"
                )
            both = WITH_CHANNELS[both]
        return {**dims, INPUT: both, OUTPUT: both}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        rows, columns = self.operands[INPUT].dimensions[1:3]
        least = (1, rows.window, columns.window, ENGINES)
        steps = (1, stride(rows), stride(columns), ENGINES)
        cut, (_, height, width, _) = dims[INPUT], self.wholes[OUTPUT]
        for tile in enumerated(self.wholes[INPUT], self.rooms[INPUT], cut, least, steps):
            n, h, w, c = tile
            high = output_points(rows, h + rows.before) if cut.needs("H") else height
            wide = output_points(columns, w + columns.before) if cut.needs("W") else width
            channels = c * self.outputs_per_channel
            weights = (*self.wholes[WEIGHTS][:3], channels)
            yield {INPUT: tile, WEIGHTS: weights, OUTPUT: (n, high, wide, channels)}


class ScaledRule(SmaugRule):
    """Weights per channel without a sum, as in batch normalisation."""

    def least(self) -> dict[str, Extents]:
        flat = len(self.wholes[INPUT]) == 2
        tile = (1, ENGINES) if flat else (1, ENGINES, ENGINES, ENGINES)
        return {INPUT: tile, WEIGHTS: (self.wholes[WEIGHTS][0], ENGINES), OUTPUT: tile}

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        flat = len(self.wholes[INPUT]) == 2
        if dims[WEIGHTS] not in ((NONE, NC) if flat else (NONE,)):
            raise self.refuse(f"weights are split along {dims[WEIGHTS]}")
        return {**dims, OUTPUT: dims[INPUT]}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        whole, weights = self.wholes[INPUT], self.wholes[WEIGHTS]
        steps = (1, *(ENGINES,) * (len(whole) - 1))
        for tile in enumerated(whole, self.rooms[INPUT], dims[INPUT], steps, steps):
            some: Sequence[int] = (weights[1],)
            if dims[WEIGHTS] is NC:
                apart = not dims[INPUT].needs("C")
                some = stepped(weights[1], ENGINES) if apart else (tile[-1],)
            for deep in some:
                yield {INPUT: tile, WEIGHTS: (weights[0], deep), OUTPUT: tile}

    def shape(self, shapes: SmaugShapes) -> TileShape:
        tile, names = shapes.tiles[INPUT], [d.axis or "" for d in self.operands[INPUT].dimensions]
        points = dict(zip(names, tile, strict=True))
        if shapes.dims[WEIGHTS] is NC:
            points[names[-1]] = min(tile[-1], shapes.tiles[WEIGHTS][1])
        return self.extents(points, {})

    def nest(self, shapes: SmaugShapes) -> Nest:
        order = tuple(d.axis or "" for d in self.operands[OUTPUT].dimensions)
        loops = len(order)
        whole = shapes.tiles[WEIGHTS] == self.wholes[WEIGHTS]
        data = loops if shapes.tiles[INPUT][-1] < self.wholes[INPUT][-1] else loops - 1
        return order, self.depths(
            {INPUT: data, WEIGHTS: 0 if whole else loops, OUTPUT: data}, loops
        )


class ElementwiseRule(SmaugRule):
    """Element-wise layers, as one row of elements."""

    def least(self) -> dict[str, Extents]:
        return {}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        most = min(room.most - room.most % room.alignment for room in self.rooms.values())
        if most > 0:
            yield dict.fromkeys(self.wholes, (1, min(most, self.wholes[INPUT][1])))

    def shape(self, shapes: SmaugShapes) -> TileShape:
        axis = self.operands[OUTPUT].dimensions[1].axis or ""
        return self.extents({axis: shapes.tiles[OUTPUT][1]}, {})

    def nest(self, shapes: SmaugShapes) -> Nest:
        loops = len(self.layer.axes)
        return tuple(axis.name for axis in self.layer.axes), self.depths({}, loops)
