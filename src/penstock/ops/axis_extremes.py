"""Maxima and minima along axes, and the index of the first one along an axis.

    x  up to rank 4
    y  x with extent 1 along the axes; a reshape follows where models drop them

Sources: TFLite REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL; `reference/reduce.h`.  ARG_MAX,
ARG_MIN; `reference/arg_min_max.h`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from penstock.frozen import frozen
from penstock.ir.exchange import ExchangedAxis
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, row_kernel
from penstock.ir.operator_facts import CARRIED, AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import reduction
from penstock.opkit.checks import one_axis, require_dtype
from penstock.opkit.nodes import in_shape_of_output, is_plain_foreign, requantised, with_shape
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.reduction import AlongAxes, Axes, Reduction
from penstock.ops.comparisons import PlainCompare, Relation
from penstock.ops.conversions import Cast
from penstock.ops.integer_pairs import SUB
from penstock.ops.plain_reduction import ReductionFunction, reduced_plain
from penstock.ops.slice import backwards


@frozen
class _Extreme(AlongAxes):
    """Maximum (`SIGN` 1) or minimum (-1) along `axes`, which keep extent 1."""

    SIGN: ClassVar[int]

    def result_type(self, inputs: Types) -> TensorType:
        dtype = DType.BOOL if inputs and inputs[0].dtype is DType.BOOL else DType.INT8
        return self.reduced_type(inputs, dtype, (DType.BOOL,))

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = inputs[0][read.slices]
        # bool counts as 0 and 1: the maximum is REDUCE_ANY, the minimum REDUCE_ALL.
        find = x.max if self.SIGN > 0 else x.min
        return find(axis=self.axes, keepdims=True)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("reduce_extreme_s8", self.params(site), sign=self.SIGN)


@frozen
class ReduceMax(_Extreme):
    """The maximum along `axes`."""

    TFLITE = ("REDUCE_MAX", "REDUCE_ANY")
    ONNX = onnx(CARRIED, "ReduceMax")
    RELAY = relay("max")
    SIGN = 1


@frozen
class ReduceMin(_Extreme):
    """The minimum along `axes`."""

    TFLITE = ("REDUCE_MIN", "REDUCE_ALL")
    ONNX = onnx(CARRIED, "ReduceMin")
    RELAY = relay("min")
    SIGN = -1


def _foreign_extreme(node: ForeignNode) -> Nodes:
    if is_plain_foreign(node):
        name = "ReduceMax" if node.name == "REDUCE_MAX" else "ReduceMin"
        form = reduction.onnx_form_of(node, name)
        return in_shape_of_output(node, reduction.onnx_nodes(form, _onnx_extreme))
    x, y = node.x.type, node.y.type
    is_logical = node.name in ("REDUCE_ANY", "REDUCE_ALL")
    require_dtype(y, "output", DType.BOOL if is_logical else DType.INT8)
    if (x.scale, x.zero_point) != (y.scale, y.zero_point):
        raise node.unsupported("input and output differ in scale or zero point, must be equal")
    return reduction.understood(node, ReduceMax if node.name in ReduceMax.TFLITE else ReduceMin)


@frozen
class _ArgExtreme(ExchangedAxis, Reduction):
    """Index of the maximum (`SIGN` 1) or minimum (-1) along `axis`."""

    axis: int

    SIGN: ClassVar[int]

    @property
    def reduced_axes(self) -> Axes:
        return (self.axis,)

    def result_type(self, inputs: Types) -> TensorType:
        return self.reduced_type(inputs, DType.INT32, (DType.FLOAT32,))

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = _ordered(inputs[0][read.slices], self.SIGN, self.axis)
        found = np.argmax(x, self.axis) if self.SIGN > 0 else np.argmin(x, self.axis)
        return np.expand_dims(found, self.axis).astype(np.int32)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "arg_extreme_f32" if site.x.dtype is DType.FLOAT32 else "arg_extreme_s8",
            self.params(site),
            sign=self.SIGN,
        )


def _ordered(x: Array, sign: int, axis: int) -> Array:
    """The elements, with NaN where it is found replaced by the worst one.  NaN is found only at
    index 0, as no number is above it."""
    if x.dtype.kind != "f":
        return x
    first = np.take(x, [0], axis)
    replaced = np.where(np.isnan(x), np.float32(-sign * np.inf), x)
    return np.where(np.isnan(first), np.float32(0), replaced)


@frozen
class ArgMax(_ArgExtreme):
    """Index of the first maximum along `axis`."""

    TFLITE = ("ARG_MAX",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, integers=True, floats=True), "ArgMax") | onnx(
        OnnxName(AxisOrder.VECTORS, floats=True), "Hardmax"
    )
    RELAY = relay("argmax")
    SIGN = 1


@frozen
class ArgMin(_ArgExtreme):
    """Index of the first minimum along `axis`."""

    TFLITE = ("ARG_MIN",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, integers=True, floats=True), "ArgMin")
    RELAY = relay("argmin")
    SIGN = -1


def _foreign_index(node: ForeignNode) -> Nodes:
    x, y = node.x, node.y
    require_dtype(y.type, "output", DType.INT32, DType.INT64)
    axis = one_axis(node, 1, x.rank)
    op = ArgMax(axis) if node.name == "ARG_MAX" else ArgMin(axis)
    found = y
    if y.dtype is DType.INT64:
        found = Value(f"{y.name}/index", TensorType(y.shape, DType.INT32))
    yield from with_shape(op, (x,), reduction.reduced(x.shape, (axis,)), found)
    if found is not y:
        yield Made(Cast(DType.INT64), (found,), y)


def _onnx_index(node: OnnxNode) -> Nodes:
    """ONNX ArgMax, ArgMin, of the first or the last index."""
    new, x, axis = RealNodes(node), node.x, node.axis(node.integer("axis"))
    op = ArgMax(axis) if node.name == "ArgMax" else ArgMin(axis)
    if node.integer("select_last_index"):
        index = new.apply(op, new.apply(backwards(x.shape, axis), x))
        index = new.apply(SUB, x.shape[axis] - 1, index)
    else:
        index = new.apply(op, x)
    return new.result(new.apply(Cast(DType.INT64), index))


def _hardmax(node: OnnxNode) -> Nodes:
    """ONNX Hardmax: 1 at the first maximum along the last axis, else 0."""
    new = RealNodes(node)
    x = new.input(0)
    axis = x.rank - 1
    index = new.apply(ArgMax(axis), x)
    is_there = new.apply(PlainCompare(Relation.EQUAL), index, np.arange(x.shape[axis]))
    return new.result(new.apply(Cast(DType.FLOAT32), is_there))


def from_foreign(node: ForeignNode) -> Nodes:
    return _foreign_index(node) if node.name.startswith("ARG_") else _foreign_extreme(node)


def from_onnx(node: OnnxNode) -> Nodes:
    if node.name.startswith("Arg"):
        return _onnx_index(node)
    if node.name == "Hardmax":
        return _hardmax(node)
    return reduction.onnx_nodes(node, _onnx_extreme)


def _onnx_extreme(node: OnnxNode, axes: Axes) -> Nodes:
    """ONNX ReduceMax, ReduceMin."""
    larger, x = node.name == "ReduceMax", node.x
    if x.dtype is DType.FLOAT32:
        function = ReductionFunction.MAX if larger else ReductionFunction.MIN
        return reduced_plain(node, axes, function)
    return requantised(node, ReduceMax(axes) if larger else ReduceMin(axes), x)
