"""Split dimensions and sliding windows, as SMAUG computes them.

Sizes are in elements; the innermost dimension is rounded up to the alignment. Source: SMAUG
(harvard-acc/smaug 8fd68e6), `findBestTilingDims`, the enumeration of tile shapes in its SMV backend
and `generateTiledTensorWithStrideAndPadding`, reimplemented from a description; no code is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

from penstock.uma import Dimension, Layer

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
    """Capacity for a tile: a number of elements, with an aligned innermost dimension.

    padding: the elements that SMAUG adds to the innermost dimension where it makes a tile by
        changing the tensor's shape, which keeps the alignment padding of the whole tensor; None if
        the tile is aligned by itself.
    """

    most: int
    alignment: int
    padding: int | None = None

    def size(self, shape: Extents) -> int:
        """Return the number of elements that a tile occupies, padding included."""
        padding = -shape[-1] % self.alignment if self.padding is None else self.padding
        return math.prod(shape[:-1]) * (shape[-1] + padding)

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


Piece = tuple[int, int]
"""One dimension of a piece: its first element, and its number of elements."""


def stride(d: Dimension) -> int:
    return math.ceil(d.factor)


def output_points(d: Dimension, elements: int) -> int:
    """Return the number of output points of `elements` input elements, padding included."""
    return (elements - d.window) // stride(d) + 1


def tile_points(d: Dimension, elements: int, layer: Layer) -> tuple[int, tuple[int, int]]:
    """Return the output points of a tile of `elements`, and the additional points of the first and
    the last tile due to padding."""
    points = output_points(d, elements)
    after = d.after(layer.axis(d.axis or "").extent)
    first, last = (output_points(d, elements + more) - points for more in (d.before, after))
    return points, (first, last)


def padding_after(d: Dimension, extent: int) -> int:
    """Return the padding elements after the tensor as SMAUG counts them.

    For SAME padding, SMAUG counts one element less than the window, with the larger half before the
    tensor, even if no window reaches the end. Other padding counts as far as windows read it.
    """
    padding = d.window - 1
    if 0 < d.before == padding - padding // 2:
        return padding // 2
    return d.after(extent)


def overlapping_pieces(d: Dimension, tile: int, after: int) -> tuple[Piece, ...]:
    """Return pieces of `tile` elements that overlap by the elements that adjacent windows share.

    With padding, the first of several pieces contains only what its windows need. If the stride
    exceeds the window, elements between two pieces are skipped, and those after the last window are
    in no piece.
    """
    if tile >= d.size:
        return ((0, d.size),)
    shared = d.window - stride(d) if d.axis is not None else 0
    first = tile
    if d.before + after and (moves := (tile + d.before - d.window) // stride(d)) > 0:
        first = d.window + stride(d) * moves - d.before
    found = [(0, first)]
    while (end := sum(found[-1])) < d.size and (start := end - shared) < d.size:
        found.append((start, min(tile, d.size - start)))
    return tuple(found)


def output_pieces(d: Dimension, inputs: Sequence[int], after: int) -> tuple[Piece, ...]:
    """Return the pieces of the output that result from input pieces of the given sizes.

    The first input piece is padded before, the last of several after. A last piece that yields no
    row is dropped.
    """
    if len(inputs) > 1 and inputs[-1] + after < d.window:
        inputs = inputs[:-1]
    made = [n + (d.before if k == 0 else 0) for k, n in enumerate(inputs)]
    if len(made) > 1:
        made[-1] += after
    rows = [output_points(d, n) for n in made]
    return tuple((sum(rows[:k]), n) for k, n in enumerate(rows))
