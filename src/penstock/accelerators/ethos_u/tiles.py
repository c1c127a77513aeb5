"""tiles: rows of a tensor, wherever the schedule has put them, as the NPU reads and writes them.

A feature map lies in two pieces: `height` rows, `pitch` bytes apart, and the rows below them, as
far apart, somewhere else.  So a ring with its seam is one feature map, and so are any three rows,
of which some lie one before the other: strides are signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

ANYWHERE = 3
"""So many rows are two pieces wherever they lie."""


class Tiles(NamedTuple):
    """`height` rows from `first` on, the others from `second` on, in bytes."""

    pitch: int
    height: int
    first: int
    second: int


def tiles_of(offsets: Sequence[int], row_bytes: int, *, backwards: bool = False) -> Tiles | None:
    """Rows at these offsets as two pieces, of which the first is as large as can be; None where
    they need more.  `backwards`: rows of a piece may lie one before the other.

    >>> tiles_of([64, 96, 0, 32], 32)
    Tiles(pitch=32, height=2, first=64, second=0)
    >>> tiles_of([7, 64, 0], 32)
    Tiles(pitch=57, height=2, first=7, second=0)
    >>> tiles_of([64, 0, 32], 32)
    Tiles(pitch=32, height=1, first=64, second=0)
    >>> tiles_of([64, 32, 0], 32), tiles_of([64, 32, 0], 32, backwards=True)
    (None, Tiles(pitch=-32, height=3, first=64, second=0))
    """
    if isinstance(offsets, range):  # in one piece
        return Tiles(offsets.step, len(offsets), offsets.start, 0)
    longest = _even(offsets)
    found = [_cut(offsets, height, row_bytes) for height in range(longest, 0, -1)[:2]]
    possible = [tiles for tiles in found if tiles is not None]
    forwards = (tiles for tiles in possible if tiles.pitch > 0)
    return next(forwards, possible[0] if possible and backwards else None)


def _cut(offsets: Sequence[int], height: int, row_bytes: int) -> Tiles | None:
    """So many rows in the first piece; None where rows are not evenly apart then."""
    pitches = {*_steps(offsets[:height]), *_steps(offsets[height:])} or {row_bytes}
    if len(pitches) > 1:
        return None
    (pitch,) = pitches
    return Tiles(pitch, height, offsets[0], offsets[height] if height < len(offsets) else 0)


def _steps(offsets: Sequence[int]) -> set[int]:
    return {b - a for a, b in pairwise(offsets)}


def _even(offsets: Sequence[int]) -> int:
    """How many of the first rows lie evenly apart."""
    steps = [b - a for a, b in pairwise(offsets)]
    return 1 + next((k for k, step in enumerate(steps) if step != steps[0]), len(steps))
