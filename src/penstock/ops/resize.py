"""Resizing: what nearest-neighbour and bilinear resizing share."""

from __future__ import annotations

from enum import Enum

from penstock.ir.foreign import ForeignNode
from penstock.ops.checks import require


class Sampling(Enum):
    """Where output positions lie over the input: LEGACY o * in / out; HALF_PIXEL with the centres
    of pixels at one half; ALIGN_CORNERS with the first and last positions on each other."""

    LEGACY = "legacy"
    HALF_PIXEL = "half-pixel"
    ALIGN_CORNERS = "align-corners"


def foreign_resize(node: ForeignNode) -> tuple[int, int, Sampling]:
    """(rows, columns, sampling) of the node's output."""
    sizes = node.constant_ints(1)
    require(len(sizes) == 2, f"input 1 has {len(sizes)} elements, must have 2: rows, columns")
    align, half = node.integer("align_corners"), node.integer("half_pixel_centers")
    if align and half:
        raise node.unsupported("align_corners and half_pixel_centers exclude each other")
    if align:
        return sizes[0], sizes[1], Sampling.ALIGN_CORNERS
    return sizes[0], sizes[1], Sampling.HALF_PIXEL if half else Sampling.LEGACY
