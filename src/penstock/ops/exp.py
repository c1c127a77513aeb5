"""Exp: the exponential function.

    x  any shape  int8
    y  as x       int8

Source: TFLite EXP, `kernels/exp.cc`: a table in single precision.  (TFLite Micro has only a
floating-point kernel.)  ONNX Exp: `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.fixedpoint import float32
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.elementwise import elementwise_nodes
from penstock.opkit.lookup import Lookup, sampled
from penstock.opkit.numerics import Numerics
from penstock.opkit.real_arithmetic import real_table
from penstock.opkit.samples import int8, sample

LARGEST = 88.0
"""Above it exp leaves single precision; every output has saturated long before."""


@dataclass(frozen=True, slots=True)
class Exp(Lookup):
    """The exponential function."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE: ClassVar[tuple[str, ...]] = ("EXP",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {"Exp": OnnxName(AxisOrder.ALIKE)}
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("exp", "qnn.exp")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(math.exp, x, y)
        return sampled(_exp, x, y)


def _exp(x: float) -> float:
    return float32(math.exp(min(x, LARGEST)))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite EXP."""
    yield from elementwise_nodes(Exp(), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Exp."""
    yield node.made(Exp(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Exp(), int8(1, 4, 3, 5, scale=0.02), scale=0.06, zero=-128),
    sample(Exp(), int8(13), scale=2.0, zero=-128),
    sample(Exp(Numerics.REAL), int8(13), scale=2.0, zero=-128),
)
