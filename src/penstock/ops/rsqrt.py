"""Rsqrt: reciprocal square root.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M / sqrt(x - zero_x))

    PlainRsqrt  float32, both

The reference yields the largest element for zero and refuses negative values, for which penstock
yields the largest element, too.

Source: TFLite RSQRT; `micro/kernels/elementwise.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import inverse_square_root
from penstock.opkit.lookup import ELEMENTS, Lookup, saturated
from penstock.opkit.samples import int8, reals, sample
from penstock.opkit.transcendental import inverse_sqrt

EXTRA_BITS = 20


@dataclass(frozen=True, slots=True)
class Rsqrt(Lookup):
    """The reciprocal square root."""

    TFLITE = ("RSQRT",)
    RELAY = relay("rsqrt", "qnn.rsqrt")

    def table(self, x: TensorType, y: TensorType) -> Array:
        centred = ELEMENTS - x.zero_point
        multiplier, shift = inverse_sqrt(np.maximum(centred, 1))
        fine = multiply(np.ones_like(centred), multiplier, shift + EXTRA_BITS)
        out_multiplier, out_shift = _output_multiplier(x, y)
        scaled = multiply(fine, out_multiplier, out_shift - EXTRA_BITS) + y.zero_point
        return saturated(np.where(centred > 0, scaled, 127))


def _output_multiplier(x: TensorType, y: TensorType) -> tuple[int, int]:
    """(multiplier, shift) of 1 / (sqrt(x.scale) * y.scale), the product in single precision."""
    product = np.sqrt(np.float32(x.scale)) * np.float32(y.scale)
    return quantise_multiplier(1.0 / float(product))


@dataclass(frozen=True, slots=True)
class PlainRsqrt(Plain):
    """The reciprocal square root of real numbers."""

    ARITHMETIC = arithmetic("rsqrt", float32=inverse_square_root)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RSQRT."""
    x, y = node.input(0).type, node.output().type
    largest = 2.0**EXTRA_BITS
    if y.dtype is DType.INT8 and 1.0 / (math.sqrt(x.scale) * y.scale) >= largest:
        raise node.unsupported(
            f"input has scale {x.scale}, output {y.scale}; "
            f"1 / (sqrt(input) * output) must be below {largest:.0f}"
        )
    yield from typed_nodes(node, PlainRsqrt(), Rsqrt())


SAMPLES = (
    sample(Rsqrt(), int8(1, 4, 3, 5, zero=-128), scale=0.02, zero=-128),
    sample(Rsqrt(), int8(13, zero=-100), scale=0.05, zero=-90),
    sample(PlainRsqrt(), reals(1, 4, 3, 5)),
)
