"""Nodes that importers put around an operator: reshapes, and conversions of quantisations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Attribute, ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.onnx_constants import real_numbers
from penstock.ops.conversions import Dequantize, Quantize, QuantizeReal
from penstock.ops.reshape import Reshape

LATEST_FORM = 18
"""Operator set whose operators the ONNX forms of TFLite nodes follow."""


def intermediate(value: Value, shape: tuple[int, ...], label: str) -> Value:
    """An intermediate value with the type of `value` and another shape."""
    return value.shaped(f"{value.name}/{label}", shape)


def with_shape(op: Op, inputs: Values, shape: tuple[int, ...], output: Value) -> Iterator[Made]:
    """Nodes that apply `op`, with result of `shape`, and reshape it to the output if needed."""
    if output.shape == shape:
        yield Made(op, inputs, output)
        return
    between = intermediate(output, shape, "before_reshape")
    yield Made(op, inputs, between)
    yield Made(Reshape(output.shape), (between,), output)


def reshaped(value: Value, shape: tuple[int, ...], name: str) -> tuple[Value, tuple[Made, ...]]:
    """`value` reshaped and named `name`, and the reshape node, if one is necessary."""
    if value.shape == shape:
        return value, ()
    viewed = Value(name, value.type.with_shape(shape), value.data)
    return viewed, () if value.data is not None else (Made(Reshape(shape), (value,), viewed),)


def is_plain_foreign(node: ForeignNode) -> bool:
    """Whether a TFLite node computes real numbers."""
    return bool(node.outputs) and node.y.dtype is DType.FLOAT32


def onnx_form(
    node: ForeignNode, name: str, *inputs: Value | None, **attributes: Attribute
) -> OnnxNode:
    """A TFLite node on real numbers as the ONNX node of that name which computes the same.

    inputs: by default those of the node."""
    rank = node.x.rank
    return OnnxNode(
        name,
        node.where,
        inputs or node.inputs,
        node.outputs,
        attributes,
        order=tuple(range(rank)),
        opset=LATEST_FORM,
    )


def in_shape_of_output(node: ForeignNode, nodes: Nodes) -> Iterator[Made]:
    """Nodes of an ONNX form, of which the last computes the output of the TFLite node; a reshape
    follows where that has another shape.

    Raises UnsupportedError if they compute another element type."""
    y, made = node.y, [*_with_names_of_constants(nodes)]
    last = made.pop()
    require_dtype(last.output.type, "output", y.dtype)
    yield from made
    if last.output.shape == y.shape:
        yield replace(last, output=y)
        return
    kept = intermediate(y, last.output.shape, "before_reshape")
    yield replace(last, output=kept)
    yield Made(Reshape(y.shape), (kept,), y)


def _with_names_of_constants(nodes: Nodes) -> Iterator[Made]:
    """The nodes, in which constants that differ have names that differ."""
    known: dict[str, Value] = {}

    def named(value: Value) -> Value:
        while value.data is not None and known.setdefault(value.name, value) != value:
            value = replace(value, name=f"{value.name}{len(known)}")
        return value

    for made in nodes:
        yield replace(made, inputs=tuple(map(named, made.inputs)))


def requantised(
    node: OnnxNode, op: Op, x: Value, natural: Quantisation | None = None, k: int = 0
) -> Iterator[Made]:
    """Nodes that compute output k by `op` on x, followed by Quantize if necessary.

    `natural`: quantisation of the result of `op`; that of x by default."""
    natural, wanted = natural or x.quantisation, node.output(k).quantisation
    if wanted == natural:
        yield node.made(op, x, k=k)
        return
    first = node.between(op, x, label="before_quantize", like=natural, k=k)
    yield first
    yield node.made(conversion(x, wanted), first.output, k=k)


def conversion(x: Value, wanted: Quantisation | None) -> Op:
    """The operator that converts a value, or what is selected from it, to a quantisation, or to
    real numbers if that is None."""
    if wanted is None:
        return Dequantize()
    return QuantizeReal(to_even=True) if x.dtype is DType.FLOAT32 else Quantize()


def alike(node: OnnxNode, value: Value, label: str) -> tuple[Value, tuple[Made, ...]]:
    """A value in the quantisation of output 0, and the Quantize node, if one is necessary."""
    wanted = node.y.quantisation
    if value.quantisation == wanted:
        return value, ()
    type = TensorType(value.shape, DType.INT8 if wanted else DType.FLOAT32, wanted)
    found = Value(f"{node.y.name}/{label}", type)
    return found, (Made(conversion(value, wanted), (value,), found),)


def in_scale_of_output(node: OnnxNode, k: int) -> tuple[Value, tuple[Made, ...]]:
    """Input k in the quantisation of output 0, and the nodes that convert it; constants are
    rounded half to even, and saturate."""
    value, y = node.input(k), node.y.type
    if value.data is None or y.quantisation is None:
        return alike(node, value, f"input{k}")
    with np.errstate(all="ignore"):
        steps = np.rint(real_numbers(node, k) / y.scale) + y.zero_point
    require(not bool(np.isnan(steps).any()), f'"{value.name}" holds what is no number')
    elements = np.clip(steps, -128, 127).astype(np.int8)
    return Value.constant(f"{node.y.name}/constant{k}", elements, y.quantisation), ()


def is_real(node: OnnxNode) -> bool:
    """Whether a node computes on real numbers without quantisation, or results in such."""
    computed = (value for value in node.inputs if value is not None and value.data is None)
    return node.y.quantisation is None or any(value.dtype is DType.FLOAT32 for value in computed)
