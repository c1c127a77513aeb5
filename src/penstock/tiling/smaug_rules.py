"""SMAUG's rules: which tiles go together, and how loops stand; see `smaug.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.tiling.cuts import TileShape
from penstock.tiling.layer import INPUT, OUTPUT, WEIGHTS, Dimension, Layer, Operand
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.smaug_dims import Extents, Room, TilingDims, enumerated, preferred, stepped
from penstock.tiling.tiler import Nest, does_not_fit

ENGINES = 8
"""Outputs that are computed at once; also the width of a vector."""
CHANNELS = 32
"""Channels that are summed up at once."""
NONE, N, NC = TilingDims.NONE, TilingDims.N, TilingDims.NC
NH, NW, NHW = TilingDims.NH, TilingDims.NW, TilingDims.NHW
NCH, NCW = TilingDims.NCH, TilingDims.NCW


@dataclass(frozen=True, slots=True)
class Shapes:
    """SMAUG's answer: dimensions that are cut and shape of a tile, by role."""

    dims: dict[str, TilingDims]
    tiles: dict[str, Extents]


Piece = tuple[int, int]
"""Of one dimension of a tensor: where a tile starts, and its elements."""


class Rule:
    """What SMAUG does with layers of one kind; a rule for each kind is below."""

    def __init__(self, layer: Layer, scratchpads: Scratchpads) -> None:
        self.layer = layer
        self.operands = _operands(layer)
        self.rooms = {
            role: _room(layer, scratchpads, operand) for role, operand in self.operands.items()
        }
        self.wholes = {role: operand.shape for role, operand in self.operands.items()}

    def least(self) -> dict[str, Extents]:
        """By role, the least tile that is of use."""
        raise NotImplementedError

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        """The dimensions that go together."""
        return dims

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        """Tiles of all tensors that go together."""
        raise NotImplementedError

    def nest(self, shapes: Shapes) -> Nest:
        """Order of the loops and depths of the operands."""
        raise NotImplementedError

    def shape(self, shapes: Shapes) -> TileShape:
        """Points along each axis of the layer that the tiles make."""
        raise NotImplementedError

    def choose(self) -> Shapes:
        """The candidate that takes the most room.  Raises CapacityError."""
        dims: dict[str, TilingDims] = {}
        for role, least in self.least().items():
            found = preferred(self.wholes[role], self.rooms[role], least)
            if found is None:
                raise does_not_fit(self.layer, f"no dimensions make a tile of the {role} small")
            dims[role] = found
        dims = self.corrected(dims)
        best: dict[str, Extents] | None = None
        for tiles in self.candidates(dims):
            fits = all(self.rooms[role].holds(tile) for role, tile in tiles.items())
            if fits and (best is None or self._filled(tiles) > self._filled(best)):
                best = tiles
        if best is None:
            words = ", ".join(f"{role} {found}" for role, found in dims.items())
            raise does_not_fit(self.layer, f"SMAUG's dimensions ({words}) have no tile that does")
        return Shapes(dims, best)

    def pieces(self, shapes: Shapes, role: str) -> tuple[tuple[Piece, ...], ...]:
        """By dimension, into which pieces SMAUG cuts a tensor."""
        dimensions, tile = self.operands[role].dimensions, shapes.tiles[role]
        extents = {axis.name: axis.extent for axis in self.layer.axes}
        return tuple(
            _pieces(d, n, _after(d, extents.get(d.axis or "", 1)))
            for d, n in zip(dimensions, tile, strict=True)
        )

    def refuse(self, what: str) -> UsageError:
        """The error that says what SMAUG does not do."""
        return refused(self.layer, what)

    def _filled(self, tiles: dict[str, Extents]) -> int:
        return sum(self.rooms[role].size(tile) for role, tile in tiles.items())

    def depths(self, by_role: dict[str, int], loops: int) -> tuple[int, ...]:
        """By operand: of those that SMAUG knows, as said; others follow every loop."""
        known = {self.operands[role].name: depth for role, depth in by_role.items()}
        return tuple(known.get(operand.name, loops) for operand in self.layer.operands)

    def extents(self, points: dict[str, int], grown: dict[str, tuple[int, int]]) -> TileShape:
        """The shape of a tile of so many points along the axes that are named."""
        axes = self.layer.axes
        extents = tuple(points.get(axis.name, axis.extent) for axis in axes)
        more = tuple(grown.get(axis.name, (0, 0)) for axis in axes)
        return TileShape(extents, more if any(map(any, more)) else ())


