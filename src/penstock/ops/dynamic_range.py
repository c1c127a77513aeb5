"""Layers of TFLite on real numbers with int8 weights (dynamic-range quantisation).

The inputs of each batch element, or of each row of a fully connected layer, are quantised at run
time, by their least and greatest element; sums of products of integers are then scaled.  Only fully
connected layers state whether steps are symmetric; those of convolutions are if all channels of the
weights share a scale, and those of transposed convolutions never.  All of it is composed of
operators on real numbers, which hold these integers; sums below 2**24 are exact.  (The reference
scales each product of a transposed convolution, and rounds its sums.)

Source: TFLite, hybrid kernels of `fully_connected.cc`, `conv.cc`, `depthwise_conv.cc` and
`transpose_conv.cc`;
`AsymmetricQuantizeFloats` and `SymmetricQuantizeFloats` as TensorFlow computes them on x86: of them
the zero point has double precision, and is added to rounded steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.tensor import DType
from penstock.opkit.activation import UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.float_functions import Floats
from penstock.opkit.layers import Layer, PlainLayer, foreign_layer
from penstock.opkit.nodes import in_shape_of_output, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.formulas import Term
from penstock.ops.plain import (
    PlainMaximum,
    PlainMinimum,
    PlainRelu,
    Round,
    rounded_away,
)
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction


def zero_of(least: Floats, most: Floats) -> Floats:
    """The zero point of int8 steps of numbers from `least`, at most 0, to `most`, at least 0: from
    the end at which the error is smaller, in double precision."""
    scale = (most.astype(np.float64) - least) / 255
    below, above = least / scale, most / scale
    zero = np.where(128 - below < 127 + above, -128 - below, 127 - above)
    bounded = np.where(zero > -128, np.minimum(zero, 127), -128)
    return np.where(least < most, rounded_away(bounded), 0).astype(np.float32)


@frozen
class DynamicZero(Plain):
    """The zero point of int8 steps between two real numbers, as TFLite quantises inputs at run
    time."""

    INPUTS = 2
    ARITHMETIC = arithmetic("dynamic_zero", float32=zero_of)


def is_dynamic(node: ForeignNode, k: int = 0) -> bool:
    """Whether a layer computes real numbers, input k, with int8 weights."""
    return (node.input(k).dtype, node.input(1).dtype) == (DType.FLOAT32, DType.INT8)


def convolution_nodes(
    node: ForeignNode,
    quantised: Callable[[Activation], Layer],
    plain: Callable[[Limits], PlainLayer],
    operands: tuple[int, int] = (0, 2),
) -> Nodes:
    """Nodes of a convolution of TFLite, on int8 or on real numbers.

    quantised, plain: the operator, given its clamp.  operands: the positions of input and bias.
    Raises as `layer_nodes` and `layers.layer_node`."""
    x = node.input(operands[0])
    if is_dynamic(node, operands[0]):
        return layer_nodes(node, plain(UNLIMITED), x.shape, (1, 2, 3), operands)
    clamp = fused_activation(node)
    is_real = x.dtype is DType.FLOAT32
    op = plain(Limits.of(clamp)) if is_real else quantised(clamp)
    return (foreign_layer(op, node, x, node.input(1), operands[1]),)


def layer_nodes(
    node: ForeignNode,
    op: PlainLayer,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    operands: tuple[int, int] = (0, 2),
) -> Nodes:
    """Nodes of a layer.

    op: sums the products, without a clamp.  shape: that in which it reads the input.  axes: those
    along which elements have one scale.  operands: the positions of input and bias.  Raises
    UnsupportedError if weights are computed."""
    w, new = node.input(1), RealNodes(onnx_form(node, node.name))
    q, elements = w.quantisation, node.constant(1)
    if q is None or any(q.zero_points):
        raise node.unsupported("int8 weights without scales, or with zero points")
    x = Term(new, new.reshape(new.input(operands[0]), shape))
    outputs, is_transposed = w.shape[op.OUTPUT_AXIS], node.name == "TRANSPOSE_CONV"
    is_asymmetric = is_transposed or node.integer(
        "asymmetric_quantize_inputs", int(len(q.scales) == outputs)
    )
    steps, scale = steps_of(x, axes, is_symmetric=not is_asymmetric)
    weights = Value.constant(f"{w.name}/steps", elements.astype(np.float32))
    sums = steps.to(op, weights, new.constant(np.zeros(outputs), "no_bias"))
    scales = np.broadcast_to(np.array(q.scales, np.float32), (outputs,))
    channels = new.constant(scales, "scales")
    if is_transposed or (node.name == "CONV_2D" and is_asymmetric):  # rounded in this order
        found = sums * channels * scale
    else:
        found = sums * (scale * channels)
    if node.optional(operands[1]) is not None:
        found += new.constant(node.constant(operands[1]), "bias")
    clamp = PlainRelu(Limits.of(fused_activation(node)))
    return in_shape_of_output(node, new.result(found.to(clamp).value))


def steps_of(x: Term, axes: tuple[int, ...], *, is_symmetric: bool) -> tuple[Term, Term]:
    """Inputs in steps, less their zero point, and the scale of a step."""
    if is_symmetric:
        largest = abs(x).to(PlainReduction(ReductionFunction.MAX, axes)).to(PlainMaximum(), LEAST)
        return _clamped(_rounded(x, 127.0 / largest), -127, 127), largest / 127.0
    least = x.to(PlainReduction(ReductionFunction.MIN, axes)).to(PlainMinimum(), 0.0)
    most = x.to(PlainReduction(ReductionFunction.MAX, axes)).to(PlainMaximum(), 0.0)
    zero = least.to(DynamicZero(), most)
    scale = ((most - least) / 255.0).to(PlainMaximum(), LEAST)
    steps = _clamped(_rounded(x, 1.0 / scale) + zero, -128, 127)
    return steps - zero, scale


def steps_of_rows(x: Floats, *, is_symmetric: bool) -> tuple[Floats, Floats]:
    """Rows of numbers in steps, less their zero point, and the scale of each, as `steps_of`."""
    least = np.fmin.reduce(x, -1, keepdims=True, initial=np.float32(0))
    most = np.fmax.reduce(x, -1, keepdims=True, initial=np.float32(0))
    if is_symmetric:
        largest = np.maximum(np.maximum(most, -least), np.float32(LEAST))
        steps = rounded_away(x * (np.float32(127) / largest))
        scale = np.divide(largest, np.float32(127), dtype=np.float32)
        return np.clip(steps, -127, 127), scale
    scale = np.divide(most - least, np.float32(255), dtype=np.float32)
    scale, zero = np.maximum(scale, np.float32(LEAST)), zero_of(least, most)
    steps = rounded_away(x * (np.float32(1) / scale)) + zero
    return np.clip(steps, -128, 127) - zero, scale


LEAST = 2.0**-100
"""In place of the largest magnitude, or of the scale, of inputs that are all 0."""


def _rounded(x: Term, factor: Term) -> Term:
    return (x * factor).to(Round(away=True))


def _clamped(x: Term, least: int, most: int) -> Term:
    return x.to(PlainRelu(Limits(least, most)))
