"""Definitions, by other operators, of operators on integers that the graph has no form for.

    QuantizeLinear, DequantizeLinear   of several scales or blocks, of computed scales and zero
                                       points, and of integers that have not 8 bits
    MatMulInteger, ConvInteger         as products of real numbers, where no sum can reach 2^24,
                                       so that single precision is exact

Source: ONNX operator specification.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.frontends.onnx.definition import Definition, Shapes, Types
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole
from penstock.frontends.onnx.operators import DEQUANTISE, EIGHT_BITS, QUANTISE

SUMS = ("MatMulInteger", "ConvInteger")
NAMES = (*SUMS, QUANTISE, DEQUANTISE)
MOST_SUM = 2**24  # Integers below are exact in single precision.
LARGEST = 255  # Magnitude of an integer of 8 bits less its zero point.


def is_standard(node: FileNode, file: File, types: Types) -> bool:
    """Whether a node is none of these."""
    if node.name in SUMS:
        return False
    if node.name not in (QUANTISE, DEQUANTISE) or len(node.inputs) < 2 or not node.outputs:
        return True
    integers = types[node.outputs[0] if node.name == QUANTISE else node.inputs[0]]
    parameters = [file.constants.get(name) for name in node.inputs[1:3] if name]
    known = all(x is not None and x.size == 1 for x in parameters)
    is_constant = node.inputs[0] in file.constants  # weights, whose scales may be many
    return is_constant or (
        known and integers in EIGHT_BITS and not node.attributes.get("block_size")
    )


def definition(new: Definition, file: File, types: Types, shapes: Shapes) -> Definition | None:
    """The definition of a node on integers; None if it is none, if sums may not be exact, or if a
    shape is not known."""
    node = new.node
    if node.name not in NAMES:
        return None
    if node.name in SUMS:
        return _sums(new, file, shapes)
    shape = shapes.get(node.inputs[0])
    if shape is None:
        return None
    scale, *zeros = (_parameter(new, file, name, shape) for name in node.inputs[1:3] if name)
    if node.name == DEQUANTISE:
        x = new.cast(node.inputs[0])
        for zero in zeros:
            x = new.made("Sub", x, zero)
        new.made("Mul", x, scale)
        return new.done()
    wanted = types[node.outputs[0]]
    steps = new.made("Round", new.made("Div", node.inputs[0], scale))
    for zero in zeros:
        steps = new.made("Add", steps, zero)
    limits = np.iinfo(wanted)
    bounds = (new.constant(np.array(k, np.float32)) for k in (limits.min, limits.max))
    clipped = new.made("Clip", steps, *bounds)
    new.cast(clipped, wanted)
    return new.done()


def _parameter(new: Definition, file: File, name: str, shape: tuple[int, ...]) -> str:
    """Scales or zero points as real numbers that broadcast to the tensor."""
    found = file.constants.get(name)
    if found is None:
        one = new.constant(np.zeros(0, np.int64))
        return new.cast(new.made("Reshape", name, one))
    elements = found.astype(np.float32)
    axis, block = whole(new.node, "axis", 1), whole(new.node, "block_size", 0)
    if block:
        elements = np.repeat(elements, block, axis)
        elements = np.take(elements, np.arange(shape[axis]), axis)
    elif elements.ndim == 1 and elements.size > 1:
        elements = elements.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))
    return new.constant(elements)


def _sums(new: Definition, file: File, shapes: Shapes) -> Definition | None:
    node = new.node
    right = next(iter(node.inputs[1:]))
    weights = file.constants.get(right)
    zero = file.constants.get(node.inputs[3]) if len(node.inputs) > 3 else np.zeros(())
    is_product = node.name == SUMS[0]
    if weights is None or zero is None or zero.size > 1:
        shape = shapes.get(right)
        if shape is None:
            return None
        count = shape[max(0, len(shape) - 2)] if is_product else math.prod(shape[1:])
        largest = count * LARGEST
    else:
        axes = max(0, weights.ndim - 2) if is_product else tuple(range(1, weights.ndim))
        largest = int(np.abs(weights.astype(np.int64) - zero).sum(axes).max())
    if largest * LARGEST >= MOST_SUM:
        return None
    operands: list[str] = []
    for k in (0, 1):
        operand = new.cast(node.inputs[k])
        if len(node.inputs) > k + 2 and node.inputs[k + 2]:
            operand = new.made("Sub", operand, _zero(new, file, node.inputs[k + 2], k))
        operands.append(operand)
    found = new.made(node.name.removesuffix("Integer"), *operands, **node.attributes)
    new.cast(found, "int32")
    return new.done()


def _zero(new: Definition, file: File, name: str, k: int) -> str:
    """Zero points as real numbers: of rows of A in a product, or of output channels in a
    convolution, if there are several."""
    found = file.constants.get(name)
    if found is None:
        return new.cast(name)
    elements = found.astype(np.float32)
    if elements.ndim == 1 and elements.size > 1:
        is_product = new.node.name == SUMS[0]
        rank = 2 if is_product else 4
        elements = elements.reshape(-1, *(1,) * (rank - 1)) if k != is_product else elements
    return new.constant(elements)
