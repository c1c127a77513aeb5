"""Log: natural logarithm.

    x  any shape  int8
    y  as x       int8     the smallest element for x <= 0

    PlainLog  float32, both   y = log(x); -infinity for 0, NaN for x < 0

Source: TFLite LOG, `kernels/elementwise.cc`, `LogLUTPrepare`: a table in single precision.  (TFLite
Micro has only a floating-point kernel.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.fixedpoint import float32
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import log
from penstock.opkit.lookup import Lookup, sampled
from penstock.opkit.samples import int8, reals, sample


@dataclass(frozen=True, slots=True)
class Log(Lookup):
    """Natural logarithm."""

    TFLITE = ("LOG",)
    RELAY = relay("log", "qnn.log")

    def table(self, x: TensorType, y: TensorType) -> Array:
        least = float32((y.dtype.lower - y.zero_point) * y.scale)
        return sampled(lambda real: float32(math.log(real)) if real > 0 else least, x, y)


@dataclass(frozen=True, slots=True)
class PlainLog(Plain):
    """Natural logarithm of real numbers."""

    REFERENCE_ULPS = 1
    ARITHMETIC = arithmetic("log", float32=log)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOG."""
    yield from typed_nodes(node, PlainLog(), Log())


SAMPLES = (
    sample(Log(), int8(1, 4, 3, 5, scale=0.04, zero=-90), scale=0.05, zero=20),
    sample(Log(), int8(13, zero=-128), scale=0.03, zero=127),
    sample(PlainLog(), reals(1, 4, 3, 5)),
    sample(PlainLog(), reals(7)),
)
