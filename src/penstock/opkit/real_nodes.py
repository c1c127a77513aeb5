"""RealNodes: nodes that compute an ONNX node on real numbers, or on plain integers.

Every float operator of ONNX between DequantizeLinear and QuantizeLinear is real arithmetic in
single precision.  Operators without an integer kernel for it are imported by a `RealNodes`:
dequantised inputs, then a quantised output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Made, Nodes
from penstock.ir.graph import Value, Values, result_of
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation
from penstock.opkit.activation import FINITE, UNLIMITED
from penstock.opkit.broadcast import RANK, Clamped, Elementwise, with_merged_axes
from penstock.opkit.checks import require
from penstock.opkit.elementwise_nodes import of_merged_axes
from penstock.opkit.nodes import conversion
from penstock.opkit.onnx_constants import exact_operand, real_numbers
from penstock.ops.conversions import Cast, Dequantize
from penstock.ops.reshape import Reshape
from penstock.ops.tile import Tile

Operand = Value | Array | float
"""Of a node: a tensor, or numbers, which become a constant."""


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
        if value.dtype is DType.FLOAT32:
            return value
        op = Cast(DType.FLOAT32) if value.quantisation is None else Dequantize()
        return self.apply(op, value)

    def constant(self, numbers: Array | float, label: str) -> Value:
        """Real numbers, in single precision.  Raises ModelError if one is no number."""
        with np.errstate(over="ignore"):
            elements = np.asarray(numbers, np.float32)
        name = f"{self.node.y.name}/{label}"
        require(not bool(np.isnan(elements).any()), f'"{name}" holds what is no number')
        return Value.constant(name, elements)

    def integers(self, value: Value) -> Value:
        """Integers as int32, such as indices."""
        if value.dtype is DType.INT32:
            return value
        if value.quantisation is not None:
            return self.apply(Cast(DType.INT32), self.real(value))
        if value.data is not None:
            return self.typed_constant(value.array)
        return self.apply(Cast(DType.INT32), value)

    def take(self, made: Nodes) -> None:
        """Adds nodes that compute inputs of others."""
        self._made += made

    def plain(self, k: int) -> Value:
        """Input k in its own element type; as real numbers if it is quantised."""
        value = self.node.input(k)
        return value if value.quantisation is None else self.input(k)

    def typed_constant(self, elements: Array, dtype: DType = DType.INT32) -> Value:
        """A constant of an element type."""
        array = np.asarray(elements).astype(dtype.value)
        return Value.constant(f"{self.node.y.name}/constant", array)

    def apply(self, op: Op, *operands: Operand, like: Quantisation | None = None) -> Value:
        """The result of `op`: real numbers, or int8 elements in the quantisation `like`, by default
        that of an int8 input.

        Operands of element-wise operators may have any rank; numbers get the element type of the
        last tensor among the operands."""
        inputs = self._values(operands)
        if isinstance(op, Clamped) and op.limits == FINITE:
            op = replace(op, limits=UNLIMITED)
        if isinstance(op, Elementwise) and len(inputs) > 1:
            rank = max(value.rank for value in inputs)
            inputs = tuple(
                self.reshape(value, (1,) * (rank - value.rank) + value.shape) for value in inputs
            )
            if rank > RANK:
                return self._with_merged_axes(op, inputs)
        type = result_of(op, inputs)
        if type.dtype is DType.INT8:
            scales = (v.quantisation for v in inputs if v.dtype is DType.INT8)
            type = replace(type, quantisation=like or next(scales))
        name = f"{self.node.y.name}/real{len(self._made)}"
        value = Value(name, type)
        self._made.append(Made(op, inputs, value))
        return value

    def _values(self, operands: tuple[Operand, ...]) -> Values:
        dtype = DType.FLOAT32
        for one in operands:
            dtype = one.dtype if isinstance(one, Value) else dtype
        return tuple(
            one if isinstance(one, Value) else self.typed_constant(np.asarray(one), dtype)
            for one in operands
        )

    def _with_merged_axes(self, op: Op, inputs: Values) -> Value:
        shapes = tuple(value.shape for value in inputs)
        merged = with_merged_axes(shapes)
        values: list[Value] = []
        for value, shape, whole in zip(inputs, merged.shapes, merged.repeated, strict=True):
            if value.shape != whole:
                times = zip(whole, value.shape, strict=True)
                value = self.apply(Tile(tuple(a // b for a, b in times)), value)
            values.append(self.reshape(value, shape))
        return self.reshape(self.apply(op, *values), tuple(np.broadcast_shapes(*shapes)))

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value with another shape, of which one extent may be -1: what is left."""
        if -1 in shape:
            rest = -value.elements // math.prod(shape)
            shape = tuple(rest if extent == -1 else extent for extent in shape)
        if value.shape == shape:
            return value
        if value.data is not None:
            return replace(
                value, name=f"{value.name}/{len(shape)}", type=value.type.with_shape(shape)
            )
        return self.apply(Reshape(shape), value)

    def result(self, value: Value, k: int = 0) -> Iterator[Made]:
        """All nodes, of which the last computes output k: real numbers, quantised if it is."""
        return self.results({k: value})

    def results(self, values: Mapping[int, Value]) -> Iterator[Made]:
        """All nodes, of which some compute outputs by number, in their quantisation."""
        named: dict[str, Made] = {}
        last: list[Made] = []
        for k, value in values.items():
            wanted, found = self.node.output(k).quantisation, value.quantisation
            op = None if found == wanted else conversion(value, wanted)
            made = {one.output.name: one for one in self._made}.get(value.name)
            if op is not None or made is None or value.name in named:
                copy = op or Reshape(value.shape)
                last.append(self.node.made(copy, value, k=k))
            else:  # that node computes the output itself, so that no copy is made
                named[value.name] = self.node.made(made.op, *made.inputs, k=k)
        renamed = {name: made.output for name, made in named.items()}
        for made in (*(named.get(one.output.name, one) for one in self._made), *last):
            inputs = tuple(renamed.get(value.name, value) for value in made.inputs)
            yield replace(made, inputs=inputs)


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
    if len(found) < 2 or node.y.quantisation is None:
        yield from real_elementwise(node, real)
    elif max(value.rank for value in found) > RANK:
        shape = np.broadcast_shapes(*(value.shape for value in found))
        y = node.y
        yield from of_merged_axes(op, tuple(found), y.with_shape(shape))
    else:
        yield node.made(op, *found)
