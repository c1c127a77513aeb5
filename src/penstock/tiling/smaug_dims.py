"""SMAUG's tiling dimensions: which of N, H, W, C are split, by an order of preference.

Sizes are in elements; the innermost dimension is rounded up to the alignment. Source: SMAUG
(harvard-acc/smaug 8fd68e6), `findBestTilingDims` and the enumeration of tile shapes in its SMV
backend, reimplemented from a description; no code is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

Extents = tuple[int, ...]


class TilingDims(Enum):
    """The dimensions that are split, as letters."""

    NONE = ""
    N = "N"
    NC = "NC"
    NH = "NH"
    NW = "NW"
    NHW = "NHW"
    NCH = "NCH"
    NCW = "NCW"

    def needs(self, letter: str) -> bool:
        """Return whether a dimension is split."""
        return letter in self.value

    def __str__(self) -> str:
        return f"Dim{self.value}" if self.value else "None"


@dataclass(frozen=True, slots=True)
class TileCapacity:
    """Capacity for a tile: a number of elements, with an aligned innermost dimension."""

    most: int
    alignment: int

    def size(self, shape: Extents) -> int:
        """Return the number of elements that a tile occupies, alignment included."""
        return math.prod(shape[:-1]) * -(-shape[-1] // self.alignment) * self.alignment

    def holds(self, shape: Extents) -> bool:
        return self.size(shape) <= self.most


def letters(rank: int) -> str:
    """Return the letters of a tensor's dimensions."""
    return "NHWC" if rank == 4 else "NC"


def preferred(shape: Extents, room: TileCapacity, least: Extents) -> TilingDims | None:
    """Return the first dimensions, in order of preference, whose splitting makes tiles of at least
    `least` fit, or None if there are none."""
    each = room.size(shape) // shape[0]
    size = dict(zip(letters(len(shape)), shape, strict=True))
    part = {k: min(n, m) for (k, n), m in zip(size.items(), least, strict=True)}
    if room.holds(shape):
        return TilingDims.NONE
    if each * part["N"] <= room.most:
        return TilingDims.N
    for dims in list(TilingDims)[2:]:
        cut = dims.value[1:]
        if not set(cut) <= set(size):
            return None
        tile, whole = (math.prod(of[k] for k in cut) for of in (part, size))
        if each * tile <= room.most * whole:
            return dims
    return None


def enumerated(
    shape: Extents, room: TileCapacity, dims: TilingDims, least: Extents, steps: Extents
) -> Iterator[Extents]:
    """Yield the tiles that fit, split along `dims`, in SMAUG's order (N, C, H, W, the last
    fastest).

    N starts from 1, other dimensions from `least`, in steps of `steps`.
    """
    names = letters(len(shape))
    ranges: dict[str, Sequence[int]] = {}
    for letter, n, m, step in zip(names, shape, least, steps, strict=True):
        first = 1 if letter == "N" else min(n, m)
        ranges[letter] = range(first, n + 1, step) if dims.needs(letter) else (n,)
    order = "NCHW" if len(shape) == 4 else "NC"
    for chosen in product(*(ranges[letter] for letter in order)):
        tile = dict(zip(order, chosen, strict=True))
        found = tuple(tile[letter] for letter in names)
        if room.holds(found):
            yield found


def stepped(extent: int, step: int) -> range:
    """Return the multiples of a step up to an extent, or only the extent if it is smaller."""
    return range(min(extent, step), extent + 1, step)
