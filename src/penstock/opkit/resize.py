"""Resizing: shared by nearest-neighbour and bilinear resizing."""

from __future__ import annotations

from enum import Enum

from penstock.ir.foreign import ForeignNode
from penstock.opkit.checks import require


class Sampling(Enum):
    """Mapping of output positions to input positions.

    LEGACY: o * in / out.  HALF_PIXEL: pixel centres are at one half.  ALIGN_CORNERS: the first and
    last positions coincide."""

    LEGACY = "legacy"
    HALF_PIXEL = "half-pixel"
    ALIGN_CORNERS = "align-corners"


def foreign_resize(node: ForeignNode) -> tuple[int, int, Sampling]:
    """(rows, columns, sampling) of a TFLite node."""
    sizes = node.constant_ints(1)
    require(len(sizes) == 2, f"input 1 has {len(sizes)} elements, must have 2: rows, columns")
    align, half = node.integer("align_corners"), node.integer("half_pixel_centers")
    if align and half:
        raise node.unsupported("align_corners and half_pixel_centers exclude each other")
    if align:
        return sizes[0], sizes[1], Sampling.ALIGN_CORNERS
    return sizes[0], sizes[1], Sampling.HALF_PIXEL if half else Sampling.LEGACY
