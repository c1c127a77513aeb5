"""Exp: the exponential function.

    x  any shape  int8
    y  as x       int8

    PlainExp  float32, both

Source: TFLite EXP, `kernels/exp.cc`: a table in single precision.  (TFLite Micro has only a
floating-point kernel.)  ONNX Exp: `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.fixedpoint import float32
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import exp
from penstock.opkit.lookup import Lookup, Numerics, real_table, sampled
from penstock.opkit.nodes import is_real, real_elementwise
from penstock.opkit.samples import int8, reals, sample

LARGEST = 88.0
"""Above it exp leaves single precision; every output has saturated long before."""


@dataclass(frozen=True, slots=True)
class Exp(Lookup):
    """The exponential function."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("EXP",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Exp")
    RELAY = relay("exp", "qnn.exp")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(math.exp, x, y)
        return sampled(_exp, x, y)


def _exp(x: float) -> float:
    return float32(math.exp(min(x, LARGEST)))


@dataclass(frozen=True, slots=True)
class PlainExp(Plain):
    """The exponential of real numbers."""

    REFERENCE_ULPS = 1
    ARITHMETIC = arithmetic("exp", float32=exp)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite EXP."""
    yield from typed_nodes(node, PlainExp(), Exp())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Exp."""
    if is_real(node):
        yield from real_elementwise(node, PlainExp())
        return
    yield node.made(Exp(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Exp(), int8(1, 4, 3, 5, scale=0.02), scale=0.06, zero=-128),
    sample(Exp(), int8(13), scale=2.0, zero=-128),
    sample(Exp(Numerics.REAL), int8(13), scale=2.0, zero=-128),
    sample(PlainExp(), reals(1, 4, 3, 5)),
)