class Summed(Rule):
    """What rules with weights that are summed over share."""

    def weight_tiles(self, dims: TilingDims, cut: bool, channels: int) -> Iterator[Extents]:
        """For an input tile of so many channels; `cut`: whether it is cut along them."""
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

    def summed_nest(self, shapes: Shapes, order: tuple[str, ...], outputs: int) -> Nest:
        """Loops with C innermost and the outputs' around it, which is loop number `outputs`."""
        tiles, loops = shapes.tiles, len(order)
        apart = tiles[INPUT][-1] == self.wholes[INPUT][-1]
        depths = {
            INPUT: loops - 1 if apart else loops,
            WEIGHTS: outputs if tiles[WEIGHTS] == self.wholes[WEIGHTS] else loops,
            OUTPUT: 0 if tiles[OUTPUT] == self.wholes[OUTPUT] else loops,
        }
        return order, self.depths(depths, loops)


class Windowed(Summed):
    """Weights in windows, summed over C."""

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
            raise self.refuse(f"weights are cut along {dims[WEIGHTS]}")
        output = NC if dims[WEIGHTS] is not NONE else dims[OUTPUT]
        if dims[INPUT].needs("H"):
            output = NCH if output.needs("C") else NH
        return {**dims, OUTPUT: output}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        cut, whole = dims[INPUT], self.wholes[INPUT]
        if cut.needs("W"):
            cut = NONE
        least = (1, self.rows.window, whole[2], CHANNELS)
        steps = (1, _stride(self.rows), 1, CHANNELS)
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
            rows = _outputs(self.rows, tile[1] + self.rows.before)
        elif dims[WEIGHTS] is NONE:
            some = (channels,) if dims[OUTPUT] is NONE else stepped(channels, ENGINES)
        for deep in some:
            yield (tile[0], rows, columns, deep)

    def pieces(self, shapes: Shapes, role: str) -> tuple[tuple[Piece, ...], ...]:
        found = super().pieces(shapes, role)
        if role != OUTPUT or not shapes.dims[OUTPUT].needs("H"):
            return found
        after = _after(self.rows, self.wholes[OUTPUT][1])
        rows = _rows_made(self.rows, [n for _, n in self.pieces(shapes, INPUT)[1]], after)
        return (found[0], rows, *found[2:])

    def shape(self, shapes: Shapes) -> TileShape:
        n, h, _, _ = shapes.tiles[INPUT]
        deep = min(shapes.tiles[INPUT][3], shapes.tiles[WEIGHTS][3])
        wide = min(shapes.tiles[WEIGHTS][0], shapes.tiles[OUTPUT][3])
        names = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        summed = self.operands[INPUT].dimensions[3].axis or ""
        points = {names[0]: n, names[3]: wide, summed: deep}
        grown: dict[str, tuple[int, int]] = {}
        if h < self.wholes[INPUT][1]:
            points[names[1]], grown[names[1]] = _rows(self.rows, h, self.layer)
        return self.extents(points, grown)

    def nest(self, shapes: Shapes) -> Nest:
        outputs = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        order = (*outputs, self.operands[INPUT].dimensions[3].axis or "")
        return self.summed_nest(shapes, order, 3)


class Connected(Summed):
    """Weights that are summed over C; no rows."""

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

    def shape(self, shapes: Shapes) -> TileShape:
        n, wide = (d.axis or "" for d in self.operands[OUTPUT].dimensions)
        summed = self.operands[INPUT].dimensions[1].axis or ""
        tiles = shapes.tiles
        points = {
            n: tiles[INPUT][0],
            wide: min(tiles[WEIGHTS][0], tiles[OUTPUT][1]),
            summed: min(tiles[INPUT][1], tiles[WEIGHTS][1]),
        }
        return self.extents(points, {})

    def nest(self, shapes: Shapes) -> Nest:
        outputs = [d.axis or "" for d in self.operands[OUTPUT].dimensions]
        order = (*outputs, self.operands[INPUT].dimensions[1].axis or "")
        return self.summed_nest(shapes, order, 1)


