"""Gelu: x times the standard normal distribution function of x, or its approximation by tanh.

    x  any shape  int8
    y  as x       int8

Source: TFLite GELU, `kernels/gelu.cc` and `reference/gelu.h`: a table in single precision.  (TFLite
Micro has no GELU.)  ONNX Gelu: `Numerics.REAL`.
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
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.lookup import Lookup, Numerics, real_table, sampled
from penstock.opkit.nodes import is_real
from penstock.opkit.samples import int8, sample
from penstock.ops.real_function import real_form

_SQRT_HALF = float32(math.sqrt(0.5))
_SQRT_TWO_OVER_PI = float32(math.sqrt(2.0 / math.pi))
_CUBIC = float32(0.044715)


@dataclass(frozen=True, slots=True)
class Gelu(Lookup):
    """The Gaussian error linear unit."""

    approximate: bool = False
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("GELU",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Gelu")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(_real_by_tanh if self.approximate else _real_by_erf, x, y)
        return sampled(_by_tanh if self.approximate else _by_erfc, x, y)


def _by_erfc(x: float) -> float:
    """x / 2 * erfc(-x / sqrt 2), every step in single precision."""
    tail = float32(math.erfc(float32(x * -_SQRT_HALF)))
    return float32(float32(0.5 * x) * tail)


def _by_tanh(x: float) -> float:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 x^2))), every step in single precision."""
    cubic = float32(1.0 + float32(float32(_CUBIC * x) * x))
    argument = float32(float32(_SQRT_TWO_OVER_PI * x) * cubic)
    return float32(float32(0.5 * x) * float32(1.0 + float32(math.tanh(argument))))


def _real_by_erf(x: float) -> float:
    """x / 2 * (1 + erf(x / sqrt 2)) in double precision."""
    return 0.5 * x * (1 + math.erf(x * math.sqrt(0.5)))


def _real_by_tanh(x: float) -> float:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) in double precision."""
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite GELU."""
    yield from elementwise_nodes(Gelu(bool(node.integer("approximate"))), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Gelu."""
    approximate = node.text("approximate", "none") == "tanh"
    if is_real(node):
        yield from real_form(node, "Gelu", (float(approximate),))
        return
    yield node.made(Gelu(approximate, Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Gelu(), int8(1, 4, 3, 5), scale=0.03, zero=-121),
    sample(Gelu(approximate=True), int8(3, 5), scale=0.03, zero=-121),
    sample(Gelu(numerics=Numerics.REAL), int8(3, 5), scale=0.03, zero=-121),
    sample(Gelu(), int8(3, 5), scale=0.1, zero=-121),
)
