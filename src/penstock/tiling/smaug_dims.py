"""SMAUG's dimensions: along which of N, H, W, C a tensor is cut, by an order of preference.

Sizes are in elements, the innermost dimension rounded up to the alignment.  Source: SMAUG
(harvard-acc/smaug 8fd68e6), `findBestTilingDims` and the enumeration of tile shapes of its SMV
backend, as described in the project's own words; no code is taken from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

Extents = tuple[int, ...]


class TilingDims(Enum):
    """Letters of the dimensions that are cut."""

    NONE = ""
    N = "N"
    NC = "NC"
    NH = "NH"
    NW = "NW"
    NHW = "NHW"
    NCH = "NCH"
    NCW = "NCW"

    def needs(self, letter: str) -> bool:
        """Whether a dimension is cut."""
        return letter in self.value

    def __str__(self) -> str:
        return f"Dim{self.value}" if self.value else "None"


@dataclass(frozen=True, slots=True)
class Room:
    """What a tile may be: at most so many elements, innermost dimension aligned."""

    most: int
    alignment: int

    def size(self, shape: Extents) -> int:
        """Elements that a tile of the shape takes."""
        return math.prod(shape[:-1]) * -(-shape[-1] // self.alignment) * self.alignment

    def holds(self, shape: Extents) -> bool:
        return self.size(shape) <= self.most


def letters(rank: int) -> str:
    """Of a tensor's dimensions."""
    return "NHWC" if rank == 4 else "NC"


def preferred(shape: Extents, room: Room, least: Extents) -> TilingDims | None:
    """The first dimensions that are enough to make tiles fit, which extend at least over `least`;
    None where none are."""
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
    shape: Extents, room: Room, dims: TilingDims, least: Extents, steps: Extents
) -> Iterator[Extents]:
    """Tiles cut along `dims`: N from 1, others from `least`, in steps; all that fit, in the order
    in which SMAUG meets them (N, C, H, W, the last fastest)."""
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
    """Extents from a step on, or all where that is less."""
    return range(min(extent, step), extent + 1, step)
