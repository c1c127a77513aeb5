"""Logical: element-wise conjunction or disjunction; inputs may be broadcast.

    a, b, y  bool

Source: TFLite LOGICAL_AND, LOGICAL_OR; `micro/kernels/logical_common.cc`.  LOGICAL_NOT is imported
as a comparison with false.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx
from penstock.ir.region import Region
from penstock.ir.tensor import Array, Data, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.samples import sample
from penstock.ops.compare import PlainCompare, Relation


class Connective(Enum):
    """A connective of two truth values; the number of them that must be true."""

    LOGICAL_OR = 1
    LOGICAL_AND = 2


@dataclass(frozen=True, slots=True)
class Logical(Elementwise):
    """Whether both, or any, of two truth values are true."""

    connective: Connective

    TFLITE = (*Connective.__members__, "LOGICAL_NOT")
    ONNX = onnx(OnnxName(AxisOrder.ALIKE), "And", "Or", "Not", "Xor")
    RELAY = tuple(
        RelayName(connective.name.lower(), (("connective", connective.name),))
        for connective in Connective
    )
    COMMUTATIVE = True

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 2, f"connective has {len(inputs)} inputs, must have 2")
        for k, x in enumerate(inputs):
            require_dtype(x, (DType.BOOL,), f"input {k}")
        return TensorType(broadcast.result_shape(inputs), DType.BOOL)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (broadcast.take(x, t, out) for x, t in zip(inputs, site.inputs, strict=True))
        return (a + b >= self.connective.value).astype(np.bool_)

    def kernel(self, site: Site) -> Kernel:
        params = (*broadcast.params(site), ("least_true", self.connective.value))
        return Kernel("logical", params, by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT."""
    if node.name != "LOGICAL_NOT":
        yield from elementwise_nodes(Logical(Connective[node.name]), node, 2, DType.BOOL)
        return
    node = replace(node, inputs=(node.input(0), _never(node)))
    yield from elementwise_nodes(PlainCompare(Relation.EQUAL), node, 2, DType.BOOL)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX And, Or, Not, Xor."""
    if node.name == "Xor":
        yield node.made(PlainCompare(Relation.NOT_EQUAL), node.input(0), node.input(1))
        return
    if node.name == "Not":
        yield node.made(PlainCompare(Relation.EQUAL), node.input(0), _never(node))
        return
    connective = Connective.LOGICAL_AND if node.name == "And" else Connective.LOGICAL_OR
    yield node.made(Logical(connective), node.input(0), node.input(1))


def _never(node: ForeignNode) -> Value:
    """The constant false."""
    type = TensorType((), DType.BOOL)
    return Value(f"{node.output().name}/false", type, Data.of(np.zeros((), np.bool_)))


_TRUTHS = TensorType((1, 4, 3, 5), DType.BOOL)

SAMPLES = (
    sample(Logical(Connective.LOGICAL_AND), _TRUTHS, _TRUTHS),
    sample(Logical(Connective.LOGICAL_OR), _TRUTHS, TensorType((5,), DType.BOOL)),
)
