"""Packs depthwise weights and scales for four channels at a time, as `runtime/taps.h` reads."""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import CertifiedLayer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

FRACTION_BITS = 9
"""Extra bits of sums."""
QUAD = 4
MOST_TAPS = 25
"""Size of the kernel's array of pointers to taps."""
_EVEN_THEN_ODD = [0, 2, 1, 3]
"""Order in which widening four bytes yields them."""


def fours(channels: int) -> Int64s:
    """The channels of each quad (quads, 4).

    If 4 does not divide `channels`, the last quad overlaps the one before.

    >>> fours(6).tolist()
    [[0, 1, 2, 3], [2, 3, 4, 5]]
    """
    starts = [*range(0, channels - QUAD + 1, QUAD), *([channels - QUAD] if channels % QUAD else [])]
    return np.array(starts)[:, None] + np.arange(QUAD)


def packed_weights(weights: Int64s) -> Table:
    """Weights (channels, taps), reordered to (quads, taps, 4)."""
    quads = weights.reshape(-1, QUAD, weights.shape[1])
    return Table.of(quads.swapaxes(1, 2).astype(np.int8).ravel())


def packed_scales(layer: CertifiedLayer) -> Table:
    """Per quad: one base, then the offsets, corrections and factors of channels 0, 2, 1, 3."""
    form = layer.form
    columns = np.stack([layer.offset, form.correction, form.factor])
    quads = columns.reshape(3, -1, QUAD)[:, :, _EVEN_THEN_ODD].swapaxes(0, 1)
    base = form.base.reshape(-1, QUAD)[:, :1]
    return Table.of(np.hstack([base, quads.reshape(len(base), -1)]).astype(np.int32).ravel())
