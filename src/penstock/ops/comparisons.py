"""Comparisons, connectives of truth values, and choices by them; inputs may be broadcast.

Sources: TFLite LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL;
`reference/comparisons.h`, parameters in `micro/kernels/comparisons.cc`: M is the scale itself.
LOGICAL_AND, LOGICAL_OR; `micro/kernels/logical_common.cc`.  SELECT_V2; `micro/kernels/select.cc`.
SELECT is the same for inputs of one shape; a condition of rank 1 otherwise chooses whole slices
along the first axis, and a scalar one of the inputs (TensorFlow, `kernels/select.cc`).  ONE_HOT
chooses where an index equals the place along a new axis (`kernels/one_hot.cc`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, row_kernel
from penstock.ir.operator_facts import (
    CARRIED,
    FUNCTION,
    PLAIN,
    PLAIN_MODEL,
    REALS,
    AxisOrder,
    OnnxName,
    RelayName,
    onnx,
    relay,
)
from penstock.ir.tensor import Array, Data, DType, Region, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_one_quantisation,
    resolved_axis,
)
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.nodes import in_scale_of_output, in_shape_of_output, onnx_form, reshaped
from penstock.opkit.onnx_constants import real_numbers
from penstock.opkit.real_nodes import RealNodes, real_elementwise
from penstock.ops.plain import PlainAbs, PlainAdd, PlainSub
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction
from penstock.ops.slice import part

EXTRA_BITS = 8


class Relation(Enum):
    """A relation of two numbers as a bit set: 1 if it holds for a < b, 2 for a = b, 4 for a > b."""

    LESS = 1
    LESS_EQUAL = 3
    EQUAL = 2
    NOT_EQUAL = 5
    GREATER = 4
    GREATER_EQUAL = 6


_RELATIONS = tuple(
    RelayName(relation.name.lower(), (("relation", relation.name),)) for relation in Relation
)


@frozen
class Compare(Elementwise):
    """Whether a relation holds.

    a, b  int8, each with its own scale and zero point (both scales below 1)
    y     bool   y = Ma * ((a - zero_a) << 8) <relation> Mb * ((b - zero_b) << 8)"""

    relation: Relation

    TFLITE = tuple(Relation.__members__)
    RELAY = _RELATIONS

    def result_type(self, inputs: Types) -> TensorType:
        return TensorType(broadcast.int8_result(inputs, "comparison").shape, DType.BOOL)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b = (
            multiply(part << EXTRA_BITS, *quantise_multiplier(type.scale))
            for part, type in zip(broadcast.centred(site, inputs, out), site.inputs, strict=True)
        )
        # The sign of the difference, from -1 to 1, selects a bit of the relation.
        return ((self.relation.value >> (np.sign(a - b) + 1)) & 1).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "compare_s8",
            broadcast.params(site),
            broadcast.zero_points(site),
            broadcast.input_scalings(*(quantise_multiplier(x.scale) for x in site.inputs)),
            relation=self.relation.value,
        )


PLAIN_TYPES = (
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.INT32,
    DType.INT64,
    DType.BOOL,
    DType.FLOAT32,
)


ONNX_RELATIONS = {
    "Less": Relation.LESS,
    "LessOrEqual": Relation.LESS_EQUAL,
    "Equal": Relation.EQUAL,
    "Greater": Relation.GREATER,
    "GreaterOrEqual": Relation.GREATER_EQUAL,
}


@frozen
class PlainCompare(Elementwise):
    """Whether a relation of plain numbers holds.

    The inputs have one type without quantisation: an integer, bool or float32, where NaN differs
    from every number and no other relation holds."""

    relation: Relation

    TFLITE = ("BUCKETIZE",)
    ONNX = (
        onnx(PLAIN, *ONNX_RELATIONS)
        | onnx(REALS, "IsInf", "IsNaN")
        | onnx(FUNCTION, "Shrink", "ThresholdedRelu")
    )

    RELAY = _RELATIONS

    def result_type(self, inputs: Types) -> TensorType:
        return replace(broadcast.plain_result(inputs, "comparison", *PLAIN_TYPES), dtype=DType.BOOL)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b = broadcast.parts(site, inputs, out)
        holds = (self.relation.value >> ((a > b).astype(np.int64) - (a < b) + 1)) & 1
        # False where an operand is NaN.
        is_ordered = (a <= b) | (a > b)
        return np.where(is_ordered, holds, self.relation is Relation.NOT_EQUAL).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        dtype, relation = site.x.dtype, self.relation.value
        if dtype is DType.FLOAT32:
            return row_kernel("compare_f32", broadcast.params(site), relation=relation)
        return row_kernel(
            "compare_integers",
            broadcast.params(site),
            in_bytes=dtype.size_bytes,
            in_signed=dtype.is_signed,
            relation=relation,
        )


def _compared(node: ForeignNode) -> Nodes:
    """TFLite comparisons."""
    inputs = (node.x.type, node.input(1).type)
    if all(x.dtype is not DType.INT8 and x.quantisation is None for x in inputs):
        yield from elementwise_nodes(PlainCompare(Relation[node.name]), node, 2, DType.BOOL)
        return
    large = max(x.scale for x in inputs)
    if all(x.quantisation for x in inputs) and large >= 1.0:
        raise node.unsupported(f"an input has scale {large}, must be below 1")
    yield from elementwise_nodes(Compare(Relation[node.name]), node, 2, DType.BOOL)


def _counted(node: ForeignNode) -> Nodes:
    """TFLite BUCKETIZE: the number of boundaries that are not above an element.

    Source: `kernels/bucketize.cc`."""
    y, bounds = node.y, np.array(node.attributes.get("boundaries", ()), np.float32)
    require(bounds.size > 0, "there are no boundaries")
    new = RealNodes(onnx_form(node, "GreaterOrEqual"))
    flat = new.reshape(new.input(0), (-1, 1))
    above = new.apply(PlainCompare(Relation.GREATER_EQUAL), flat, bounds.reshape(1, -1))
    count = new.apply(PlainReduction(ReductionFunction.SUM, (1,)), new.integers(above))
    return new.result(new.reshape(count, y.shape))


def _compared_onnx(node: OnnxNode) -> Nodes:
    """ONNX comparisons, of real numbers or of plain integers."""
    op, inputs = PlainCompare(ONNX_RELATIONS[node.name]), (node.x, node.input(1))
    if all(x.dtype is not DType.FLOAT32 and x.quantisation is None for x in inputs):
        new = RealNodes(node)
        return new.result(new.apply(op, *inputs))
    return real_elementwise(node, op)


def _special(node: OnnxNode) -> Nodes:
    """ONNX IsNaN, and IsInf of the signs that its attributes name."""
    new = RealNodes(node)
    x = new.input(0)
    if node.name == "IsNaN":
        return new.result(new.apply(PlainCompare(Relation.NOT_EQUAL), x, x))
    positive, negative = (node.integer(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if positive and negative:
        x = new.apply(PlainAbs(), x)
    bound = np.inf if positive else -np.inf if negative else np.nan
    return new.result(new.apply(PlainCompare(Relation.EQUAL), x, bound))


def _beyond_threshold(node: OnnxNode) -> Nodes:
    """ONNX ThresholdedRelu; Shrink, which also keeps numbers below the negative threshold, and
    brings both nearer to 0."""
    new = RealNodes(node)
    x, y = new.input(0), 0.0
    above = PlainCompare(Relation.GREATER)
    if node.name == "ThresholdedRelu":
        is_above = new.apply(above, x, node.real("alpha", 1.0))
        return new.result(new.apply(Select(), is_above, x, y))
    bound, bias = node.real("lambd", 0.5), node.real("bias", 0.0)
    is_below = new.apply(PlainCompare(Relation.LESS), x, -bound)
    lower = new.apply(Select(), is_below, new.apply(PlainAdd(), x, bias), y)
    upper = new.apply(PlainSub(), x, bias)
    return new.result(new.apply(Select(), new.apply(above, x, bound), upper, lower))


class Connective(Enum):
    """A connective of two truth values; the number of them that must be true."""

    LOGICAL_OR = 1
    LOGICAL_AND = 2


@frozen
class Logical(Elementwise):
    """Element-wise conjunction or disjunction; inputs may be broadcast.

    LOGICAL_NOT is imported as a comparison with false."""

    connective: Connective

    TFLITE = (*Connective.__members__, "LOGICAL_NOT")
    ONNX = onnx(OnnxName(AxisOrder.ALIKE), "And", "Or", "Not", "Xor")
    RELAY = tuple(
        RelayName(connective.name.lower(), (("connective", connective.name),))
        for connective in Connective
    )
    COMMUTATIVE = True

    def result_type(self, inputs: Types) -> TensorType:
        return broadcast.plain_result(inputs, "connective", DType.BOOL)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        count = np.add(*broadcast.parts(site, inputs, out), dtype=np.int64)
        return (count >= self.connective.value).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("logical", broadcast.params(site), least_true=self.connective.value)


def _connected(node: ForeignNode) -> Nodes:
    if node.name != "LOGICAL_NOT":
        yield from elementwise_nodes(Logical(Connective[node.name]), node, 2, DType.BOOL)
        return
    node = replace(node, inputs=(node.x, _never(node)))
    yield from elementwise_nodes(PlainCompare(Relation.EQUAL), node, 2, DType.BOOL)


def _connected_onnx(node: OnnxNode) -> Nodes:
    new = RealNodes(node)
    if node.name == "Xor":
        found = new.apply(PlainCompare(Relation.NOT_EQUAL), node.x, node.input(1))
    elif node.name == "Not":
        found = new.apply(PlainCompare(Relation.EQUAL), node.x, _never(node))
    else:
        connective = Connective.LOGICAL_AND if node.name == "And" else Connective.LOGICAL_OR
        found = new.apply(Logical(connective), node.x, node.input(1))
    yield from new.result(found)


def _never(node: ForeignNode) -> Value:
    type = TensorType((), DType.BOOL)
    return Value(f"{node.y.name}/false", type, Data.of(np.zeros((), np.bool_)))


MOST_PLACES = 2**16
"""Largest depth of ONE_HOT, whose places are a table."""


@frozen
class Select(Elementwise):
    """Element-wise choice between two tensors by a condition; inputs may be broadcast.

    condition  bool
    a, b, y    any type   one scale and zero point; y = a where the condition holds, else b"""

    TFLITE = ("SELECT", "SELECT_V2", "ONE_HOT")
    ONNX = onnx(CARRIED, "Where") | onnx(REALS, "Trilu") | onnx(PLAIN_MODEL, "OneHot")
    RELAY = relay("where")

    def result_type(self, inputs: Types) -> TensorType:
        condition, a, b = require_count(inputs, 3, "select")
        require_dtype(condition, "condition", DType.BOOL)
        require_dtype(b, "second choice", a.dtype)
        return TensorType(broadcast.result_shape(inputs), a.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        condition, a, b = broadcast.parts(site, inputs, out)
        return np.where(condition, a, b)

    def kernel(self, site: Site) -> Kernel:
        size = site.output.dtype.size_bytes
        params = broadcast.params(site)
        if size == 1:
            return row_kernel("select_s8", params)
        return row_kernel("select_wide", params, element_bytes=size)


def _chosen(node: ForeignNode) -> Nodes:
    if node.name == "ONE_HOT":
        yield from _one_hot(node)
        return
    # The reference copies elements: it does not requantise them.
    condition, a, b = (node.input(k) for k in range(3))
    require_one_quantisation((a.type, b.type, node.y.type), "choices and output")
    if node.name == "SELECT" and condition.rank == 1 < a.rank:
        shape = (*condition.shape, *(1,) * (a.rank - 1))
        condition, views = reshaped(condition, shape, f"{node.y.name}/condition")
        yield from views
        node = replace(node, inputs=(condition, a, b))
    yield from elementwise_nodes(Select(), node, 3, a.dtype)


def _one_hot(node: ForeignNode) -> Nodes:
    """ONE_HOT: the second value where the place along the new axis is the index, else the third.

    As in the reference, the elements are copied, whatever their quantisation."""
    new = RealNodes(onnx_form(node, "OneHot", axis=node.integer("axis", -1)))
    indices, y = node.x, node.y
    for k, role in ((1, "depth"), (2, "first value"), (3, "second value")):
        require(
            node.constant(k).size == 1, f"{role} has {node.constant(k).size} elements, must have 1"
        )
    for k in (2, 3):
        require_dtype(node.input(k).type, f"input {k}", y.dtype)
    on, off = (
        Value.constant(f"{y.name}/{label}", node.constant(k).reshape(()), y.quantisation)
        for k, label in ((2, "on"), (3, "off"))
    )
    spread, places = _spread(new, indices, *node.constant_ints(1))
    is_one = new.apply(PlainCompare(Relation.EQUAL), spread, places)
    return in_shape_of_output(node, new.result(new.apply(Select(), is_one, on, off)))


def _spread(new: RealNodes, indices: Value, depth: int) -> tuple[Value, Array]:
    """The indices with the new axis of a one-hot code, and the places along it."""
    require(0 < depth <= MOST_PLACES, f"depth is {depth}, must be within [1, {MOST_PLACES}]")
    axis = resolved_axis(new.node.integer("axis", -1), indices.rank + 1)
    spread = new.reshape(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    return spread, np.arange(depth).reshape(-1, *(1,) * (indices.rank - axis))


def _chosen_onnx(node: OnnxNode) -> Nodes:
    """ONNX Where and Trilu; choices are first converted to the output's quantisation."""
    if node.name == "OneHot":
        yield from _one_hot_onnx(node)
        return
    if node.name == "Trilu":
        yield from _triangle(node)
        return
    new, choices = RealNodes(node), list[Value]()
    for k in (1, 2):
        value, made = in_scale_of_output(node, k)
        new.take(made)
        choices.append(value)
    yield from new.result(new.apply(Select(), node.x, *choices))


