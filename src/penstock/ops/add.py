"""Add: element-wise sum with requantisation and clamp; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + My * (Ma * ((a - zero_a) << 20) + Mb * ((b - zero_b) << 20)))

    PlainAdd  int32 (modulo 2^32) or float32, all three   y = clamp(a + b)

Source: TFLite ADD; `reference/integer_ops/add.h`, parameters in `micro/kernels/add_common.cc`.
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
from penstock.opkit.nodes import RealNodes, exact_elementwise
from penstock.opkit.samples import int8, integers, reals, sample
from penstock.opkit.scaled_sum import ScaledSum
from penstock.ops.reshape import Reshape


@dataclass(frozen=True, slots=True)
class Add(ScaledSum):
    """Sum of two tensors."""

    activation: Activation = Activation.NONE

    TFLITE = ("ADD",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Add", "Sum")
    RELAY = relay("add", "qnn.add")
    COMMUTATIVE = True
    SIGN = 1


@dataclass(frozen=True, slots=True)
class PlainAdd(Clamped):
    """Sum of two tensors of plain numbers."""

    ARITHMETIC = arithmetic("add", int32=np.add, float32=np.add)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ADD."""
    activation = fused_activation(node)
    yield from typed_nodes(node, PlainAdd(activation), Add(activation))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Add, and Sum of any number of tensors."""
    if len(node.inputs) != 2:
        real = RealNodes(node)
        first, *others = (real.input(k) for k, _ in enumerate(node.inputs))
        total = real.apply(Reshape(first.type.shape), first)
        for other in others:
            total = real.apply(PlainAdd(), total, other)
        return real.result(total)
    return exact_elementwise(node, Add(), PlainAdd())


SAMPLES = (
    sample(Add(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Add(Activation.RELU), int8(2, 4, 3, 5), int8(1, 1, 1, 5)),
    sample(Add(), int8(4, 1, 5), int8(1, 3, 1)),
    sample(PlainAdd(Activation.RELU), reals(2, 4, 3, 5), reals(5)),
    sample(PlainAdd(), integers(1, 4, 3, 5), integers()),
)
