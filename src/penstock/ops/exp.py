"""Exp: the exponential function.

    x  any shape  int8
    y  as x       int8

Source: TFLite EXP, `kernels/exp.cc` (TFLite Micro takes single precision only): a table in single
precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.fixedpoint import float32
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import Array, TensorType
from penstock.ops.elementwise import made
from penstock.ops.lookup import Lookup, sampled
from penstock.ops.samples import int8, sample

LARGEST = 88.0
"""Above it exp leaves single precision; every output has saturated long before."""


@dataclass(frozen=True, slots=True)
class Exp(Lookup):
    """The exponential function."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("EXP",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return sampled(_exp, x, y)


def _exp(x: float) -> float:
    return float32(math.exp(min(x, LARGEST)))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite EXP."""
    yield from made(Exp(), node, 1)


SAMPLES = (
    sample(Exp(), int8(1, 4, 3, 5, scale=0.02), scale=0.06, zero=-128),
    sample(Exp(), int8(13), scale=2.0, zero=-128),
)