def _one_hot_onnx(node: OnnxNode) -> Nodes:
    """ONNX OneHot: the second value where the place along the new axis is the index, or the index
    plus the depth, else the first."""
    new = RealNodes(node)
    (depth,) = (int(k) for k in real_numbers(node, 1).ravel())
    spread, places = _spread(new, new.integers(node.x), depth)
    first, second = (
        new.apply(PlainCompare(Relation.EQUAL), spread, places - less) for less in (0, depth)
    )
    values, found = new.plain(2), new.apply(Logical(Connective.LOGICAL_OR), first, second)
    require(values.shape == (2,), f"values have shape {list(values.shape)}, not [2]")
    off, on = (new.apply(part((k,), (1,)), values) for k in (0, 1))
    return new.result(new.apply(Select(), found, on, off))


def _triangle(node: OnnxNode) -> Nodes:
    """ONNX Trilu: a triangle of each matrix, and else 0."""
    x, made = in_scale_of_output(node, 0)
    yield from made
    rank = x.rank
    require(rank >= 2, f"input has rank {rank}, must be at least 2")
    extents = {axis: x.shape[k] for k, axis in enumerate(node.order)}
    offset = 0 if node.optional(1) is None else node.constant_ints(1)[0]
    below = np.tri(extents[rank - 2], extents[rank - 1], offset - 1, np.bool_)
    kept = ~below if node.integer("upper", 1) else np.tri(*below.shape, offset, np.bool_)
    shown = kept.reshape((*(1,) * (rank - 2), *kept.shape)).transpose(node.order)
    mask = Value(
        f"{node.y.name}/triangle",
        TensorType(shown.shape, DType.BOOL),
        Data.of(np.ascontiguousarray(shown)),
    )
    zero = np.full((1,) * rank, x.zero_point if x.quantisation else 0, x.dtype.value)
    nothing = Value(f"{node.y.name}/zero", x.type.with_shape(zero.shape), Data.of(zero))
    yield node.made(Select(), mask, x, nothing)


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite comparisons, BUCKETIZE, LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT, SELECT, SELECT_V2 and
    ONE_HOT."""
    if node.name == "BUCKETIZE":
        return _counted(node)
    if node.name in Compare.TFLITE:
        return _compared(node)
    return _connected(node) if node.name in Logical.TFLITE else _chosen(node)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX comparisons, And, Or, Not, Xor, Where, Trilu."""
    if node.name in ("Shrink", "ThresholdedRelu"):
        return _beyond_threshold(node)
    if node.name in ("IsInf", "IsNaN"):
        return _special(node)
    if node.name in PlainCompare.ONNX:
        return _compared_onnx(node)
    return _connected_onnx(node) if node.name in Logical.ONNX else _chosen_onnx(node)
