"""Packing of weights and scales (requantisation constants) in the order in which the MVE kernels
read them.

A vector has 16 int8 lanes.  The scales of a channel are the constants of its requantisation form,
including the bias (`requantisation/form.py`).
"""

from __future__ import annotations

import numpy as np

from penstock.backends.cores.common.layer import CertifiedLayer
from penstock.fixedpoint import Int64s
from penstock.ir.op import Table

VECTOR, QUAD, EIGHT, NINE = 16, 4, 8, 9
# The channels of a block of sixteen in the order that results from widening bytes to words.
LANES = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])


def packed_weights(weights: Int64s, together: int) -> Table:
    """Return weights of shape (channels, taps) in the order in which the kernel reads them.

    Axes of the result: group of `together` channels, vector of 16 taps, channel in group, tap in
    vector.  Channels and taps are padded with zeros to whole groups and vectors."""
    channels, taps = weights.shape
    padded = np.zeros((-(-channels // together) * together, -(-taps // VECTOR) * VECTOR), np.int8)
    padded[:channels, :taps] = weights
    return Table.of(padded.reshape(-1, together, padded.shape[1] // VECTOR, VECTOR)
                    .swapaxes(1, 2).ravel())  # fmt: skip


def packed_scales(layer: CertifiedLayer, together: int) -> Table:
    """Return the requantisation constants of each group of `together` channels as int32 words.

    The kernel requantises a sum of products with these constants (`requantisation/form.py`):

        t = (sum << fraction_bits) + offset; if negative, t = t - correction
        output = (base + (t * factor >> 32)) >> shift

    The words of a group are, in this order: one base per four channels, the offset of each channel
    (with the bias), the correction of each channel (omitted if the layer needs none), and the
    factor of each channel."""
    columns = _form_rows(layer)
    padded = np.zeros((len(columns), -(-columns.shape[1] // together) * together), np.int64)
    padded[:, : columns.shape[1]] = columns
    groups = padded.reshape(len(columns), -1, together).swapaxes(0, 1)
    bases = groups[:, 0, ::QUAD]
    words = np.hstack([bases, groups[:, 1:].reshape(len(groups), -1)])
    return Table.of(words.astype(np.int32).ravel())


def packed_blocks(layer: CertifiedLayer) -> np.typing.NDArray[np.int8]:
    """Return the weights and requantisation constants of a depthwise layer with 3x3 windows.

    The result has shape (blocks, bytes).  A block holds sixteen consecutive channels of `layer`.

    A block begins with sixteen bytes for each of the nine taps, in row-major order of the window:
    the weights of the sixteen channels, permuted by the constant `LANES`.  Byte `LANES[k]` is the
    weight of the block's channel k; for example, byte 4 is the weight of channel 1.

    Little-endian int32 words follow: the constants in the formulas of `packed_scales`.  They are
    the offset of each channel (with the bias), the correction of each channel (omitted if the layer
    needs none), the factor of each channel, and one base per four channels."""
    weights = np.zeros((len(layer.weights) // VECTOR, NINE, VECTOR), np.int8)
    lanes = layer.weights.reshape(-1, VECTOR, NINE)
    weights[:, :, LANES] = lanes.swapaxes(1, 2)
    base, *others = _form_rows(layer).reshape(-1, len(weights), VECTOR)
    words = np.hstack([*others, base[:, ::QUAD]]).astype("<i4")
    return np.hstack([weights.reshape(len(weights), -1), words.view(np.int8)])


def _form_rows(layer: CertifiedLayer) -> Int64s:
    # The rows are base, offset (with the bias), correction (omitted if the layer needs none) and
    # factor.
    form = layer.form
    corrections = (form.correction,) if form.corrects else ()
    return np.stack([form.base, layer.offset, *corrections, form.factor])
