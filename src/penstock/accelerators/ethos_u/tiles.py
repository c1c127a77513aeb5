"""tiles: rows of a tensor, wherever the schedule has put them, as the NPU reads and writes them.

A feature map lies in two pieces: `height` rows, `pitch` bytes apart, and the rows below them, as
far apart, somewhere else.  So a ring with its seam is one feature map, and so are any three rows.
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


def tiles_of(offsets: Sequence[int], row_bytes: int) -> Tiles | None:
    """Rows at these offsets as two pieces, of which the first is as large as can be; None where
    they need more.

    >>> tiles_of([64, 96, 0, 32], 32)
    Tiles(pitch=32, height=2, first=64, second=0)
    >>> tiles_of([7, 64, 0], 32)
    Tiles(pitch=57, height=2, first=7, second=0)
    >>> tiles_of([0, 32, 96, 128], 32)
    Tiles(pitch=32, height=2, first=0, second=96)
    """
    longest = _even(offsets)
    for height in (longest,) if longest > 2 else range(longest, 0, -1):
        pitches = {*_steps(offsets[:height]), *_steps(offsets[height:])} or {row_bytes}
        if len(pitches) == 1:
            (pitch,) = pitches
            below = offsets[height] if height < len(offsets) else 0
            return Tiles(pitch, height, offsets[0], below)
    return None


def _steps(offsets: Sequence[int]) -> set[int]:
    return {b - a for a, b in pairwise(offsets)}


def _even(offsets: Sequence[int]) -> int:
    """How many of the first rows lie evenly apart."""
    count = min(2, len(offsets))
    while count < len(offsets) and len(_steps(offsets[: count + 1])) == 1:
        count += 1
    return count
