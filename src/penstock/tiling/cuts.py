"""Cut: the tile boundaries along an axis.  TileShape: a compact description of all boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.ir.region import Interval

Cut = tuple[int, ...]
"""Boundaries of the tiles of an axis: 0, then the end of each tile. Tile k lies between boundary k
and boundary k + 1."""


@dataclass(frozen=True, slots=True)
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
