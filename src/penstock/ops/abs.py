"""Abs: the absolute value, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * |x - zero_x|)

Source: TFLite ABS; `micro/kernels/elementwise.cc`.  ONNX Abs: `Numerics.REAL`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.elementwise import elementwise_nodes
from penstock.opkit.lookup import ELEMENTS, Lookup, saturated, scale_ratio
from penstock.opkit.numerics import Numerics
from penstock.opkit.real_arithmetic import real_table
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Abs(Lookup):
    """The absolute value."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE: ClassVar[tuple[str, ...]] = ("ABS",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {"Abs": OnnxName(AxisOrder.ALIKE)}
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("abs", "qnn.abs")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(abs, x, y)
        multiplier = quantise_multiplier(scale_ratio(x, y))
        return saturated(multiply(np.abs(ELEMENTS - x.zero_point), *multiplier) + y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ABS."""
    yield from elementwise_nodes(Abs(), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Abs."""
    yield node.made(Abs(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(Abs(), int8(1, 4, 3, 5), scale=0.03, zero=-128),
    sample(Abs(), int8(3, 5), scale=0.05, zero=-100),
    sample(Abs(Numerics.REAL), int8(3, 5), scale=0.05, zero=-100),
)
