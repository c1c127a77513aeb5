"""Nodes that importers put around an operator: reshapes, and conversions of quantisations.

Every float operator of ONNX between DequantizeLinear and QuantizeLinear is real arithmetic in
single precision.  Operators without an integer kernel for it are imported by a `RealNodes`:
dequantised inputs, then a quantised output.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Attribute, ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.activation import FINITE, UNLIMITED
from penstock.opkit.broadcast import RANK, Clamped, Elementwise, with_merged_axes
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.onnx_constants import exact_operand, real_numbers
from penstock.ops.conversions import Cast, Dequantize, Quantize, QuantizeReal
from penstock.ops.reshape import Reshape

LATEST_FORM = 18
"""Operator set whose operators the ONNX forms of TFLite nodes follow."""


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


def is_plain_foreign(node: ForeignNode) -> bool:
    """Whether a TFLite node computes real numbers."""
    return bool(node.outputs) and node.output().type.dtype is DType.FLOAT32


def onnx_form(
    node: ForeignNode, name: str, *inputs: Value | None, **attributes: Attribute
) -> OnnxNode:
    """A TFLite node on real numbers as the ONNX node of that name which computes the same.

    inputs: by default those of the node."""
    rank = node.input(0).type.rank
    return OnnxNode(
        name,
        node.where,
        inputs or node.inputs,
        node.outputs,
        attributes,
        order=tuple(range(rank)),
        opset=LATEST_FORM,
    )


def in_shape_of_output(node: ForeignNode, nodes: Iterable[Made]) -> Iterator[Made]:
    """Nodes of an ONNX form, of which the last computes the output of the TFLite node; a reshape
    follows where that has another shape.

    Raises UnsupportedError if they compute another element type."""
    y, made = node.output(), [*_with_names_of_constants(nodes)]
    last = made.pop()
    require_dtype(last.output.type, (y.type.dtype,), "output")
    yield from made
    if last.output.type.shape == y.type.shape:
        yield replace(last, output=y)
        return
    kept = intermediate(y, last.output.type.shape, "before_reshape")
    yield replace(last, output=kept)
    yield Made(Reshape(y.type.shape), (kept,), y)


def _with_names_of_constants(nodes: Iterable[Made]) -> Iterator[Made]:
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
        op = Cast(DType.FLOAT32) if value.type.quantisation is None else Dequantize()
        return self.apply(op, value)

    def constant(self, numbers: Array | float, label: str) -> Value:
        """Real numbers, in single precision.  Raises ModelError if one is no number."""
        with np.errstate(over="ignore"):
            elements = np.asarray(numbers, np.float32)
        name = f"{self.node.output().name}/{label}"
        require(not bool(np.isnan(elements).any()), f'"{name}" holds what is no number')
        return Value.constant(name, elements)

    def integers(self, value: Value) -> Value:
        """Integers as int32, such as indices."""
        if value.type.dtype is DType.INT32:
            return value
        if value.type.quantisation is not None:
            return self.apply(Cast(DType.INT32), self.real(value))
        if value.data is not None:
            return self.typed_constant(value.data.array(value.type), DType.INT32)
        return self.apply(Cast(DType.INT32), value)

    def take(self, made: Iterable[Made]) -> None:
        """Adds nodes that compute inputs of others."""
        self._made += made

    def plain(self, k: int) -> Value:
        """Input k in its own element type; as real numbers if it is quantised."""
        value = self.node.input(k)
        return value if value.type.quantisation is None else self.input(k)

    def typed_constant(self, elements: Array, dtype: DType) -> Value:
        """A constant of an element type."""
        array = np.asarray(elements).astype(dtype.value)
        return Value.constant(f"{self.node.output().name}/constant", array)

    def apply(self, op: Op, *operands: Value | float) -> Value:
        """The result of `op`: real numbers, or elements of an int8 input in its quantisation.

        Operands of element-wise operators may have any rank, and may be numbers of the element type
        of the last tensor among them."""
        inputs = self._values(operands)
        if isinstance(op, Clamped) and op.limits == FINITE:
            op = replace(op, limits=UNLIMITED)
        if isinstance(op, Elementwise) and len(inputs) > 1:
            rank = max(value.type.rank for value in inputs)
            inputs = tuple(
                self.reshape(value, (1,) * (rank - value.type.rank) + value.type.shape)
                for value in inputs
            )
            if rank > RANK:
                return self._with_merged_axes(op, inputs)
        type = op.result_type(tuple(value.type for value in inputs))
        if type.dtype is DType.INT8:
            scales = (v.type.quantisation for v in inputs if v.type.dtype is DType.INT8)
            type = replace(type, quantisation=next(scales))
        name = f"{self.node.output().name}/real{len(self._made)}"
        value = Value(name, type)
        self._made.append(Made(op, inputs, value))
        return value

    def _values(self, operands: tuple[Value | float, ...]) -> tuple[Value, ...]:
        dtype = DType.FLOAT32
        for one in operands:
            dtype = one.type.dtype if isinstance(one, Value) else dtype
        return tuple(
            one if isinstance(one, Value) else self.typed_constant(np.array(one), dtype)
            for one in operands
        )

    def _with_merged_axes(self, op: Op, inputs: tuple[Value, ...]) -> Value:
        from penstock.ops.tile import Tile  # whose importer uses this module

        shapes = tuple(value.type.shape for value in inputs)
        merged = with_merged_axes(shapes)
        values: list[Value] = []
        for value, shape, whole in zip(inputs, merged.shapes, merged.repeated, strict=True):
            if value.type.shape != whole:
                times = zip(whole, value.type.shape, strict=True)
                value = self.apply(Tile(tuple(a // b for a, b in times)), value)
            values.append(self.reshape(value, shape))
        return self.reshape(self.apply(op, *values), tuple(np.broadcast_shapes(*shapes)))

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value with another shape, of which one extent may be -1: what is left."""
        if -1 in shape:
            rest = -value.type.elements // math.prod(shape)
            shape = tuple(rest if extent == -1 else extent for extent in shape)
        if value.type.shape == shape:
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
            wanted, found = self.node.output(k).type.quantisation, value.type.quantisation
            op = None if found == wanted else _conversion(value, wanted)
            made = {one.output.name: one for one in self._made}.get(value.name)
            if op is not None or made is None or value.name in named:
                copy = op or Reshape(value.type.shape)
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
    if len(found) < 2 or node.output().type.quantisation is None:
        yield from real_elementwise(node, real)
    else:
        yield node.made(op, *found)
