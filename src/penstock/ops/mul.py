"""Mul: element-wise product with requantisation and clamp; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + M * ((a - zero_a) * (b - zero_b)))

    PlainMul  int32 (modulo 2^32) or float32, all three   y = clamp(a * b)

Source: TFLite MUL; `reference/integer_ops/mul.h`, parameters in `micro/kernels/mul_common.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.broadcast import Clamped, Elementwise, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.nodes import exact_elementwise
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.samples import int8, integers, reals, sample, weights

LARGEST = 255 * 255
"""Largest magnitude of a product before it is requantised."""


@dataclass(frozen=True, slots=True)
class Mul(Elementwise):
    """Product of two tensors."""

    activation: Activation = Activation.NONE

    TFLITE = ("MUL",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Mul")
    RELAY = relay("multiply", "qnn.mul")
    COMMUTATIVE = True

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, "product")

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        left, right = (
            broadcast.take(x, type, out) - type.zero_point
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        scaled = multiply(left * right, *self.multiplier(site))
        bounds = self.activation.bounds(site.output)
        return np.clip(scaled + site.output.zero_point, *bounds).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = self.multiplier(site)
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "mul_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("out_multiplier", multiplier),
                ("out_shift", shift),
                ("out_zero", site.output.zero_point),
                ("least", least),
                ("most", most),
            ),
            by_rows=True,
        )

    def multiplier(self, site: Site) -> tuple[int, int]:
        """(multiplier, shift) of products."""
        a, b = site.inputs
        return fitting_multiplier(a.scale * b.scale / site.output.scale, LARGEST)


@dataclass(frozen=True, slots=True)
class PlainMul(Clamped):
    """Product of two tensors of plain numbers."""

    ARITHMETIC = arithmetic("mul", int32=np.multiply, float32=np.multiply)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MUL."""
    activation = fused_activation(node)
    yield from typed_nodes(node, PlainMul(activation), Mul(activation))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Mul."""
    return exact_elementwise(node, Mul(), PlainMul())


SAMPLES = (
    sample(Mul(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Mul(Activation.RELU), int8(2, 4, 3, 5), int8(2, 1, 1, 5)),
    sample(Mul(), int8(4, 3), weights(3)),
    sample(PlainMul(Activation.RELU), reals(2, 4, 3, 5), reals(5)),
    sample(PlainMul(), integers(1, 4, 3, 5), integers()),
)
