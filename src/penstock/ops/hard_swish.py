"""HardSwish: x * clamp(x + 3, 0, 6) / 6.

    x  any shape  int8
    y  as x       int8

TFLite computes in 16 bits: x in steps of the output's scale, times (x + 3) / 6 clamped to [0, 1].

Source: TFLite HARD_SWISH; `reference/hard_swish.h`, parameters in
`micro/kernels/hard_swish_common.cc`, in single precision.
ONNX HardSwish: `Numerics.REAL`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s, quantise_multiplier, rounding_shift
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.checks import require_int8
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.lookup import ELEMENTS, Lookup, Numerics, real_table, saturated
from penstock.opkit.nodes import is_real
from penstock.opkit.samples import int8, sample
from penstock.ops.real_function import real_form

INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
FINER = 128
"""The input is scaled by this factor before multiplication."""


@dataclass(frozen=True, slots=True)
class HardSwish(Lookup):
    """The hard swish function."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("HARD_SWISH",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "HardSwish")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(_real_hard_swish, x, y)
        fine = (ELEMENTS - x.zero_point) * FINER
        multiplier, shift = _output_multiplier(x, y)
        scaled = _high_multiply(fine, multiplier)
        product = scaled * _gate(fine, x)
        halved = np.where(product >= 0, product >> 15, -((-product) >> 15))
        return saturated(_rounding_shift16(halved, -shift) + y.zero_point)


def _real_hard_swish(x: float) -> float:
    return x * min(max(x / 6 + 0.5, 0.0), 1.0)


def _output_multiplier(x: TensorType, y: TensorType) -> tuple[int, int]:
    """(multiplier, shift) from steps of x / `FINER` to the scale of y."""
    return _multiplier16(np.float32(x.scale / FINER) / np.float32(y.scale))


def _gate(fine: Int64s, x: TensorType) -> Int64s:
    """(x + 3) / 6 clamped to [0, 1], in Q0.15."""
    third = np.float32(3.0) / np.float32(32768.0)
    multiplier, shift = _multiplier16(np.float32(x.scale / FINER) / third)
    # Saturation before the last doubling does not show in the result.
    value = _saturated16(fine << max(0, shift - 1))
    value = _high_multiply(value, multiplier)
    value = _saturated16(value << 1) if shift > 0 else _rounding_shift16(value, -shift)
    return (value + (1 << 15)) >> 1


def _multiplier16(real: np.float32) -> tuple[int, int]:
    """(multiplier, shift) of a real multiplier, the multiplier in Q0.15."""
    multiplier, shift = quantise_multiplier(float(real))
    return min((multiplier + (1 << 15)) >> 16, INT16_MAX), shift


def _high_multiply(a: Int64s, b: int) -> Int64s:
    """round(a * b / 2**15), rounded half away from zero."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.where(nudged >= 0, nudged >> 15, -((-nudged) >> 15))


def _rounding_shift16(x: Int64s, exponent: int) -> Int64s:
    """round(x / 2**exponent) as the reference computes it in 16 bits.

    For exponents above 15 its remainder mask is -1, and the result is 1 or -1 instead of 0
    (gemmlowp, `RoundingDivideByPOT`)."""
    return rounding_shift(x, exponent) if exponent < 16 else np.where(x >= 0, 1, -1)


def _saturated16(x: Int64s) -> Int64s:
    return np.clip(x, INT16_MIN, INT16_MAX)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite HARD_SWISH."""
    x, y = node.input(0).type, node.output().type
    require_int8(x, "input")
    require_int8(y, "output")
    if _output_multiplier(x, y)[1] > 0:
        raise node.unsupported(
            f"input has scale {x.scale}, output {y.scale}; the output's must be above 1/128 of it"
        )
    yield from elementwise_nodes(HardSwish(), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX HardSwish."""
    if is_real(node):
        yield from real_form(node, "HardSwish")
        return
    yield node.made(HardSwish(numerics=Numerics.REAL), node.input(0))


SAMPLES = (
    sample(HardSwish(), int8(1, 4, 3, 5), scale=0.03, zero=-112),
    sample(HardSwish(), int8(11, scale=0.2), scale=0.2, zero=-110),
    sample(HardSwish(Numerics.REAL), int8(11, scale=0.2), scale=0.002, zero=-110),
)
