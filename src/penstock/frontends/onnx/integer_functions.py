"""Definitions, by other operators, of operators on integers that the graph has no form for.

    QuantizeLinear, DequantizeLinear   of several scales or blocks, of computed scales and zero
                                       points, and of integers that have not 8 bits
    MatMulInteger, ConvInteger         as products of real numbers, where no sum can reach 2^24,
                                       so that single precision is exact

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole
from penstock.frontends.onnx.operators import DEQUANTISE, EIGHT_BITS, QUANTISE

SUMS = ("MatMulInteger", "ConvInteger")
FORMS = (QUANTISE, DEQUANTISE)  # Operators of which only some forms are defined.
MOST_SUM = 2**24  # Integers below are exact in single precision.
LARGEST = 255  # Magnitude of an integer of 8 bits less its zero point.


def is_standard(node: FileNode, file: File, types: Mapping[str, str]) -> bool:
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


def _dequantised(new: Definition) -> bool:
    shape = new.shapes.get(new.given(0))
    if shape is None:
        return False
    scale, *zeros = _parameters(new, shape)
    x = new.as_real(new.given(0))
    for zero in zeros:
        x = new.made("Sub", x, zero)
    new.name_output(new.made("Mul", x, scale))
    return True


def _quantised(new: Definition) -> bool:
    shape = new.shapes.get(new.given(0))
    if shape is None:
        return False
    scale, *zeros = _parameters(new, shape)
    wanted = new.types[new.node.outputs[0]]
    steps = new.made("Round", new.made("Div", new.given(0), scale))
    for zero in zeros:
        steps = new.made("Add", steps, zero)
    limits = np.iinfo(wanted)
    clipped = new.made("Clip", steps, new.real(limits.min), new.real(limits.max))
    code = int(helper.np_dtype_to_tensor_dtype(np.dtype(wanted)))
    new.name_output(new.made("Cast", clipped, to=code))
    return True


def _parameters(new: Definition, shape: tuple[int, ...]) -> list[str]:
    """The scale, and the zero point if there is one, as real numbers that broadcast to the
    tensor."""
    return [_parameter(new, name, shape) for name in new.node.inputs[1:3] if name]


def _parameter(new: Definition, name: str, shape: tuple[int, ...]) -> str:
    found = new.file.constants.get(name)
    if found is None:
        return new.as_real(new.made("Reshape", name, new.integers()))
    elements = found.astype(np.float32)
    axis, block = whole(new.node, "axis", 1), whole(new.node, "block_size", 0)
    if block:
        elements = np.repeat(elements, block, axis)
        elements = np.take(elements, np.arange(shape[axis]), axis)
    elif elements.ndim == 1 and elements.size > 1:
        elements = elements.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))
    return new.constant(elements)


def _sums(new: Definition) -> bool:
    """False if sums may not be exact."""
    node, constants = new.node, new.file.constants
    right = new.given(1)
    weights = constants.get(right)
    zero = constants.get(node.inputs[3]) if len(node.inputs) > 3 else np.zeros(())
    is_product = node.name == SUMS[0]
    if weights is None or zero is None or zero.size > 1:
        shape = new.shapes.get(right)
        if shape is None:
            return False
        count = shape[max(0, len(shape) - 2)] if is_product else math.prod(shape[1:])
        largest = count * LARGEST
    else:
        axes = max(0, weights.ndim - 2) if is_product else tuple(range(1, weights.ndim))
        largest = int(np.abs(weights.astype(np.int64) - zero).sum(axes).max())
    if largest * LARGEST >= MOST_SUM:
        return False
    operands: list[str] = []
    for k in (0, 1):
        operand = new.as_real(node.inputs[k])
        if new.given(k + 2):
            operand = new.made("Sub", operand, _zero(new, node.inputs[k + 2], k))
        operands.append(operand)
    found = new.made(node.name.removesuffix("Integer"), *operands, **node.attributes)
    new.name_output(new.made("Cast", found, to=int(onnx.TensorProto.INT32)))
    return True


def _zero(new: Definition, name: str, k: int) -> str:
    """Zero points as real numbers: of rows of A in a product, or of output channels in a
    convolution, if there are several."""
    found = new.file.constants.get(name)
    if found is None:
        return new.as_real(name)
    elements = found.astype(np.float32)
    if elements.ndim == 1 and elements.size > 1:
        is_product = new.node.name == SUMS[0]
        rank = 2 if is_product else 4
        elements = elements.reshape(-1, *(1,) * (rank - 1)) if k != is_product else elements
    return new.constant(elements)


DEFINITIONS: Mapping[str, Define] = {
    **dict.fromkeys(SUMS, _sums),
    QUANTISE: _quantised,
    DEQUANTISE: _dequantised,
}
