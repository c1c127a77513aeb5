"""Abs: the absolute value, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * |x - zero_x|)

    PlainAbs  float32, both

Source: TFLite ABS; `micro/kernels/elementwise.cc`.  ONNX Abs: `Numerics.REAL`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.lookup import ELEMENTS, Lookup, Numerics, real_table, saturated, scale_ratio
from penstock.opkit.nodes import is_real, real_elementwise
from penstock.opkit.samples import int8, reals, sample


@dataclass(frozen=True, slots=True)
class Abs(Lookup):
    """The absolute value."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("ABS",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Abs")
    RELAY = relay("abs", "qnn.abs")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(abs, x, y)
        multiplier = quantise_multiplier(scale_ratio(x, y))
        return saturated(multiply(np.abs(ELEMENTS - x.zero_point), *multiplier) + y.zero_point)


@dataclass(frozen=True, slots=True)
class PlainAbs(Plain):
    """The absolute value of real numbers."""

    ARITHMETIC = arithmetic("abs", float32=np.abs)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ABS."""
    yield from typed_nodes(node, PlainAbs(), Abs())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Abs."""
    if is_real(node):
        yield from real_elementwise(node, PlainAbs())
        return
    yield node.made(Abs(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Abs(), int8(1, 4, 3, 5), scale=0.03, zero=-128),
    sample(Abs(), int8(3, 5), scale=0.05, zero=-100),
    sample(Abs(Numerics.REAL), int8(3, 5), scale=0.05, zero=-100),
    sample(Abs(), int8(3, 5), scale=0.1),
    sample(PlainAbs(), reals(1, 4, 3, 5)),
)
