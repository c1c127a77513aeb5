"""Sub: element-wise difference with requantisation and clamp; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + My * (Ma * ((a - zero_a) << 20) - Mb * ((b - zero_b) << 20)))

    PlainSub  int32 (modulo 2^32) or float32, all three   y = clamp(a - b)

Source: TFLite SUB; `reference/sub.h`, parameters in `micro/kernels/sub_common.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.broadcast import Clamped, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.nodes import exact_elementwise
from penstock.opkit.samples import int8, integers, reals, sample
from penstock.opkit.scaled_sum import ScaledSum


@dataclass(frozen=True, slots=True)
class Sub(ScaledSum):
    """Difference of two tensors."""

    activation: Activation = Activation.NONE

    TFLITE = ("SUB",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Sub")
    RELAY = relay("subtract", "qnn.subtract")
    SIGN = -1


@dataclass(frozen=True, slots=True)
class PlainSub(Clamped):
    """Difference of two tensors of plain numbers."""

    ARITHMETIC = arithmetic("sub", int32=np.subtract, float32=np.subtract)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SUB."""
    activation = fused_activation(node)
    yield from typed_nodes(node, PlainSub(activation), Sub(activation))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Sub."""
    return exact_elementwise(node, Sub(), PlainSub())


SAMPLES = (
    sample(Sub(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Sub(Activation.RELU6), int8(1, 1, 5), int8(4, 3, 5)),
    sample(PlainSub(Activation.RELU), reals(2, 4, 3, 5), reals(5)),
    sample(PlainSub(), integers(1, 4, 3, 5), integers()),
)