class Pooled(Rule):
    """Windows without weights."""

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
        steps = (1, _stride(rows), _stride(columns), ENGINES)
        for tile in enumerated(self.wholes[INPUT], self.rooms[INPUT], dims[INPUT], least, steps):
            n, h, w, c = tile
            _, height, width, channels = self.wholes[OUTPUT]
            if dims[OUTPUT].needs("H"):
                height = _outputs(rows, h)
            if dims[OUTPUT].needs("W"):
                width = _outputs(columns, w)
            if dims[INPUT].needs("C") and dims[OUTPUT].needs("C"):
                channels = c
            yield {INPUT: tile, OUTPUT: (n, height, width, channels)}

    def shape(self, shapes: Shapes) -> TileShape:
        dimensions, tile = self.operands[INPUT].dimensions, shapes.tiles[INPUT]
        names = [d.axis or "" for d in dimensions]
        points, grown = {names[0]: tile[0], names[3]: tile[3]}, dict[str, tuple[int, int]]()
        for k in (1, 2):
            if tile[k] < dimensions[k].size:
                points[names[k]], grown[names[k]] = _rows(dimensions[k], tile[k], self.layer)
        return self.extents(points, grown)

    def nest(self, shapes: Shapes) -> Nest:
        order = tuple(d.axis or "" for d in self.operands[OUTPUT].dimensions)
        together = shapes.tiles[OUTPUT][3] == self.wholes[OUTPUT][3]
        return order, self.depths({OUTPUT: 3 if together else 4}, 4)


class Scaled(Rule):
    """Weights for each channel; nothing is summed."""

    def least(self) -> dict[str, Extents]:
        flat = len(self.wholes[INPUT]) == 2
        tile = (1, ENGINES) if flat else (1, ENGINES, ENGINES, ENGINES)
        return {INPUT: tile, WEIGHTS: (self.wholes[WEIGHTS][0], ENGINES), OUTPUT: tile}

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        flat = len(self.wholes[INPUT]) == 2
        if dims[WEIGHTS] not in ((NONE, NC) if flat else (NONE,)):
            raise self.refuse(f"weights are cut along {dims[WEIGHTS]}")
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

    def shape(self, shapes: Shapes) -> TileShape:
        tile, names = shapes.tiles[INPUT], [d.axis or "" for d in self.operands[INPUT].dimensions]
        points = dict(zip(names, tile, strict=True))
        if shapes.dims[WEIGHTS] is NC:
            points[names[-1]] = min(tile[-1], shapes.tiles[WEIGHTS][1])
        return self.extents(points, {})

    def nest(self, shapes: Shapes) -> Nest:
        order = tuple(d.axis or "" for d in self.operands[OUTPUT].dimensions)
        loops = len(order)
        whole = shapes.tiles[WEIGHTS] == self.wholes[WEIGHTS]
        data = loops if shapes.tiles[INPUT][-1] < self.wholes[INPUT][-1] else loops - 1
        return order, self.depths(
            {INPUT: data, WEIGHTS: 0 if whole else loops, OUTPUT: data}, loops
        )


class Flat(Rule):
    """Element by element, in one row."""

    def least(self) -> dict[str, Extents]:
        return {}

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        room = self.rooms[INPUT]
        most = room.most - room.most % room.alignment
        if most > 0:
            yield dict.fromkeys(self.wholes, (1, min(most, self.wholes[INPUT][1])))

    def shape(self, shapes: Shapes) -> TileShape:
        axis = self.operands[OUTPUT].dimensions[1].axis or ""
        return self.extents({axis: shapes.tiles[OUTPUT][1]}, {})

    def nest(self, shapes: Shapes) -> Nest:
        loops = len(self.layer.axes)
        return tuple(axis.name for axis in self.layer.axes), self.depths({}, loops)


