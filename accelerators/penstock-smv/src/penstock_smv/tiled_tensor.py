"""TiledTensor: a tensor divided into tiles, which may overlap, and copies of elements in and out.

Along each dimension, a tile holds an interval of elements.  It owns the part of it that no earlier
tile owns; the rest, which tiles share, is its halo.  Sliding windows need halos:

>>> rows = TiledTensor.sliding((8,), (4,), (SlidingWindow(3, before=1, after=1),))
>>> [(tile.region.intervals, tile.padding) for tile in rows.tiles()]
[(((0, 4),), ((1, 0),)), (((2, 6),), ((0, 0),)), (((4, 8),), ((0, 1),))]

Source: SMAUG, `generateTiledTensor`, `generateTiledTensorWithStrideAndPadding`,
`generateTiledTensorPerBatchNC` and their untiling, from a description; no code is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from penstock.uma import Array, LayerOperand, Region, TileShape, Tiling, UsageError

Interval = tuple[int, int]
"""Elements [first, end) along a dimension."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A window of `size` elements that moves by `stride`, with padding elements before and after
    the tensor."""

    size: int
    stride: int = 1
    before: int = 0
    after: int = 0


@dataclass(frozen=True, slots=True)
class TileInterval:
    """A tile along one dimension: the elements that it holds and those that it owns, and the
    padding elements before and after those that it holds."""

    held: Interval
    owned: Interval
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class HaloTile:
    """A tile of a tensor: its index in the grid of tiles, the region that it holds, the region that
    it owns, and its padding by dimension."""

    index: tuple[int, ...]
    region: Region
    owned: Region
    padding: tuple[tuple[int, int], ...]

    @property
    def offset(self) -> tuple[int, ...]:
        """The index in the tensor of the first element that the tile holds."""
        return self.region.lower

    @property
    def halo(self) -> tuple[tuple[int, int], ...]:
        """By dimension, the number of held elements before and after the owned ones."""
        pairs = zip(self.region.intervals, self.owned.intervals, strict=True)
        return tuple((inner[0] - outer[0], outer[1] - inner[1]) for outer, inner in pairs)


@dataclass(frozen=True, slots=True)
class TiledTensor:
    """A tensor of shape `shape`, and the tiles along each of its dimensions.

    The tiles of the tensor are all combinations of those along the dimensions, in row-major order:
    the last dimension changes fastest."""

    shape: tuple[int, ...]
    dimensions: tuple[tuple[TileInterval, ...], ...]

    @staticmethod
    def split(shape: Sequence[int], tile: Sequence[int]) -> TiledTensor:
        """Return tiles without halos; the last one along a dimension may be smaller."""
        return TiledTensor.sliding(shape, tile, (None,) * len(shape))

    @staticmethod
    def row(shape: Sequence[int], elements: int) -> TiledTensor:
        """Return intervals of all elements of a tensor, which becomes one of shape (1, elements).

        SMAUG tiles unary and element-wise operators in this way."""
        return TiledTensor.split((1, math.prod(shape)), (1, elements))

    @staticmethod
    def sliding(
        shape: Sequence[int], tile: Sequence[int], windows: Sequence[SlidingWindow | None]
    ) -> TiledTensor:
        """Return tiles that share the elements which windows on both sides of a boundary read.

        A tile has at most `tile` elements, padding not included, and only those that its windows
        read.  The last tile also has those that no window reads.  If a stride exceeds the window,
        no tile holds the elements between two windows.

        windows: the window of each dimension, None for a dimension without."""
        if len(tile) != len(shape) or len(windows) != len(shape):
            raise _fault(f"{len(shape)} dimensions, {len(tile)} tile sizes, {len(windows)} windows")
        found = (_along(*each) for each in zip(shape, tile, windows, strict=True))
        return TiledTensor(tuple(shape), tuple(found))

    @staticmethod
    def of(tiling: Tiling, operand: LayerOperand) -> TiledTensor:
        """Return the tiles that the computation of a tiling reads of an operand, or writes."""
        found: list[tuple[TileInterval, ...]] = []
        for d in operand.dimensions:
            boxes = tiling.tiles[d.axis] if d.axis is not None else ((0, 0),)
            reads = [d.reads(box) for box in boxes]
            padding = [(max(0, -lower), max(0, upper - d.size)) for lower, upper in reads]
            found.append(_owned([d.needs(box) for box in boxes], padding))
        return TiledTensor(operand.shape, tuple(found))

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of tiles along each dimension."""
        return tuple(map(len, self.dimensions))

    def tile(self, *index: int) -> HaloTile:
        """Return the tile at an index of the grid.  Raises UsageError if there is none."""
        if len(index) != len(self.grid) or not all(
            0 <= k < n for k, n in zip(index, self.grid, strict=True)
        ):
            raise _fault(f"there is no tile {list(index)} in a grid of {list(self.grid)}")
        parts = [some[k] for some, k in zip(self.dimensions, index, strict=True)]
        return HaloTile(
            tuple(index),
            Region.of(*(part.held for part in parts)),
            Region.of(*(part.owned for part in parts)),
            tuple(part.padding for part in parts),
        )

    def tiles(self) -> Iterator[HaloTile]:
        """Yield all tiles in row-major order."""
        for index in product(*map(range, self.grid)):
            yield self.tile(*index)

    def copy_in(self, tensor: Array) -> tuple[Array, ...]:
        """Return a copy of the elements of each tile, halos included.

        A tensor of another shape with as many elements is reshaped."""
        if tensor.size != math.prod(self.shape):
            raise _fault(f"a tensor of shape {list(tensor.shape)} in tiles of {list(self.shape)}")
        whole = tensor.reshape(self.shape)
        return tuple(whole[tile.region.slices].copy() for tile in self.tiles())

    def empty_tiles(self, like: Array) -> tuple[Array, ...]:
        """Return an array of zeros for each tile, with the element type of `like`."""
        return tuple(np.zeros(tile.region.shape, like.dtype) for tile in self.tiles())

    def copy_out(self, pieces: Sequence[Array], tensor: Array) -> None:
        """Copy the elements that each tile owns to a tensor of shape `shape`.

        Elements of the tensor that no tile holds do not change.  Raises UsageError if the number or
        a shape of the pieces is wrong."""
        tiles = list(self.tiles())
        if tensor.shape != self.shape or len(pieces) != len(tiles):
            raise _fault(
                f"{len(pieces)} pieces of {len(tiles)} tiles, to a tensor of shape "
                f"{list(tensor.shape)} instead of {list(self.shape)}"
            )
        for tile, piece in zip(tiles, pieces, strict=True):
            if piece.shape != tile.region.shape:
                raise _fault(
                    f"the piece of tile {list(tile.index)} has shape {list(piece.shape)}, must "
                    f"have {list(tile.region.shape)}"
                )
            inside = tile.owned.shift(tuple(-x for x in tile.offset))
            tensor[tile.owned.slices] = piece[inside.slices]

    def untiled(self, pieces: Sequence[Array]) -> Array:
        """Return the tensor that consists of pieces, one for each tile.

        Raises UsageError if there is no piece with some element, or if two pieces differ in an
        element that both hold."""
        missing = next(
            (n for n, of in zip(self._covered(), self.shape, strict=True) if n < of), None
        )
        if missing is not None:
            raise _fault("no tile holds some elements of the tensor")
        found = np.zeros(self.shape, pieces[0].dtype if pieces else np.int8)
        self.copy_out(pieces, found)
        for tile, piece in zip(self.tiles(), pieces, strict=True):
            if not np.array_equal(found[tile.region.slices], piece):
                raise _fault(f"the halo of tile {list(tile.index)} differs from other tiles")
        return found

    def _covered(self) -> Iterator[int]:
        """Yield the number of elements along each dimension that some tile owns."""
        for some in self.dimensions:
            yield sum(part.owned[1] - part.owned[0] for part in some)


