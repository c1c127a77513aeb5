"""Geometry of sliding windows as SMAUG computes it: strides, padding, overlapping pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.tiling.layer import Dimension, Layer, LayerOperand

Piece = tuple[int, int]
"""One dimension of a piece: its first element, and its number of elements."""


def is_slid(operand: LayerOperand) -> bool:
    return any(d.axis is not None and (d.window, d.factor) != (1, 1) for d in operand.dimensions)


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
