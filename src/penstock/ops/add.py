"""Add: element by element, with requantisation and clamp; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + My * (Ma * ((a - zero_a) << 20) + Mb * ((b - zero_b) << 20)))

Source: TFLite ADD; `reference/integer_ops/add.h`, parameters in `micro/kernels/add_common.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import Layout, OnnxName, OnnxNode
from penstock.ops.activation import Activation, fused_activation
from penstock.ops.elementwise import made
from penstock.ops.onnx_constants import operand
from penstock.ops.samples import int8, sample
from penstock.ops.scaled_sum import ScaledSum


@dataclass(frozen=True, slots=True)
class Add(ScaledSum):
    """Sum of two tensors."""

    activation: Activation = Activation.NONE

    FOREIGN: ClassVar[tuple[str, ...]] = ("ADD",)
    SIGN: ClassVar[int] = 1


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ADD."""
    yield from made(Add(fused_activation(node)), node, 2)


ONNX = {"Add": OnnxName(Layout.ALIKE)}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Add."""
    yield node.made(Add(), operand(node, 0), operand(node, 1))


SAMPLES = (
    sample(Add(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Add(Activation.RELU), int8(2, 4, 3, 5), int8(1, 1, 1, 5)),
    sample(Add(), int8(4, 1, 5), int8(1, 3, 1)),
)
