"""Tanh: the hyperbolic tangent.

    x  any shape  int8
    y  as x       int8     scale 1/128 and zero point 0 with TFLite's numerics

    PlainTanh  float32, both

Source: TFLite TANH; `reference/integer_ops/tanh.h`.  ONNX Tanh: `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import transcendental
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import tanh
from penstock.opkit.lookup import SIGNED_UNIT_INTERVAL, Lookup, Numerics, real_table, sigmoid_table
from penstock.opkit.nodes import is_real, real_elementwise
from penstock.opkit.samples import int8, reals, sample

OUTPUT_BITS = 7


@dataclass(frozen=True, slots=True)
class Tanh(Lookup):
    """The hyperbolic tangent."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("TANH",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, fixed=SIGNED_UNIT_INTERVAL, floats=True), "Tanh")
    RELAY = relay("tanh", "qnn.tanh")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(math.tanh, x, y)
        return sigmoid_table(transcendental.tanh, x, OUTPUT_BITS, y.zero_point)


@dataclass(frozen=True, slots=True)
class PlainTanh(Plain):
    """The hyperbolic tangent of real numbers."""

    REFERENCE_ULPS = 3
    ARITHMETIC = arithmetic("tanh", float32=tanh)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite TANH."""
    out = node.output().type
    if out.dtype is DType.INT8 and (out.scale, out.zero_point) != (1 / 128, 0):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/128 and 0"
        )
    yield from typed_nodes(node, PlainTanh(), Tanh())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Tanh."""
    if is_real(node):
        yield from real_elementwise(node, PlainTanh())
        return
    yield node.made(Tanh(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Tanh(), int8(1, 4, 3, 5), scale=1 / 128, zero=0),
    sample(Tanh(), int8(2, 7, scale=0.3), scale=1 / 128, zero=0),
    sample(Tanh(Numerics.REAL), int8(2, 7, scale=0.3), scale=1 / 127, zero=0),
    sample(PlainTanh(), reals(1, 4, 3, 5)),
)