def _along(size: int, tile: int, window: SlidingWindow | None) -> tuple[TileInterval, ...]:
    """Return the tiles along a dimension of `size` elements."""
    if min(size, tile) < 1:
        raise _fault(f"tiles of {tile} elements along a dimension of {size}")
    if window is None:
        (cut,) = TileShape((tile,)).cuts((size,))
        return tuple(TileInterval(part, part) for part in pairwise(cut))
    if min(window.size, window.stride) < 1 or min(window.before, window.after) < 0:
        raise _fault(f"{window} is not a window")
    if tile < min(size, window.size):
        raise _fault(f"tiles of {tile} elements are smaller than a window of {window.size}")
    held: list[Interval] = []
    padding: list[tuple[int, int]] = []
    positions = (size + window.before + window.after - window.size) // window.stride + 1
    first = 0
    while first < positions:
        start = first * window.stride - window.before
        lower = max(0, start)
        end = (lower + tile + window.before - window.size) // window.stride + 1
        end = positions if lower + tile >= size else min(positions, max(first + 1, end))
        upper = (end - 1) * window.stride - window.before + window.size
        held.append((min(lower, size), min(upper, size)))
        padding.append((lower - start, max(0, upper - size)))
        first = end
    if window.stride <= window.size:
        _hold_the_rest(held, padding, size, tile)
    return _owned(held, padding)


def _hold_the_rest(
    held: list[Interval], padding: list[tuple[int, int]], size: int, tile: int
) -> None:
    """Extend the last tile by the elements after all windows, or append tiles that hold them."""
    while held[-1][1] < size:
        lower, upper = held[-1]
        if size - lower <= tile:
            held[-1] = (lower, size)
        else:
            held.append((upper, min(size, upper + tile)))
            padding.append((0, 0))


def _owned(
    held: Sequence[Interval], padding: Sequence[tuple[int, int]]
) -> tuple[TileInterval, ...]:
    """Return tiles along a dimension, each of which owns what no earlier tile holds."""
    found: list[TileInterval] = []
    end = 0
    for interval, around in zip(held, padding, strict=True):
        lower = min(max(interval[0], end), interval[1])
        found.append(TileInterval(interval, (lower, interval[1]), around))
        end = max(end, interval[1])
    return tuple(found)


def _fault(what: str) -> UsageError:
    return UsageError(
        "tiling-009",
        what,
        where="TiledTensor",
        why="tiles are boxes of the tensor, and each piece has the elements of its tile",
        help="state tiles that are not smaller than the windows, and derive the "
        "pieces from copy_in or empty_tiles of the same tiled tensor",
    )
