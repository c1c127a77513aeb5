"""Definitions, by other operators, of operators on integers that the graph has no form for.

    QuantizeLinear, DequantizeLinear   of several scales or blocks, of computed scales and zero
                                       points, and of integers that have not 8 bits
    DynamicQuantizeLinear              with a scale of 1 if all elements are 0, where ONNX's own
                                       definition divides by 0, as in onnxruntime
    MatMulInteger, ConvInteger         as sums of products of real numbers, each over so many
                                       terms that it cannot reach 2^24 and is exact

Source: ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import onnx
from onnx import helper

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole, wrong
from penstock.frontends.onnx.operators import DEQUANTISE, EIGHT_BITS, QUANTISE
from penstock.ir.tensor import Array

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
    integers = types[node.y if node.name == QUANTISE else node.x]
    parameters = [file.constants.get(name) for name in node.inputs[1:3] if name]
    known = all(x is not None and x.size == 1 for x in parameters)
    # weights and biases, whose scales may be many
    is_constant = node.x in file.constants and integers in (*EIGHT_BITS, "int32")
    in_blocks = bool(node.attributes.get("block_size"))
    return not in_blocks and (is_constant or (known and integers in EIGHT_BITS))


def _dequantised(new: Definition) -> bool:
    shape = new.shapes.get(new.given(0))
    if shape is None or not np.issubdtype(np.dtype(new.types[new.given(0)]), np.integer):
        return False
    scale, *zeros = _parameters(new, shape)
    x = new.as_real(new.given(0))
    for zero in zeros:
        x = new.made("Sub", x, zero)
    new.name_output(new.made("Mul", x, scale))
    return True


def _quantised(new: Definition) -> bool:
    shape = new.shapes.get(new.given(0))
    wanted = new.types[new.node.y]
    if shape is None or not np.issubdtype(np.dtype(wanted), np.integer):
        return False
    scale, *zeros = _parameters(new, shape)
    steps = new.made("Round", new.made("Div", new.given(0), scale))
    for zero in zeros:
        steps = new.made("Add", steps, zero)
    limits = np.iinfo(wanted)
    clipped = new.made("Clip", steps, limits.min, limits.max)
    code = int(helper.np_dtype_to_tensor_dtype(np.dtype(wanted)))
    new.name_output(new.made("Cast", clipped, to=code))
    return True


def _dynamically_quantised(new: Definition) -> bool:
    x, zero = new.given(0), new.real(0.0)
    least = new.made("Min", new.made("ReduceMin", x, keepdims=0), zero)
    most = new.made("Max", new.made("ReduceMax", x, keepdims=0), zero)
    extent = new.made("Sub", most, least)
    step = new.made("Div", extent, LARGEST)
    scale = new.made("Where", new.made("Equal", extent, zero), 1.0, step)
    point = new.made("Sub", zero, new.made("Div", least, scale))
    point = new.made("Round", new.made("Clip", point, zero, LARGEST))
    point = new.made("Cast", point, to=int(onnx.TensorProto.UINT8))
    for k, made in enumerate((new.made(QUANTISE, x, scale, point), scale, point)):
        new.name_output(made, k)
    return True


def _parameters(new: Definition, shape: tuple[int, ...]) -> list[str]:
    """The scale, and the zero point if there is one, as real numbers that broadcast to the
    tensor."""
    return [_parameter(new, name, shape) for name in new.node.inputs[1:3] if name]


def _parameter(new: Definition, name: str, shape: tuple[int, ...]) -> str:
    found = new.file.constants.get(name)
    if found is None:
        return new.as_real(new.made("Reshape", name, ()))
    elements = found.astype(np.float32)
    axis, block = whole(new.node, "axis", 1), whole(new.node, "block_size", 0)
    if elements.size > 1 and not -len(shape) <= axis < len(shape):
        raise wrong(new.node, f"the tensor {list(shape)} has no axis {axis}")
    if block:
        elements = np.repeat(elements, block, axis)
        elements = np.take(elements, np.arange(shape[axis]), axis)
    elif elements.ndim == 1 and elements.size > 1:
        elements = elements.reshape(-1, *(1,) * (len(shape) - axis % len(shape) - 1))
    return new.constant(elements)


def _sums(new: Definition) -> bool:
    """False if a shape is not known, or if a group of channels has too many terms."""
    magnitudes = _magnitudes(new)
    if magnitudes is None:
        return False
    is_product = new.node.name == SUMS[0]
    ends = _ends_of_exact_sums(magnitudes)
    if ends is None or (len(ends) > 1 and whole(new.node, "group", 1) != 1):
        return False
    axes = (-1, -2) if is_product else (1, 1)
    operands = [_shifted(new, k) for k in (0, 1)]
    total = ""
    for start, end in pairwise((0, *ends)):
        parts = operands
        if len(ends) > 1:
            bounds = [(new.integers(start), new.integers(end), new.integers(k)) for k in axes]
            parts = [new.made("Slice", x, *b) for x, b in zip(operands, bounds, strict=True)]
        found = new.made(new.node.name.removesuffix("Integer"), *parts, **new.node.attributes)
        found = new.made("Cast", found, to=int(onnx.TensorProto.INT32))
        total = new.made("Add", total, found) if total else found
    new.name_output(total)
    return True


def _magnitudes(new: Definition) -> Array | None:
    """The largest magnitude of the term of each index that is summed over, for each sum; None if
    the shape of the weights is not known."""
    weights = new.file.constants.get(new.given(1))
    zero = new.file.constants.get(new.given(3)) if new.given(3) else np.zeros((), np.int64)
    is_product = new.node.name == SUMS[0]
    if weights is None or zero is None or zero.size > 1:
        shape = new.shapes.get(new.given(1))
        if shape is None:
            return None
        found = np.full(shape, LARGEST, np.int64)
    else:
        found = np.abs(weights.astype(np.int64) - zero.astype(np.int64).reshape(()))
    if is_product:
        summed = found if found.ndim > 1 else found[:, None]
        return np.moveaxis(summed, -2, 0).reshape(summed.shape[-2], -1) * LARGEST
    return found.reshape(*found.shape[:2], -1).sum(2).T * LARGEST


def _ends_of_exact_sums(magnitudes: Array) -> list[int] | None:
    """The ends of the fewest equal parts of the terms whose sums stay below the limit."""
    count = len(magnitudes)
    totals = np.concatenate([np.zeros_like(magnitudes[:1]), np.cumsum(magnitudes, axis=0)])
    for parts in range(1, count + 1):
        ends = [count * k // parts for k in range(parts + 1)]
        if np.diff(totals[ends], axis=0).max() < MOST_SUM:
            return ends[1:]
    return None


def _shifted(new: Definition, k: int) -> str:
    """An operand as real numbers, less its zero point."""
    x = new.as_real(new.given(k))
    zero = new.given(k + 2)
    return new.made("Sub", x, _zero(new, zero, k)) if zero else x


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
    "DynamicQuantizeLinear": _dynamically_quantised,
}
