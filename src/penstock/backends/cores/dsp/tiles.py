"""Packs weights and scales for four output channels at a time, as `runtime/tile.h` reads them."""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import CertifiedLayer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

FRACTION_BITS = 8
"""Extra bits of sums."""
QUAD = 4
"""Output channels computed together."""
_EVEN_THEN_ODD = (0, 2, 1, 3)


def window_order(rows: int, row_elements: int) -> Int64s:
    """Inputs of a window in the order in which kernels widen them.

    First come the complete fours of every row, even bytes before odd ones, then the remaining
    elements of the rows.

    >>> window_order(2, 5).tolist()
    [0, 2, 1, 3, 5, 7, 6, 8, 4, 9]
    """
    window = np.arange(rows * row_elements).reshape(rows, row_elements)
    fours = row_elements // QUAD * QUAD
    quads = window[:, :fours].reshape(-1, QUAD)[:, _EVEN_THEN_ODD]
    return np.concatenate([quads.ravel(), window[:, fours:].ravel()])


def packed_weights(weights: Int64s) -> Table | None:
    """Weights (channels, taps) packed in pairs, taps padded to fours; None if a pair does not fit a
    16-bit number."""
    channels, taps = weights.shape
    padded = np.zeros((-(-channels // QUAD) * QUAD, -(-taps // QUAD) * QUAD), np.int64)
    padded[:channels, :taps] = weights
    both = 256 * padded[1::2] + padded[::2]
    if both.min() < -(2**15) or both.max() >= 2**15:
        return None
    pairs = both.reshape(-1, 2, padded.shape[1] // 2, 2)  # quad, half of it, pair, input
    return Table.of(np.frombuffer(pairs.swapaxes(1, 2).astype("<i2").tobytes(), np.int8))


def packed_scales(layer: CertifiedLayer) -> Table:
    """Per quad: offsets of channels 1, 3, 0, 2, factors and corrections of channels 0 to 3, one
    base."""
    count = len(layer.offset)
    form = layer.form
    columns = np.zeros((-(-count // QUAD) * QUAD, 4), np.int64)
    columns[:count] = np.stack([layer.offset, form.factor, form.correction, form.base], axis=1)
    offset, factor, correction, base = columns.reshape(-1, QUAD, 4).transpose(2, 0, 1)
    quads = np.hstack([offset[:, (1, 3, 0, 2)], factor, correction, base[:, :1]])
    return Table.of(quads.astype(np.int32).ravel())
