"""Nodes that importers put around an operator: reshapes, and conversions of quantisations.

Every float operator of ONNX between DequantizeLinear and QuantizeLinear is real arithmetic in
single precision.  Operators without an integer kernel for it are imported by a `RealNodes`:
dequantised inputs, then a quantised output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.checks import require
from penstock.opkit.onnx_constants import exact_operand, real_numbers
from penstock.ops.conversions import Dequantize, Quantize, QuantizeReal
from penstock.ops.reshape import Reshape


def intermediate(value: Value, shape: tuple[int, ...], label: str) -> Value:
    """An intermediate value with the type of `value` and another shape."""
    return Value(f"{value.name}/{label}", value.type.with_shape(shape))


def with_shape(
    op: Op, inputs: tuple[Value, ...], shape: tuple[int, ...], output: Value
) -> Iterator[Made]:
    """Nodes that apply `op`, with result of `shape`, and reshape it to the output if needed."""
    if output.type.shape == shape:
        yield Made(op, inputs, output)
        return
    between = intermediate(output, shape, "before_reshape")
    yield Made(op, inputs, between)
    yield Made(Reshape(output.type.shape), (between,), output)


def reshaped(value: Value, shape: tuple[int, ...], name: str) -> tuple[Value, tuple[Made, ...]]:
    """`value` reshaped and named `name`, and the reshape node, if one is necessary."""
    if value.type.shape == shape:
        return value, ()
    viewed = Value(name, value.type.with_shape(shape), value.data)
    return viewed, () if value.data is not None else (Made(Reshape(shape), (value,), viewed),)


def requantised(
    node: OnnxNode, op: Op, x: Value, natural: Quantisation | None = None, k: int = 0
) -> Iterator[Made]:
    """Nodes that compute output k by `op` on x, followed by Quantize if necessary.

    `natural`: quantisation of the result of `op`; that of x by default."""
    natural, wanted = natural or x.type.quantisation, node.output(k).type.quantisation
    if wanted == natural:
        yield node.made(op, x, k=k)
        return
    first = node.between(op, x, label="before_quantize", like=natural, k=k)
    yield first
    yield node.made(_conversion(x, wanted), first.output, k=k)


def _conversion(x: Value, wanted: Quantisation | None) -> Op:
    """The operator that converts a value, or what is selected from it, to a quantisation, or to
    real numbers if that is None."""
    if wanted is None:
        return Dequantize()
    return QuantizeReal() if x.type.dtype is DType.FLOAT32 else Quantize()


def alike(node: OnnxNode, value: Value, label: str) -> tuple[Value, tuple[Made, ...]]:
    """A value in the quantisation of output 0, and the Quantize node, if one is necessary."""
    wanted = node.output().type.quantisation
    if value.type.quantisation == wanted:
        return value, ()
    type = TensorType(value.type.shape, DType.INT8 if wanted else DType.FLOAT32, wanted)
    found = Value(f"{node.output().name}/{label}", type)
    return found, (Made(_conversion(value, wanted), (value,), found),)


def in_scale_of_output(node: OnnxNode, k: int) -> tuple[Value, tuple[Made, ...]]:
    """Input k in the quantisation of output 0, and the nodes that convert it; constants are
    rounded half to even, and saturate."""
    value, y = node.input(k), node.output().type
    if value.data is None or y.quantisation is None:
        return alike(node, value, f"input{k}")
    with np.errstate(all="ignore"):
        steps = np.rint(real_numbers(node, k) / y.scale) + y.zero_point
    require(not bool(np.isnan(steps).any()), f'"{value.name}" holds what is no number')
    elements = np.clip(steps, -128, 127).astype(np.int8)
    return Value.constant(f"{node.output().name}/constant{k}", elements, y.quantisation), ()


def is_real(node: OnnxNode) -> bool:
    """Whether a node computes on real numbers without quantisation, or results in such."""
    computed = (value for value in node.inputs if value is not None and value.data is None)
    return node.output().type.quantisation is None or any(
        value.type.dtype is DType.FLOAT32 for value in computed
    )


class RealNodes:
    """The nodes of one ONNX node, in order of computation."""

    def __init__(self, node: OnnxNode) -> None:
        self.node = node
        self._made: list[Made] = []

    def input(self, k: int) -> Value:
        """Input k as real numbers.

        Each call dequantises again, so that a tensor that is read twice is stored as int8."""
        value = self.node.input(k)
        if value.data is not None:
            return self.constant(real_numbers(self.node, k), f"constant{k}")
        return self.real(value)

    def real(self, value: Value) -> Value:
        """A computed tensor as real numbers."""
        if value.type.dtype is DType.FLOAT32:
            return value
        return self.apply(Dequantize(), value)

    def constant(self, numbers: Array | float, label: str) -> Value:
        """Real numbers, in single precision.  Raises ModelError unless they are finite."""
        with np.errstate(over="ignore"):
            elements = np.asarray(numbers, np.float32)
        name = f"{self.node.output().name}/{label}"
        require(bool(np.isfinite(elements).all()), f'"{name}" holds what is no finite number')
        return Value.constant(name, elements)

    def apply(self, op: Op, *inputs: Value) -> Value:
        """The result of `op`: real numbers, or elements of an int8 input in its quantisation."""
        type = op.result_type(tuple(value.type for value in inputs))
        if type.dtype is DType.INT8:
            type = replace(type, quantisation=inputs[0].type.quantisation)
        name = f"{self.node.output().name}/real{len(self._made)}"
        value = Value(name, type)
        self._made.append(Made(op, inputs, value))
        return value

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value with another shape."""
        return value if value.type.shape == shape else self.apply(Reshape(shape), value)

    def result(self, value: Value, k: int = 0) -> Iterator[Made]:
        """All nodes, of which the last computes output k: real numbers, quantised if it is."""
        if self.node.output(k).type.quantisation is not None:
            yield from self._made
            yield self.node.made(QuantizeReal(), value, k=k)
            return
        # The last node computes the output itself, so that no copy is made.
        *before, last = self._made
        assert last.output is value
        yield from before
        yield self.node.made(last.op, *last.inputs, k=k)


def real_elementwise(node: OnnxNode, op: Op) -> Iterator[Made]:
    """Nodes that apply an element-wise operator of real numbers to all inputs of an ONNX node."""
    real = RealNodes(node)
    inputs = tuple(real.input(k) for k, _ in enumerate(node.inputs))
    return real.result(real.apply(op, *inputs))


def exact_elementwise(node: OnnxNode, op: Op, real: Op) -> Iterator[Made]:
    """Nodes of an element-wise operator of two inputs: `op` on int8 elements, or `real` on real
    numbers if an input or the output is not int8 without loss."""
    operands = [exact_operand(node, k) for k in range(2)]
    found = [value for value in operands if value is not None]
    if len(found) < 2 or node.output().type.quantisation is None:
        yield from real_elementwise(node, real)
    else:
        yield node.made(op, *found)
