"""Div: element-wise quotient with a clamp; inputs may be broadcast.

    a, b, y  float32   y = clamp(a / b)

A quotient that overflows, or whose divisor is 0, is clamped to the largest finite number; 0 / 0 is
NaN.

Source: TFLite DIV; `reference/div.h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.tensor import DType
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.onnx_reals import real_elementwise
from penstock.opkit.plain import Arithmetic, Clamped, typed_nodes
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class Div(Clamped):
    """Quotient of two tensors."""

    TFLITE: ClassVar[tuple[str, ...]] = ("DIV",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {"Div": OnnxName(AxisOrder.ALIKE)}
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("divide")
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(np.divide, "div_f32")
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite DIV."""
    yield from typed_nodes(node, Div(fused_activation(node)), None)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Div."""
    return real_elementwise(node, Div())


SAMPLES = (
    sample(Div(), reals(1, 4, 3, 5), reals(1, 4, 3, 5)),
    sample(Div(Activation.RELU6), reals(2, 4, 3, 5), reals()),
)
