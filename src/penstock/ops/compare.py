"""Compare: element-wise comparison; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point (both scales below 1)
    y     bool   y = Ma * ((a - zero_a) << 8) <relation> Mb * ((b - zero_b) << 8)

    PlainCompare  a and b of one type without quantisation: an integer, bool or float32, where NaN
                  differs from every number and no other relation holds

Source: TFLite LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL;
`reference/comparisons.h`, parameters in `micro/kernels/comparisons.cc`: M is the scale itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.nodes import real_elementwise
from penstock.opkit.samples import int8, integers, reals, sample, weights

EXTRA_BITS = 8


class Relation(Enum):
    """A relation of two numbers as a bit set: 1 if it holds for a < b, 2 for a = b, 4 for a > b."""

    LESS = 1
    LESS_EQUAL = 3
    EQUAL = 2
    NOT_EQUAL = 5
    GREATER = 4
    GREATER_EQUAL = 6


@dataclass(frozen=True, slots=True)
class Compare(Elementwise):
    """Whether a relation holds."""

    relation: Relation

    TFLITE = tuple(Relation.__members__)
    RELAY = tuple(
        RelayName(relation.name.lower(), (("relation", relation.name),)) for relation in Relation
    )

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return TensorType(broadcast.int8_result(inputs, 2, "comparison").shape, DType.BOOL)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (
            multiply(
                (broadcast.take(x, type, out) - type.zero_point) << EXTRA_BITS,
                *quantise_multiplier(type.scale),
            )
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        return ((self.relation.value >> (np.sign(a - b) + 1)) & 1).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        (multiplier0, shift0), (multiplier1, shift1) = (
            quantise_multiplier(x.scale) for x in site.inputs
        )
        return Kernel(
            "compare_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("multiplier0", multiplier0),
                ("multiplier1", multiplier1),
                ("shift0", shift0),
                ("shift1", shift1),
                ("relation", self.relation.value),
            ),
            by_rows=True,
        )


PLAIN_TYPES = (DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL, DType.FLOAT32)


ONNX_RELATIONS = {
    "Less": Relation.LESS,
    "LessOrEqual": Relation.LESS_EQUAL,
    "Equal": Relation.EQUAL,
    "Greater": Relation.GREATER,
    "GreaterOrEqual": Relation.GREATER_EQUAL,
}


@dataclass(frozen=True, slots=True)
class PlainCompare(Elementwise):
    """Whether a relation of plain numbers holds."""

    relation: Relation

    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), *ONNX_RELATIONS)

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 2, f"comparison has {len(inputs)} inputs, must have 2")
        require_dtype(inputs[0], PLAIN_TYPES, "input 0")
        require_dtype(inputs[1], (inputs[0].dtype,), "input 1")
        return TensorType(broadcast.result_shape(inputs), DType.BOOL)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (
            x[broadcast.needs(type, out).slices]
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        holds = (self.relation.value >> ((a > b).astype(np.int64) - (a < b) + 1)) & 1
        is_ordered = (a <= b) | (a > b)
        return np.where(is_ordered, holds, self.relation is Relation.NOT_EQUAL).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        dtype = site.inputs[0].dtype
        relation = ("relation", self.relation.value)
        if dtype is DType.FLOAT32:
            return Kernel("compare_f32", (*broadcast.params(site), relation), by_rows=True)
        source = (
            ("in_bytes", dtype.size_bytes),
            ("in_signed", int(dtype not in (DType.UINT8, DType.BOOL))),
        )
        params = (*broadcast.params(site), *source, relation)
        return Kernel("compare_integers", params, by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite comparisons."""
    inputs = (node.input(0).type, node.input(1).type)
    if all(x.dtype is not DType.INT8 and x.quantisation is None for x in inputs):
        yield from elementwise_nodes(PlainCompare(Relation[node.name]), node, 2, DType.BOOL)
        return
    large = max(x.scale for x in inputs)
    if all(x.quantisation for x in inputs) and large >= 1.0:
        raise node.unsupported(f"an input has scale {large}, must be below 1")
    yield from elementwise_nodes(Compare(Relation[node.name]), node, 2, DType.BOOL)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX comparisons, of real numbers or of plain integers."""
    op, inputs = PlainCompare(ONNX_RELATIONS[node.name]), (node.input(0), node.input(1))
    types = {value.type.dtype for value in inputs}
    if types <= {DType.INT32, DType.INT64, DType.BOOL}:
        return (node.made(op, *inputs),)
    return real_elementwise(node, op)


SAMPLES = (
    sample(Compare(Relation.GREATER), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Compare(Relation.NOT_EQUAL), int8(2, 4, 3, 5), int8(1, 1, 5)),
    sample(Compare(Relation.LESS_EQUAL), int8(4, 5), weights(1)),
    sample(PlainCompare(Relation.GREATER), integers(1, 4, 3, 5), integers(1, 1, 5)),
    sample(PlainCompare(Relation.LESS), reals(4, 5), reals()),
    sample(
        PlainCompare(Relation.EQUAL),
        TensorType((2, 7), DType.BOOL),
        TensorType((2, 7), DType.BOOL),
    ),
    sample(
        PlainCompare(Relation.GREATER_EQUAL),
        TensorType((3, 2, 5), DType.INT64),
        TensorType((3, 2, 1), DType.INT64),
    ),
)
