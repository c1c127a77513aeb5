"""Taps: weights and scales of four channels with windows of their own, as `runtime/taps.h` says."""

from __future__ import annotations

import numpy as np

from penstock.backends.cortex_m.layer import Layer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

FRACTION_BITS = 9
QUAD = 4
MOST_TAPS = 25
"""So many pointers to taps the kernel has room for."""
_EVEN_THEN_ODD = [0, 2, 1, 3]


def fours(channels: int) -> Int64s:
    """The channels of each four; the last four overlap those before where channels fill no fours.

    >>> fours(6).tolist()
    [[0, 1, 2, 3], [2, 3, 4, 5]]
    """
    starts = [*range(0, channels - QUAD + 1, QUAD), *([channels - QUAD] if channels % QUAD else [])]
    return np.array(starts)[:, None] + np.arange(QUAD)


def packed_weights(weights: Int64s) -> Table:
    """Weights (fours of channels, taps): for each four, tap by tap."""
    quads = weights.reshape(-1, QUAD, weights.shape[1])
    return Table.of(quads.swapaxes(1, 2).astype(np.int8).ravel())


def packed_scales(layer: Layer) -> Table:
    """For each four, a base; offsets, corrections and factors of channels 0, 2, 1, 3."""
    form = layer.form
    columns = np.stack([layer.offset, form.correction, form.factor])
    quads = columns.reshape(3, -1, QUAD)[:, :, _EVEN_THEN_ODD].swapaxes(0, 1)
    base = form.base.reshape(-1, QUAD)[:, :1]
    return Table.of(np.hstack([base, quads.reshape(len(base), -1)]).astype(np.int32).ravel())
