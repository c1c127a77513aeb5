"""Packing of depthwise weights and requantisation constants for `runtime/taps.h`.

The channels form groups of four.  The bias of a channel is part of its requantisation constants,
which functions of this module call its scales.
"""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import CertifiedLayer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

FRACTION_BITS = 9  # Fraction bits of the requantisation form.
QUAD = 4
MOST_TAPS = 25  # Largest number of taps of the kernel, the size of its array of pointers.
# Order of four bytes after they are widened to two pairs of 16-bit numbers.
_EVEN_THEN_ODD = [0, 2, 1, 3]


def fours(channels: int) -> Int64s:
    """Return the indices of the channels of each group of four, with shape (groups, 4).

    If 4 does not divide `channels`, the last group overlaps the one before.

    >>> fours(6).tolist()
    [[0, 1, 2, 3], [2, 3, 4, 5]]
    """
    starts = [*range(0, channels - QUAD + 1, QUAD), *([channels - QUAD] if channels % QUAD else [])]
    return np.array(starts)[:, None] + np.arange(QUAD)


def packed_weights(weights: Int64s) -> Table:
    """Return the weights in the order (group of four channels, tap, channel in the group).

    weights: of shape (channels, taps); the number of channels must be a multiple of four.

    For example, with two taps and weights w[channel, tap], the result begins with w[0, 0], w[1, 0],
    w[2, 0], w[3, 0], w[0, 1]."""
    quads = weights.reshape(-1, QUAD, weights.shape[1])
    return Table.of(quads.swapaxes(1, 2).astype(np.int8).ravel())


def packed_scales(layer: CertifiedLayer) -> Table:
    """Return the requantisation constants of each group of four channels as int32 words."""
    # The kernel requantises a sum of products with these constants (`requantisation/form.py`):
    #
    #   t = (sum << fraction_bits) + offset; if negative, t = t - correction
    #   output = (base + (t * factor >> 32)) >> shift
    #
    # The words of a group are, in this order:
    #
    #   base           of all four channels
    #   offsets        of channels 0, 2, 1 and 3 (with the bias)
    #   corrections    of channels 0, 2, 1 and 3
    #   factors        of channels 0, 2, 1 and 3
    #
    # Channels 0 and 2 precede 1 and 3, as in the registers of the kernel: one instruction widens
    # bytes 0 and 2 of a word to 16 bits, and another one bytes 1 and 3.
    form = layer.form
    columns = np.stack([layer.offset, form.correction, form.factor])
    quads = columns.reshape(3, -1, QUAD)[:, :, _EVEN_THEN_ODD].swapaxes(0, 1)
    base = form.base.reshape(-1, QUAD)[:, :1]
    return Table.of(np.hstack([base, quads.reshape(len(base), -1)]).astype(np.int32).ravel())
