"""Select: element-wise choice between two tensors by a condition; inputs may be broadcast.

    condition  bool
    a, b, y    any type   one scale and zero point; y = a where the condition holds, else b

Source: TFLite SELECT_V2; `micro/kernels/select.cc`.  SELECT is the same for inputs of one shape; a
condition of rank 1 otherwise chooses whole slices along the first axis, and a scalar one of the
inputs (TensorFlow, `kernels/select.cc`).  ONE_HOT chooses where an index equals the place along a
new axis (`kernels/one_hot.cc`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, Data, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require, require_dtype, require_one_quantisation, resolved_axis
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.nodes import in_scale_of_output, reshaped
from penstock.opkit.samples import int8, integers, sample
from penstock.ops.compare import PlainCompare, Relation

MOST_PLACES = 2**16
"""Largest depth of ONE_HOT, whose places are a table."""


@dataclass(frozen=True, slots=True)
class Select(Elementwise):
    """Element-wise choice between two tensors."""

    TFLITE = ("SELECT", "SELECT_V2", "ONE_HOT")
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True, floats=True), "Where") | onnx(
        OnnxName(AxisOrder.ALIKE, floats=True), "Trilu"
    )
    RELAY = relay("where")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 3, f"select has {len(inputs)} inputs, must have 3")
        condition, a, b = inputs
        require_dtype(condition, (DType.BOOL,), "condition")
        require_dtype(b, (a.dtype,), "second choice")
        return TensorType(broadcast.result_shape(inputs), a.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        condition, a, b = (
            x[broadcast.needs(type, out).slices]
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        return np.where(condition, a, b)

    def kernel(self, site: Site) -> Kernel:
        size = site.output.dtype.size_bytes
        params = broadcast.params(site)
        if size == 1:
            return Kernel("select_s8", params, by_rows=True)
        return Kernel("select_wide", (*params, ("element_bytes", size)), by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SELECT, SELECT_V2, ONE_HOT."""
    if node.name == "ONE_HOT":
        yield from _one_hot(node)
        return
    condition, a, b = (node.input(k) for k in range(3))
    require_one_quantisation((a.type, b.type, node.output().type), "choices and output")
    if node.name == "SELECT" and condition.type.rank == 1 < a.type.rank:
        shape = (*condition.type.shape, *(1,) * (a.type.rank - 1))
        condition, views = reshaped(condition, shape, f"{node.output().name}/condition")
        yield from views
        node = replace(node, inputs=(condition, a, b))
    yield from elementwise_nodes(Select(), node, 3, a.type.dtype)


def _one_hot(node: ForeignNode) -> Iterator[Made]:
    """ONE_HOT: the second value where the place along the new axis is the index, else the third.

    As in the reference, the elements are copied, whatever their quantisation."""
    indices, y = node.input(0), node.output()
    for k, role in ((1, "depth"), (2, "first value"), (3, "second value")):
        require(
            node.constant(k).size == 1, f"{role} has {node.constant(k).size} elements, must have 1"
        )
    for k in (2, 3):
        require_dtype(node.input(k).type, (y.type.dtype,), f"input {k}")
    on, off = (
        Value(f"{y.name}/{label}", y.type.with_shape(()), Data.of(node.constant(k).reshape(())))
        for k, label in ((2, "on"), (3, "off"))
    )
    (depth,) = node.constant_ints(1)
    require(0 < depth <= MOST_PLACES, f"depth is {depth}, must be within [1, {MOST_PLACES}]")
    rank = indices.type.rank
    axis = resolved_axis(node.integer("axis", -1), rank + 1)
    shape = (*indices.type.shape[:axis], 1, *indices.type.shape[axis:])
    spread, views = reshaped(indices, shape, f"{y.name}/indices")
    yield from views
    places = np.arange(depth, dtype=indices.type.dtype.value).reshape(-1, *(1,) * (rank - axis))
    every = Value(f"{y.name}/places", indices.type.with_shape(places.shape), Data.of(places))
    is_one = Value(f"{y.name}/is_one", TensorType(y.type.shape, DType.BOOL))
    compare = PlainCompare(Relation.EQUAL)
    compared = replace(node, inputs=(spread, every), outputs=(is_one,))
    yield from elementwise_nodes(compare, compared, 2, DType.BOOL)
    chosen = replace(node, inputs=(is_one, on, off))
    yield from elementwise_nodes(Select(), chosen, 3, y.type.dtype)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Where and Trilu; choices are first converted to the output's quantisation."""
    if node.name == "Trilu":
        yield from _triangle(node)
        return
    choices: list[Value] = []
    for k in (1, 2):
        value, made = in_scale_of_output(node, k)
        yield from made
        choices.append(value)
    yield node.made(Select(), node.input(0), *choices)


def _triangle(node: OnnxNode) -> Iterable[Made]:
    """ONNX Trilu: a triangle of each matrix, and else 0."""
    x, made = in_scale_of_output(node, 0)
    yield from made
    rank = x.type.rank
    require(rank >= 2, f"input has rank {rank}, must be at least 2")
    extents = {axis: x.type.shape[k] for k, axis in enumerate(node.order)}
    offset = 0 if node.optional(1) is None else node.constant_ints(1)[0]
    below = np.tri(extents[rank - 2], extents[rank - 1], offset - 1, np.bool_)
    kept = ~below if node.integer("upper", 1) else np.tri(*below.shape, offset, np.bool_)
    shown = kept.reshape((*(1,) * (rank - 2), *kept.shape)).transpose(node.order)
    mask = Value(
        f"{node.output().name}/triangle",
        TensorType(shown.shape, DType.BOOL),
        Data.of(np.ascontiguousarray(shown)),
    )
    zero = np.full((1,) * rank, x.type.zero_point if x.type.quantisation else 0, x.type.dtype.value)
    nothing = Value(f"{node.output().name}/zero", x.type.with_shape(zero.shape), Data.of(zero))
    yield node.made(Select(), mask, x, nothing)


_CONDITION = TensorType((1, 4, 3, 5), DType.BOOL)

SAMPLES = (
    sample(Select(), _CONDITION, int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(
        Select(), TensorType((4, 1, 1), DType.BOOL), int8(5), int8(2, 4, 3, 1), scale=0.05, zero=-3
    ),
    sample(Select(), _CONDITION, integers(1, 4, 1, 5), integers()),
)
