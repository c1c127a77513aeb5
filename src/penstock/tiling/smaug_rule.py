"""The interface of SMAUG's rules, and the choice of tile shapes that all rules share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import UnsupportedError
from penstock.tiling.cuts import TileShape
from penstock.tiling.layer import WEIGHTS, Layer, LayerOperand
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.smaug_dims import Extents, TileCapacity, TilingDims, preferred
from penstock.tiling.smaug_windows import Piece, overlapping_pieces, padding_after
from penstock.tiling.tiler import Nest, does_not_fit

ENGINES = 8
"""Number of output channels computed in parallel; also the vector width."""
CHANNELS = 32
"""Number of input channels summed in parallel."""


@dataclass(frozen=True, slots=True)
class SmaugShapes:
    """The dimensions that SMAUG splits and the tile shape, by role."""

    dims: dict[str, TilingDims]
    tiles: dict[str, Extents]


class SmaugRule:
    """Tiling rule for one kind of layer; the base class of those in `smaug_rules.py`."""

    def __init__(self, layer: Layer, scratchpads: Scratchpads) -> None:
        self.layer = layer
        self.operands = _operands(layer)
        self.rooms = {
            role: _room(layer, scratchpads, operand) for role, operand in self.operands.items()
        }
        self.wholes = {role: operand.shape for role, operand in self.operands.items()}

    def least(self) -> dict[str, Extents]:
        """Return the smallest useful tile of each tensor, by role."""
        raise NotImplementedError

    def corrected(self, dims: dict[str, TilingDims]) -> dict[str, TilingDims]:
        """Return the split dimensions, made consistent between tensors."""
        return dims

    def candidates(self, dims: dict[str, TilingDims]) -> Iterator[dict[str, Extents]]:
        """Yield consistent tile shapes of all tensors, by role."""
        raise NotImplementedError

    def nest(self, shapes: SmaugShapes) -> Nest:
        """Return loop order and depths of the operands."""
        raise NotImplementedError

    def shape(self, shapes: SmaugShapes) -> TileShape:
        """Return the points along each axis of the layer that a tile covers."""
        raise NotImplementedError

    def choose(self) -> SmaugShapes:
        """Return the first candidate that occupies the most memory. Raises CapacityError if none
        fits."""
        dims: dict[str, TilingDims] = {}
        for role, least in self.least().items():
            found = preferred(self.wholes[role], self.rooms[role], least)
            if found is None:
                raise does_not_fit(self.layer, f"no split dimensions make a tile of the {role} fit")
            dims[role] = found
        dims = self.corrected(dims)
        best: dict[str, Extents] | None = None
        for tiles in self.candidates(dims):
            fits = all(self.rooms[role].holds(tile) for role, tile in tiles.items())
            if fits and (best is None or self._filled(tiles) > self._filled(best)):
                best = tiles
        if best is None:
            words = ", ".join(f"{role} {found}" for role, found in dims.items())
            raise does_not_fit(
                self.layer, f"SMAUG's split dimensions ({words}) have no tile that fits"
            )
        return SmaugShapes(dims, best)

    def pieces(self, shapes: SmaugShapes, role: str) -> tuple[tuple[Piece, ...], ...]:
        """Return the pieces into which SMAUG splits each dimension of a tensor."""
        dimensions, tile = self.operands[role].dimensions, shapes.tiles[role]
        extents = {axis.name: axis.extent for axis in self.layer.axes}
        return tuple(
            overlapping_pieces(d, n, padding_after(d, extents.get(d.axis or "", 1)))
            for d, n in zip(dimensions, tile, strict=True)
        )

    def refuse(self, what: str) -> UnsupportedError:
        """Return the error for a layer that SMAUG does not support."""
        return refused(self.layer, what)

    def _filled(self, tiles: dict[str, Extents]) -> int:
        return sum(self.rooms[role].size(tile) for role, tile in tiles.items())

    def depths(self, by_role: dict[str, int], loops: int) -> tuple[int, ...]:
        """Return the depth of each operand. Operands unknown to SMAUG follow all loops."""
        known = {self.operands[role].name: depth for role, depth in by_role.items()}
        return tuple(known.get(operand.name, loops) for operand in self.layer.operands)

    def extents(self, points: dict[str, int], grown: dict[str, tuple[int, int]]) -> TileShape:
        """Return the tile shape with the given points along the named axes, and whole other
        axes."""
        axes = self.layer.axes
        extents = tuple(points.get(axis.name, axis.extent) for axis in axes)
        more = tuple(grown.get(axis.name, (0, 0)) for axis in axes)
        return TileShape(extents, more if any(map(any, more)) else ())


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


def _operands(layer: Layer) -> dict[str, LayerOperand]:
    """Return the operands known to SMAUG: the first of each role; weights need two dimensions."""
    known = [o for o in layer.operands if o.role != WEIGHTS or len(o.dimensions) > 1]
    return {operand.role: operand for operand in reversed(known)}


def _room(layer: Layer, scratchpads: Scratchpads, operand: LayerOperand) -> TileCapacity:
    """Return the capacity for tiles of an operand: the scratchpad minus the other operands of its
    role, which are stored whole."""
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
    return TileCapacity(
        max(0, memory.size_bytes - others) // (size * copies * alike), memory.alignment
    )
