"""Cuts: where tiles begin and end along each axis; and TileShape, which says it in few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.ir.region import Interval

Cut = tuple[int, ...]
"""Of one axis: 0, then where each tile ends; so tile k is [cut[k], cut[k + 1])."""


@dataclass(frozen=True, slots=True)
class TileShape:
    """Points of a tile along each axis of the layer.  `grown`: by how many the first and the last
    are larger; empty where none are.

    >>> TileShape((7,), ((1, 0),)).cuts((64,))
    ((0, 8, 15, 22, 29, 36, 43, 50, 57, 64),)
    """

    extents: tuple[int, ...]
    grown: tuple[tuple[int, int], ...] = ()

    def cuts(self, extents: Sequence[int]) -> tuple[Cut, ...]:
        """The cuts of axes of those extents; last tiles are as much smaller as it takes."""
        grown = self.grown or ((0, 0),) * len(extents)
        return tuple(
            cut_axis(extent, tile, *more)
            for extent, tile, more in zip(extents, self.extents, grown, strict=True)
        )


def cut_axis(extent: int, tile: int, first: int = 0, last: int = 0) -> Cut:
    """The cut of an axis in tiles of `tile` points, the first with `first` more, the last with at
    most `last` more."""
    ends = [0]
    reach = tile + first
    while extent > ends[-1] + reach + last:
        ends.append(ends[-1] + reach)
        reach = tile
    return (*ends, extent)


def intervals(cut: Cut) -> tuple[Interval, ...]:
    """The tiles of a cut.

    >>> intervals((0, 8, 10))
    ((0, 8), (8, 10))
    """
    return tuple(pairwise(cut))
