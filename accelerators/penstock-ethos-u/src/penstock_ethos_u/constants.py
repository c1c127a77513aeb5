"""constants: weights, biases and look-up tables of an operator, as the NPU reads them. An
`Offloaded` is an operator of the network that the NPU runs."""

from __future__ import annotations

import numpy as np

from penstock.uma import Array, Offloaded
from penstock_ethos_u.encoding import EncodedConstants, WeightOrder, encoded
from penstock_ethos_u.operation import TABULATED, Operation
from penstock_ethos_u.operators import REDUCTIONS, SHIFT, dense_input, reduced_extents, taps

# Biases, multipliers and shifts, with one element per output channel in each tuple.
ChannelScaling = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def encoded_weights(offloaded: Offloaded, op: Operation, weights: Array) -> EncodedConstants:
    """Return the weights and biases of an offloaded operator in the compressed form that the NPU
    reads.

    op: the NPU operation that computes the operator. It determines the order of the weights: depth
        first (one tap of many channels at a time) or part kernel first (several taps of few
        channels at a time).
    weights: array of shape (output channels, rows, columns, input channels)."""
    bias, multipliers, shifts = channel_scaling(offloaded)
    every = weights.astype(np.int16).tobytes()
    rows, columns, inputs = weights.shape[1:]
    shape = (len(weights), rows, columns, inputs)
    return encoded(WeightOrder.of_operation(op), every, shape, bias, multipliers, shifts)


def channel_scaling(offloaded: Offloaded) -> ChannelScaling:
    """Return (biases, multipliers, shifts) of an operator, three tuples with one element per output
    channel. Multipliers and shifts describe TFLite's requantisation of int32 accumulators to int8.
    The biases of reductions (means and sums over axes) are 0."""
    if offloaded.main.kind in REDUCTIONS:
        p, channels = offloaded.parameters, len(ohwi_weights(offloaded))
        return (0,) * channels, (p["multiplier"],) * channels, (p["shift"],) * channels
    found = offloaded.constant(2), offloaded.tables["multiplier"], offloaded.tables["shift"]
    bias, multipliers, shifts = (tuple(each.tolist()) for each in found)
    return bias, multipliers, shifts


def lookup_table(offloaded: Offloaded, op: Operation) -> bytes:
    """Return the look-up table of an element-wise function: the output elements for input elements
    whose bytes are int8 numbers from -128 to 127, in this order; empty without a table."""
    if op.function not in TABULATED:
        return b""
    if offloaded.main.kind == SHIFT:
        return np.arange(256, dtype=np.uint8).tobytes()
    return offloaded.tables["table"].astype(np.int8).tobytes()


def ohwi_weights(offloaded: Offloaded) -> Array:
    """Return the weights of an operator as an array of shape (output channels, rows, columns, input
    channels)."""
    # Reductions (means and sums over axes) are computed as convolutions whose weights are all 1.
    # The weights of a transposed convolution are mirrored along rows and columns.
    p, kind = offloaded.parameters, offloaded.main.kind
    if kind in REDUCTIONS:
        return np.ones((p["in_c"] // p["span_c"], *reduced_extents(offloaded)), np.int8)
    weights = offloaded.constant(1)
    if kind == "FullyConnected":
        if offloaded.main.output.type.elements != len(weights):
            return weights.reshape(len(weights), 1, 1, -1)
        return weights.reshape((len(weights), *dense_input(offloaded)))
    if kind == "TransposeConv":
        return weights[:, ::-1, ::-1]
    if kind == "DepthwiseConv2D":
        weights = weights.transpose(3, 1, 2, 0)
        weights = _in_one_group(weights, p["in_c"]) if p["out_c"] != p["in_c"] else weights
    if kind == "Conv2D":
        weights = _in_one_group(weights, p["groups"])
    outputs, rows, columns, inputs = weights.shape
    (down, _), (across, _) = taps(p, "h"), taps(p, "w")
    shape = outputs, (rows - 1) * down + 1, (columns - 1) * across + 1, inputs
    found = np.zeros(shape, weights.dtype)
    found[:, ::down, ::across] = weights
    return found


def _in_one_group(weights: Array, groups: int) -> Array:
    """Return the weights of a convolution with one group that computes the same as a convolution
    with several groups. The weights of the input channels of other groups are 0.

    weights: array of shape (output channels, rows, columns, input channels of a group)."""
    outputs, rows, columns, depth = weights.shape
    found = np.zeros((outputs, rows, columns, groups, depth), weights.dtype)
    channels = np.arange(outputs)
    found[channels, :, :, channels * groups // outputs] = weights
    return found.reshape(outputs, rows, columns, groups * depth)
