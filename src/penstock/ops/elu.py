"""Elu: the exponential linear unit.

    x  any shape  int8
    y  as x       int8     real y = x where x >= 0, alpha * (exp(x) - 1) elsewhere

    PlainElu  float32, both

Source: TFLite ELU, where alpha is 1; `micro/kernels/elu.cc`: a table in single precision.
ONNX Elu: `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.fixedpoint import float32
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import elu
from penstock.opkit.lookup import Lookup, Numerics, finite_parameter, real_table, sampled
from penstock.opkit.nodes import RealNodes, is_real
from penstock.opkit.samples import int8, reals, sample
from penstock.ops.add import PlainAdd
from penstock.ops.extremes import PlainMaximum, PlainMinimum
from penstock.ops.mul import PlainMul


@dataclass(frozen=True, slots=True)
class Elu(Lookup):
    """The exponential linear unit; negative values approach -`alpha`, 1 with TFLite's numerics."""

    alpha: float = 1.0
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("ELU",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Elu")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(lambda r: r if r >= 0 else self.alpha * math.expm1(r), x, y)
        return sampled(_elu, x, y)


def _elu(x: float) -> float:
    """Elu in single precision; exp(x) - 1 is rounded twice, as in the reference."""
    return x if x >= 0 else float32(float32(math.exp(x)) - 1.0)


@dataclass(frozen=True, slots=True)
class PlainElu(Plain):
    """The exponential linear unit of real numbers."""

    REFERENCE_ULPS = 2
    ARITHMETIC = arithmetic("elu", float32=elu)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ELU."""
    yield from typed_nodes(node, PlainElu(), Elu())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Elu."""
    alpha = finite_parameter(node, "alpha", 1.0)
    if not is_real(node):
        yield node.made(Elu(alpha, Numerics.REAL), node.input(0))
        return
    real = RealNodes(node)
    zero = real.constant(0.0, "zero")
    above = real.apply(PlainMaximum(), real.input(0), zero)
    below = real.apply(PlainElu(), real.apply(PlainMinimum(), real.input(0), zero))
    scaled = real.apply(PlainMul(), below, real.constant(alpha, "alpha"))
    yield from real.result(real.apply(PlainAdd(), above, scaled))


SAMPLES = (
    sample(Elu(), int8(1, 4, 3, 5), scale=0.03, zero=-95),
    sample(Elu(), int8(9, scale=0.4), scale=0.2, zero=0),
    sample(Elu(0.5, Numerics.REAL), int8(3, 5), scale=0.04, zero=-100),
    sample(PlainElu(), reals(1, 4, 3, 5)),
)
