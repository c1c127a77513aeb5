"""Sqrt: square root.

    x  any shape  int8
    y  as x       int8     the root in steps of y, rounded towards 0; 0 for x < 0

    PlainSqrt  float32, both   y = sqrt(x), correctly rounded; NaN for x < 0

Source: TFLite SQRT, `kernels/elementwise.cc`, `SqrtEvalQuantized`, which fails for x < 0.  (TFLite
Micro has only a floating-point kernel.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import square_root
from penstock.opkit.lookup import ELEMENTS, LARGEST_STEPS, Lookup, saturated
from penstock.opkit.samples import int8, reals, sample


@dataclass(frozen=True, slots=True)
class Sqrt(Lookup):
    """Square root."""

    TFLITE = ("SQRT",)
    RELAY = relay("sqrt", "qnn.sqrt")

    def table(self, x: TensorType, y: TensorType) -> Array:
        reals = np.float32(x.scale) * np.maximum(ELEMENTS - x.zero_point, 0).astype(np.float32)
        steps = np.minimum(np.sqrt(reals) / np.float32(y.scale), np.float32(LARGEST_STEPS))
        return saturated(steps.astype(np.int64) + y.zero_point)


@dataclass(frozen=True, slots=True)
class PlainSqrt(Plain):
    """Square root of real numbers."""

    ARITHMETIC = arithmetic("sqrt", float32=square_root)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SQRT."""
    yield from typed_nodes(node, PlainSqrt(), Sqrt())


SAMPLES = (
    sample(Sqrt(), int8(1, 4, 3, 5, scale=0.02, zero=-128), scale=0.009, zero=-128),
    sample(Sqrt(), int8(13), scale=0.02, zero=5),
    sample(PlainSqrt(), reals(1, 4, 3, 5)),
    sample(PlainSqrt(), reals(7)),
)
