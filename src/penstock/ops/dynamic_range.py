"""Layers of TFLite on real numbers with int8 weights (dynamic-range quantisation).

The inputs of each batch element, or of each row of a fully connected layer, are quantised at run
time, by their least and greatest element; sums of products of integers are then scaled.  Only fully
connected layers state whether steps are symmetric; those of convolutions are if all channels of the
weights share a scale.  All of it
is composed of operators on real numbers, which hold these integers; sums below 2**24 are exact.

Source: TFLite, hybrid kernels of `fully_connected.cc`, `conv.cc` and `depthwise_conv.cc`;
`AsymmetricQuantizeFloats` and `SymmetricQuantizeFloats` (`portable_tensor_utils.cc`), which compute
scale and zero point in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ir.tensor import DType
from penstock.opkit.activation import Limits, fused_activation
from penstock.opkit.layers import PlainLayer
from penstock.opkit.nodes import in_shape_of_output, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.plain import (
    PlainAbs,
    PlainAdd,
    PlainDiv,
    PlainMaximum,
    PlainMinimum,
    PlainMul,
    PlainRelu,
    PlainSub,
    Round,
)
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction

LEAST_SCALE = 2.0**-120
"""In place of the scale of inputs that are all 0."""


def is_dynamic(node: ForeignNode) -> bool:
    """Whether a layer computes real numbers with int8 weights."""
    return (node.input(0).type.dtype, node.input(1).type.dtype) == (DType.FLOAT32, DType.INT8)


def layer_nodes(
    node: ForeignNode, op: PlainLayer, shape: tuple[int, ...], axes: tuple[int, ...]
) -> Iterable[Made]:
    """Nodes of a layer.

    op: sums the products, without a clamp.  shape: that in which it reads the input.  axes: those
    along which elements have one scale.  Raises UnsupportedError if weights are computed."""
    w, new = node.input(1), RealNodes(onnx_form(node, node.name))
    q, elements = w.type.quantisation, node.constant(1)
    if q is None or any(q.zero_points):
        raise node.unsupported("int8 weights without scales, or with zero points")
    x = new.reshape(new.input(0), shape)
    outputs = w.type.shape[op.OUTPUT_AXIS]
    is_asymmetric = node.integer("asymmetric_quantize_inputs", int(len(q.scales) == outputs))
    steps, scale = _steps(new, x, axes, is_symmetric=not is_asymmetric)
    weights = Value.constant(f"{w.name}/steps", elements.astype(np.float32))
    sums = new.apply(op, steps, weights, new.constant(np.zeros(outputs), "no_bias"))
    scales = np.broadcast_to(np.array(q.scales, np.float32), (outputs,))
    channels = new.constant(scales, "scales")
    if node.name == "CONV_2D" and is_asymmetric:  # rounded in this order
        found = new.apply(PlainMul(), new.apply(PlainMul(), sums, channels), scale)
    else:
        found = new.apply(PlainMul(), sums, new.apply(PlainMul(), scale, channels))
    if node.optional(2) is not None:
        found = new.apply(PlainAdd(), found, new.constant(node.constant(2), "bias"))
    clamp = PlainRelu(Limits.of(fused_activation(node)))
    return in_shape_of_output(node, new.result(new.apply(clamp, found)))


def _steps(
    new: RealNodes, x: Value, axes: tuple[int, ...], *, is_symmetric: bool
) -> tuple[Value, Value]:
    """Inputs in steps, less their zero point, and the scale of a step."""
    if is_symmetric:
        largest = new.apply(PlainReduction(ReductionFunction.MAX, axes), new.apply(PlainAbs(), x))
        scale = _divided(new, largest, 127)
        return _clamped(new, new.apply(PlainDiv(), x, scale), -127, 127), scale
    lower, upper = (
        new.apply(bound, new.apply(PlainReduction(function, axes), x), 0.0)
        for function, bound in _ENDS
    )
    scale = _divided(new, new.apply(PlainSub(), upper, lower), 255)
    zero = new.apply(PlainSub(), -128.0, new.apply(PlainDiv(), lower, scale))
    zero = _clamped(new, zero, -128, 127)
    steps = new.apply(PlainAdd(), new.apply(PlainDiv(), x, scale), zero)
    return new.apply(PlainSub(), _clamped(new, steps, -128, 127), zero), scale


_ENDS: tuple[tuple[ReductionFunction, Op], ...] = (
    (ReductionFunction.MIN, PlainMinimum()),
    (ReductionFunction.MAX, PlainMaximum()),
)


def _divided(new: RealNodes, x: Value, count: int) -> Value:
    return new.apply(PlainMaximum(), new.apply(PlainDiv(), x, float(count)), LEAST_SCALE)


def _clamped(new: RealNodes, x: Value, least: int, most: int) -> Value:
    return new.apply(PlainRelu(Limits(least, most)), new.apply(Round(), x))
