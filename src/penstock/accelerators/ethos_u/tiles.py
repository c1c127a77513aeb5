"""tiles: rows of a tensor at arbitrary addresses, as a feature map of the NPU.

A feature map consists of at most two tiles: `height` rows at a constant pitch, and the remaining
rows at the same pitch from another address. A ring that wraps around is therefore a single feature
map. Any three rows form a feature map as well: two of them form one tile, at any pitch because
pitches are signed, and the third forms the other tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

MOST_SCATTERED_ROWS = 3
"""Maximum number of rows that always form a single feature map, whatever their addresses."""


class MapTiles(NamedTuple):
    """The two tiles of a feature map: `height` rows from byte offset `first` on, and the remaining
    rows from byte offset `second` on; `second` is 0 if no rows remain. The pitch is the distance
    between rows of a tile in bytes."""

    pitch: int
    height: int
    first: int
    second: int


def tiles_of(offsets: Sequence[int], row_bytes: int, *, backwards: bool = False) -> MapTiles | None:
    """Return the feature map of the rows at the given byte offsets, or None if it needs more than
    two tiles.

    The pitch is positive if possible, and the first tile has as many rows as this permits.
    `row_bytes` is the pitch if no tile has two rows. `backwards` permits a negative pitch.

    >>> tiles_of([64, 96, 0, 32], 32)
    MapTiles(pitch=32, height=2, first=64, second=0)
    >>> tiles_of([7, 64, 0], 32)
    MapTiles(pitch=57, height=2, first=7, second=0)
    >>> tiles_of([64, 0, 32], 32)
    MapTiles(pitch=32, height=1, first=64, second=0)
    >>> tiles_of([64, 32, 0], 32), tiles_of([64, 32, 0], 32, backwards=True)
    (None, MapTiles(pitch=-32, height=3, first=64, second=0))
    """
    if isinstance(offsets, range):  # in one piece
        return MapTiles(offsets.step, len(offsets), offsets.start, 0)
    longest = _constant_pitch_rows(offsets)
    found = [_with_first_tile(offsets, height, row_bytes) for height in range(longest, 0, -1)[:2]]
    possible = [tiles for tiles in found if tiles is not None]
    forwards = (tiles for tiles in possible if tiles.pitch > 0)
    return next(forwards, possible[0] if possible and backwards else None)


def _with_first_tile(offsets: Sequence[int], height: int, row_bytes: int) -> MapTiles | None:
    """Return the rows at `offsets` as a feature map whose first tile has `height` rows, or None if
    the distances between rows within the two tiles are not all equal. `row_bytes` is the pitch if
    no tile has two rows."""
    pitches = {*_steps(offsets[:height]), *_steps(offsets[height:])} or {row_bytes}
    if len(pitches) > 1:
        return None
    (pitch,) = pitches
    return MapTiles(pitch, height, offsets[0], offsets[height] if height < len(offsets) else 0)


def _steps(offsets: Sequence[int]) -> set[int]:
    """Return the distinct differences between consecutive offsets."""
    return {b - a for a, b in pairwise(offsets)}


def _constant_pitch_rows(offsets: Sequence[int]) -> int:
    """Return the number of rows, from the first on, that are at a constant pitch
    (distance in bytes)."""
    steps = [b - a for a, b in pairwise(offsets)]
    return 1 + next((k for k, step in enumerate(steps) if step != steps[0]), len(steps))