def refused(layer: Layer, what: str) -> UsageError:
    return UsageError(
        "tiling-006",
        f"SMAUG has no rule for this layer: {what}",
        where=f'layer "{layer.name}"',
        why="it tiles windows and products of (N, H, W, C) or (N, C), each tensor in a scratchpad "
        "of its own, and rows of elements",
        help="use LeastTraffic, which tiles any layer; or flatten the layer",
    )


def _operands(layer: Layer) -> dict[str, Operand]:
    """The operands that SMAUG knows: the first of each role, weights of two dimensions at least."""
    known = [o for o in layer.operands if o.role != WEIGHTS or len(o.dimensions) > 1]
    return {operand.role: operand for operand in reversed(known)}


def _room(layer: Layer, scratchpads: Scratchpads, operand: Operand) -> Room:
    """What a tile of the operand may take: what others of its role, whole, leave of the memory."""
    memory = scratchpads.of(operand.role)
    same_role = [o for o in layer.operands if o.role == operand.role]
    others = sum(
        math.prod(o.shape) * o.element_bytes
        for o in same_role
        if o.dimensions != operand.dimensions
    )
    alike = sum(o.dimensions == operand.dimensions for o in same_role)
    summed = operand is layer.output and layer.reduced
    size = operand.unfinished_bytes if summed else operand.element_bytes
    copies = 2 if scratchpads.double_buffered else 1
    return Room(max(0, memory.size_bytes - others) // (size * copies * alike), memory.alignment)


def is_slid(operand: Operand) -> bool:
    return any(d.axis is not None and (d.window, d.factor) != (1, 1) for d in operand.dimensions)


def _stride(d: Dimension) -> int:
    return math.ceil(d.factor)


def _outputs(d: Dimension, elements: int) -> int:
    """Points that so many elements make, padding counted among them."""
    return (elements - d.window) // _stride(d) + 1


def _rows(d: Dimension, elements: int, layer: Layer) -> tuple[int, tuple[int, int]]:
    """Points of a tile of so many elements; by how many the first and the last are more."""
    points = _outputs(d, elements)
    after = d.after(layer.axis(d.axis or "").extent)
    first, last = (_outputs(d, elements + more) - points for more in (d.before, after))
    return points, (first, last)


def _after(d: Dimension, extent: int) -> int:
    """Elements of padding after the tensor, as SMAUG counts them: its SAME padding is one less than
    the window, the larger half of it before the tensor, even where no window reaches the end.
    Padding of any other form counts as far as windows read it."""
    padding = d.window - 1
    if 0 < d.before == padding - padding // 2:
        return padding // 2
    return d.after(extent)


def _pieces(d: Dimension, tile: int, after: int) -> tuple[Piece, ...]:
    """Pieces of `tile` elements that overlap by what adjacent windows share; the first of several
    only as large as its windows need, where there is padding.  Where the stride exceeds the window,
    the elements between two pieces are skipped, and those after the last window make no piece."""
    if tile >= d.size:
        return ((0, d.size),)
    shared = d.window - _stride(d) if d.axis is not None else 0
    first = tile
    if d.before + after and (moves := (tile + d.before - d.window) // _stride(d)) > 0:
        first = d.window + _stride(d) * moves - d.before
    found = [(0, first)]
    while (end := sum(found[-1])) < d.size and (start := end - shared) < d.size:
        found.append((start, min(tile, d.size - start)))
    return tuple(found)


def _rows_made(d: Dimension, inputs: Sequence[int], after: int) -> tuple[Piece, ...]:
    """Pieces of the output that pieces of so many rows make: the first is padded before, the last
    of several behind; a last one that makes no row is dropped."""
    if len(inputs) > 1 and inputs[-1] + after < d.window:
        inputs = inputs[:-1]
    made = [n + (d.before if k == 0 else 0) for k, n in enumerate(inputs)]
    if len(made) > 1:
        made[-1] += after
    rows = [_outputs(d, n) for n in made]
    return tuple((sum(rows[:k]), n) for k, n in enumerate(rows))
