"""Div: element-wise quotient with requantisation and clamp; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + M * (a - zero_a) / (b - zero_b))

    PlainDiv  float32, all three   y = clamp(a / b)

A quotient of real numbers that overflows, or whose divisor is 0, is clamped; 0 / 0 is NaN.  In
int8, the inverse of 0 is what the reference's iteration yields; where the reference shifts by more
than 31 bits, which is undefined, the quotient rounds to 0.

Source: TFLite DIV; `reference/div.h`, parameters in `micro/kernels/div.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.errors import UnsupportedError
from penstock.fixedpoint import (
    Int64s,
    doubling_high_multiply,
    quantise_multiplier,
    rounding_shift,
)
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
from penstock.opkit.nodes import real_elementwise
from penstock.opkit.samples import int8, reals, sample
from penstock.opkit.transcendental import one_over_one_plus

LARGEST_SHIFT = 22
"""Largest exponent of the multiplier: the reference shifts quotients of 255 by 0 to the right by at
least as many bits."""
INVERSE_OF_ZERO = -1515870788
"""`GetReciprocal` of 0 (kernels/internal/common.h), if additions wrap around in 32 bits."""


@dataclass(frozen=True, slots=True)
class Div(Elementwise):
    """Quotient of two tensors."""

    activation: Activation = Activation.NONE

    TFLITE = ("DIV",)
    RELAY = relay("divide", "qnn.divide")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, "division")

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (
            broadcast.take(x, type, out) - type.zero_point
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        least, most = self.activation.bounds(site.output)
        found = _quotients(a, b, *_multiplier(site)) + site.output.zero_point
        return np.clip(found, least, most).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = _multiplier(site)
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "div_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("multiplier", multiplier),
                ("shift", shift),
                ("out_zero", site.output.zero_point),
                ("least", least),
                ("most", most),
            ),
            by_rows=True,
        )


def _multiplier(site: Site) -> tuple[int, int]:
    """(multiplier, shift) of the quotient.  Raises UnsupportedError if the shift is too large."""
    a, b = (x.scale for x in site.inputs)
    real = a / (b * site.output.scale)
    multiplier, shift = quantise_multiplier(real)
    if shift > LARGEST_SHIFT:
        raise UnsupportedError(
            "model-025",
            f"quotients are multiplied by {real:.4g}, made of the scales; it must be below "
            f"2**{LARGEST_SHIFT}",
            why="the reference computes quotients in 32 bits",
            help="check the scales of the node's inputs and output",
        )
    return multiplier, shift


def _quotients(a: Int64s, b: Int64s, multiplier: int, shift: int) -> Int64s:
    """a / b times a real multiplier."""
    a, b = np.where(b < 0, -a, a), np.abs(b)
    zeros = _sign_bits(b) + 1
    fractions = np.maximum((b << zeros) - (1 << 31), 0)
    inverse = np.where(b == 0, INVERSE_OF_ZERO, one_over_one_plus(fractions))
    headroom = _sign_bits(a)
    unscaled = doubling_high_multiply(a << headroom, inverse)
    right = headroom + 31 - zeros - shift
    found = rounding_shift(doubling_high_multiply(unscaled, multiplier), np.minimum(right, 31))
    return np.where(right > 31, 0, found)


def _sign_bits(x: Int64s) -> Int64s:
    """How far int32 values can be shifted to the left without overflow."""
    return 31 - np.frexp(np.where(x < 0, ~x, x).astype(np.float64))[1].astype(np.int64)


@dataclass(frozen=True, slots=True)
class PlainDiv(Clamped):
    """Quotient of two tensors of real numbers."""

    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Div")
    ARITHMETIC = arithmetic("div", float32=np.divide)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite DIV."""
    activation = fused_activation(node)
    yield from typed_nodes(node, PlainDiv(activation), Div(activation))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Div."""
    return real_elementwise(node, PlainDiv())


SAMPLES = (
    sample(Div(), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=-128), scale=0.02),
    sample(Div(Activation.RELU6), int8(2, 4, 3, 5), int8(4, 1, 1, zero=7), scale=0.04, zero=-128),
    sample(PlainDiv(), reals(1, 4, 3, 5), reals(1, 4, 3, 5)),
    sample(PlainDiv(Activation.RELU6), reals(2, 4, 3, 5), reals()),
)
