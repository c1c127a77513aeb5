"""constant_operands: constant operands of sums, differences and products that have one value per
channel, or one value for all channels."""

from __future__ import annotations

import numpy as np

from penstock.uma import Array, Node

ELEMENTWISE = ("Add", "Sub", "Mul")


def constant_operand(node: Node) -> int | None:
    """Return the index of the constant input of a sum, difference or product: 0 or 1.

    The result is None if the operator is another one, or if no input is a constant that is a scalar
    or has one value per channel."""
    if node.kind not in ELEMENTWISE:
        return None
    channels = node.output.type.shape[-1]
    for k, value in enumerate(node.inputs):
        by_channel = value.type.shape[-1:] == (channels,) and value.type.elements == channels
        if value.data is not None and (value.type.elements == 1 or by_channel):
            return k
    return None


def channel_values(node: Node, constant: int) -> Array:
    """Return the quantised values of a constant operand, as an int64 array of shape (channels,).

    constant: the index of the operand among the inputs of `node`."""
    found = node.site.constant(constant).astype(np.int64).ravel()
    return np.broadcast_to(found, node.output.type.shape[-1:])


def factors(node: Node, constant: int) -> Array:
    """Return `channel_values` minus the zero point of the operand."""
    return channel_values(node, constant) - node.inputs[constant].type.zero_point
