"""Packing of weights and scales (requantisation constants) in groups of four channels.

The scales of a channel are its bias and the constants with which its accumulators are requantised.
"""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import CertifiedLayer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

# For `runtime/tile.h`, in groups of four output channels.


TILE_FRACTION_BITS = 8  # Fraction bits of the requantisation form.
QUAD = 4  # Number of channels that kernels compute together.
# Order of four bytes after they are widened to two pairs of 16-bit numbers.
_EVEN_THEN_ODD = [0, 2, 1, 3]


def window_order(rows: int, row_elements: int) -> Int64s:
    """Return the indices of a window's elements in the order in which kernels multiply them.

    The window has `rows` rows of `row_elements` elements.  Each row is divided into groups of four
    elements.  All groups come first, row by row, followed by the remaining elements of all rows.
    Within a group, the order is 0, 2, 1, 3: one instruction widens bytes 0 and 2 of a word to 16
    bits, another one bytes 1 and 3.

    >>> window_order(2, 5).tolist()
    [0, 2, 1, 3, 5, 7, 6, 8, 4, 9]
    """
    window = np.arange(rows * row_elements).reshape(rows, row_elements)
    fours = row_elements // QUAD * QUAD
    quads = window[:, :fours].reshape(-1, QUAD)[:, _EVEN_THEN_ODD]
    return np.concatenate([quads.ravel(), window[:, fours:].ravel()])


def packed_tile(weights: Int64s) -> Table | None:
    """Return weights of shape (channels, taps), packed for SMLAD as in `runtime/tile.h`.

    A 16-bit number w0 + 256 * w1 holds the weights w0 and w1 of two channels for one tap, so that
    one multiplication serves both channels.  The axes of the result are: group of four channels,
    pair of taps, pair of channels, tap in the pair.  For example, with weights w[channel, tap], the
    first numbers are"""
    #   w[0, 0] + 256 * w[1, 0],  w[0, 1] + 256 * w[1, 1],
    #   w[2, 0] + 256 * w[3, 0],  w[2, 1] + 256 * w[3, 1]
    #
    # Channels and taps are padded with zeros to multiples of four.  Returns None if a number does
    # not fit 16 bits, such as -128 + 256 * -128.
    channels, taps = weights.shape
    padded = np.zeros((-(-channels // QUAD) * QUAD, -(-taps // QUAD) * QUAD), np.int64)
    padded[:channels, :taps] = weights
    both = 256 * padded[1::2] + padded[::2]
    if both.min() < -(2**15) or both.max() >= 2**15:
        return None
    pairs = both.reshape(-1, 2, padded.shape[1] // 2, 2)  # quad, half of it, pair, input
    return Table.of(np.frombuffer(pairs.swapaxes(1, 2).astype("<i2").tobytes(), np.int8))


def tile_scales(layer: CertifiedLayer) -> Table:
    """Return the requantisation constants of each group of four channels as int32 words."""
    # The kernel requantises a sum of products with these constants (`requantisation/form.py`):
    #
    #   t = (sum << fraction_bits) + offset; if negative, t = t - correction
    #   output = (base + (t * factor >> 32)) >> shift
    #
    # The words of a group are, in this order:
    #
    #   offsets        of channels 1, 3, 0 and 2 (with the bias)
    #   factors        of channels 0, 1, 2 and 3
    #   corrections    of channels 0, 1, 2 and 3
    #   base           of all four channels
    #
    # Offsets are in the order in which the kernel reads them.
    count = len(layer.offset)
    form = layer.form
    columns = np.zeros((-(-count // QUAD) * QUAD, 4), np.int64)
    columns[:count] = np.stack([layer.offset, form.factor, form.correction, form.base], axis=1)
    offset, factor, correction, base = columns.reshape(-1, QUAD, 4).transpose(2, 0, 1)
    # Order of the offsets.  Let sum0 and sum1 be the sums of products of channels 0 and 1.  Packed
    # weights are w0 + 256 * w1, so the kernel accumulates sum0 + (sum1 << 8), starting from the
    # offset of channel 1.  It subtracts sum0, which it also computes alone, to get t of channel 1:
    # (sum1 << 8) + offset, because `fraction_bits` is 8.  Only then does it read the offset of
    # channel 0, for (sum0 << 8) + offset.  Channels 3 and 2 are computed like 1 and 0.
    quads = np.hstack([offset[:, (1, 3, 0, 2)], factor, correction, base[:, :1]])
    return Table.of(quads.astype(np.int32).ravel())


# Of depthwise layers, for `runtime/taps.h`.


TAP_FRACTION_BITS = 9  # Fraction bits of the requantisation form.
MOST_DEPTHWISE_TAPS = 25  # Largest number of taps of the kernel, the size of its array of pointers.


def fours(channels: int) -> Int64s:
    """Return the indices of the channels of each group of four, with shape (groups, 4).

    If 4 does not divide `channels`, the last group overlaps the one before.

    >>> fours(6).tolist()
    [[0, 1, 2, 3], [2, 3, 4, 5]]
    """
    starts = [*range(0, channels - QUAD + 1, QUAD), *([channels - QUAD] if channels % QUAD else [])]
    return np.array(starts)[:, None] + np.arange(QUAD)


def packed_taps(weights: Int64s) -> Table:
    """Return the weights in the order (group of four channels, tap, channel in the group).

    weights: of shape (channels, taps); the number of channels must be a multiple of four.

    For example, with two taps and weights w[channel, tap], the result begins with w[0, 0], w[1, 0],
    w[2, 0], w[3, 0], w[0, 1]."""
    quads = weights.reshape(-1, QUAD, weights.shape[1])
    return Table.of(quads.swapaxes(1, 2).astype(np.int8).ravel())


def tap_scales(layer: CertifiedLayer) -> Table:
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
