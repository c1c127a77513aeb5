"""tiles: rows of a tensor at arbitrary addresses, as a feature map of the NPU. A feature map
consists of at most two tiles: the first rows at a constant pitch (distance in bytes), and the
remaining rows at the same pitch from another address.

A ring buffer that wraps around is therefore a single feature map. Any three rows form a feature map
as well: one tile consists of two consecutive rows, the other of the remaining row. The pitch is the
difference of the addresses of the two rows, which may be negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# Maximum number of rows that always form a single feature map, whatever their addresses.
MOST_SCATTERED_ROWS = 3


class MapTiles(NamedTuple):
    """The one or two tiles that form a feature map.

    pitch: distance in bytes between consecutive rows of a tile.
    height: number of rows of the first tile; the second tile has the remaining rows.
    first: offset in bytes of the first tile in its memory region.
    second: offset in bytes of the second tile in this region; 0 if there is no second tile.
    stride: distance in bytes between columns in NHWC, or between blocks of channels in NHCWB16; 0
        if the feature map is as wide and as deep as the tensor."""

    pitch: int
    height: int
    first: int
    second: int
    stride: int = 0


def tiles_of(offsets: Sequence[int], row_bytes: int, *, backwards: bool = False) -> MapTiles | None:
    """Return the feature map of the rows that begin at the byte offsets `offsets`, or None if these
    rows need more than two tiles.

    A positive pitch is preferred; among the solutions with a positive pitch, a larger first tile is
    preferred.

    row_bytes: the pitch of the result if each tile has at most one row.
    backwards: permits a negative pitch if no positive pitch is possible.

    >>> tiles_of([64, 96, 0, 32], 32)
    MapTiles(pitch=32, height=2, first=64, second=0, stride=0)
    >>> tiles_of([7, 64, 0], 32)
    MapTiles(pitch=57, height=2, first=7, second=0, stride=0)
    >>> tiles_of([64, 0, 32], 32)
    MapTiles(pitch=32, height=1, first=64, second=0, stride=0)
    >>> tiles_of([64, 32, 0], 32), tiles_of([64, 32, 0], 32, backwards=True)
    (None, MapTiles(pitch=-32, height=3, first=64, second=0, stride=0))
    """
    if isinstance(offsets, range):  # in one piece
        return MapTiles(offsets.step, len(offsets), offsets.start, 0)
    longest = _constant_pitch_rows(offsets)
    backward: MapTiles | None = None
    for height in range(longest, 0, -1)[:2]:
        tiles = _with_first_tile(offsets, height, row_bytes)
        if tiles is not None and tiles.pitch > 0:
            return tiles
        backward = backward or tiles
    return backward if backwards else None


def _with_first_tile(offsets: Sequence[int], height: int, row_bytes: int) -> MapTiles | None:
    """The feature map whose first tile consists of the first `height` rows and whose second
    tile consists of the remaining rows, or None if the pitch is not the same throughout both tiles.
    """
    pitches = {*_steps(offsets[:height]), *_steps(offsets[height:])} or {row_bytes}
    if len(pitches) > 1:
        return None
    (pitch,) = pitches
    return MapTiles(pitch, height, offsets[0], offsets[height] if height < len(offsets) else 0)


def _steps(offsets: Sequence[int]) -> set[int]:
    return {b - a for a, b in pairwise(offsets)}


def _constant_pitch_rows(offsets: Sequence[int]) -> int:
    steps = [b - a for a, b in pairwise(offsets)]
    return 1 + next((k for k, step in enumerate(steps) if step != steps[0]), len(steps))
