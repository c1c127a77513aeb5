"""Logistic: 1 / (1 + exp(-x)).

    x  any shape  int8
    y  as x       int8     scale 1/256 and zero point -128 with TFLite's numerics

    PlainLogistic  float32, both

Source: TFLite LOGISTIC; `reference/integer_ops/logistic.h`, TFLite Micro's fixed-point arithmetic.
TensorFlow computes a table in single precision instead; the results differ for input scales above
4, where the fixed-point arithmetic saturates early.  ONNX Sigmoid: `Numerics.REAL`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import transcendental
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import logistic
from penstock.opkit.lookup import (
    UNIT_INTERVAL,
    Lookup,
    Numerics,
    real_sigmoid,
    real_table,
    sigmoid_table,
)
from penstock.opkit.nodes import is_real, real_elementwise
from penstock.opkit.samples import int8, reals, sample

OUTPUT_BITS = 8


@dataclass(frozen=True, slots=True)
class Logistic(Lookup):
    """The logistic function."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("LOGISTIC",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, fixed=UNIT_INTERVAL, floats=True), "Sigmoid")
    RELAY = relay("sigmoid", "qnn.sigmoid")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(real_sigmoid, x, y)
        return sigmoid_table(transcendental.logistic, x, OUTPUT_BITS, y.zero_point)


@dataclass(frozen=True, slots=True)
class PlainLogistic(Plain):
    """The logistic function of real numbers."""

    REFERENCE_ULPS = 3
    ARITHMETIC = arithmetic("logistic", float32=logistic)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOGISTIC."""
    out = node.output().type
    if out.dtype is DType.INT8 and (out.scale, out.zero_point) != (1 / 256, -128):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/256 and -128"
        )
    yield from typed_nodes(node, PlainLogistic(), Logistic())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Sigmoid."""
    if is_real(node):
        yield from real_elementwise(node, PlainLogistic())
        return
    yield node.made(Logistic(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Logistic(), int8(1, 4, 3, 5), scale=1 / 256, zero=-128),
    sample(Logistic(), int8(9, scale=0.4), scale=1 / 256, zero=-128),
    sample(Logistic(Numerics.REAL), int8(1, 4, 3, 5), scale=1 / 255, zero=-128),
    sample(PlainLogistic(), reals(1, 4, 3, 5)),
)
