"""The quantisation that a QuantizeLinear or DequantizeLinear of an ONNX model defines.

In the graph, elements of 8 bits are int8, element = stored + offset; zero points follow them, which
preserves real values.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.operators import EIGHT_BITS
from penstock.ir.foreign import MALFORMED
from penstock.ir.tensor import Array, Quantisation


class Numbers(Protocol):
    """Constants by name."""

    def numbers(self, name: str) -> Array | None:
        """Elements of a constant of plain numbers; None if there is no such constant."""
        ...


def activation_scale(
    node: FileNode, constants: Numbers, dtype: str | None = None, offset: int | None = None
) -> Quantisation:
    """The quantisation of stored int8 that a QuantizeLinear or DequantizeLinear defines.

    `dtype`: element type of the input of a DequantizeLinear; `offset`: its elements minus stored
    int8.  Raises UnsupportedError unless it has one scale and an 8-bit type."""
    found = _parameters(node, constants, dtype, offset)
    if len(found.scales) != 1:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has {len(found.scales)} scales, must have one",
            where=node.where,
            why="computed tensors have one scale; only weights and biases have one per channel",
            help="quantise activations per tensor",
        )
    return found


def constant_scale(node: FileNode, elements: Array, constants: Numbers) -> Quantisation:
    """Quantisation of a constant, as int8 or int32; `axis` is set if there are several scales."""
    found = _parameters(node, constants, elements.dtype.name)
    if len(found.scales) == 1:
        return Quantisation(found.scales, found.zero_points)
    axis = node.attributes.get("axis", 1)
    rank = elements.ndim
    fits = isinstance(axis, int) and -rank <= axis < rank
    along = axis % rank if isinstance(axis, int) and fits else 0
    if not fits or elements.shape[along] != len(found.scales):
        raise ModelError(
            "onnx-005",
            f"{node.name}: {len(found.scales)} scales along axis {axis} of shape "
            f"{list(elements.shape)}, must be one for each index",
            where=node.where,
            help=MALFORMED,
        )
    return Quantisation(found.scales, found.zero_points, along)


def _parameters(
    node: FileNode, constants: Numbers, dtype: str | None, offset: int | None = None
) -> Quantisation:
    """Scales and zero points of a node; those of uint8 are converted to int8."""
    scales = constants.numbers(node.inputs[1]) if len(node.inputs) > 1 else None
    point = next(iter(node.inputs[2:]), "")
    zeros = constants.numbers(point) if point else None
    if scales is None or (point and zeros is None) or not node.outputs:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has a computed scale or zero point, must be constant",
            where=node.where,
            why="the quantisation of a tensor is fixed at compile time",
            help="quantise the model statically, with representative inputs (--quantise)",
            cause="dynamic quantisation",
        )
    if node.attributes.get("block_size"):
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} has scales in blocks, must have one for each tensor or channel",
            where=node.where,
            help="quantise the model per tensor or per channel",
        )
    kind = zeros.dtype.name if zeros is not None else dtype or "uint8"
    allowed = EIGHT_BITS if dtype is None else (*EIGHT_BITS, "int32")
    if kind not in allowed:
        raise UnsupportedError(
            "onnx-007",
            f"{node.name} is between real numbers and {kind}, must be {' or '.join(allowed)}",
            where=node.where,
            help="quantise the model to 8 bits",
        )
    values = tuple(float(s) for s in scales.ravel())
    if not values or not all(0 < s < np.inf for s in values):
        raise wrong(node, "a scale is no positive number")
    points = np.zeros(1, np.int64) if zeros is None else zeros.ravel().astype(np.int64)
    points = np.broadcast_to(points, len(values)) if points.size == 1 else points
    if len(points) != len(values):
        raise wrong(node, f"{len(values)} scales and {len(points)} zero points")
    less = (128 if kind == "uint8" else 0) if offset is None else offset
    return Quantisation(values, tuple(int(z) - less for z in points))
