"""Gelu: x times the normal distribution function of x, or its approximation by tanh.

    x  any shape  int8
    y  as x       int8

Source: TFLite GELU, `kernels/gelu.cc` and `reference/gelu.h` (TFLite Micro has no GELU): a table in
single precision.
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

_SQRT_HALF = float32(math.sqrt(0.5))
_SQRT_TWO_OVER_PI = float32(math.sqrt(2.0 / math.pi))
_CUBIC = float32(0.044715)


@dataclass(frozen=True, slots=True)
class Gelu(Lookup):
    """The Gaussian error linear unit."""

    approximate: bool = False

    FOREIGN: ClassVar[tuple[str, ...]] = ("GELU",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return sampled(_by_tanh if self.approximate else _by_erfc, x, y)


def _by_erfc(x: float) -> float:
    """x / 2 * erfc(-x / sqrt 2), every step in single precision."""
    tail = float32(math.erfc(float32(x * -_SQRT_HALF)))
    return float32(float32(0.5 * x) * tail)


def _by_tanh(x: float) -> float:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 x^2))), every step in single precision."""
    cubic = float32(1.0 + float32(float32(_CUBIC * x) * x))
    argument = float32(float32(_SQRT_TWO_OVER_PI * x) * cubic)
    return float32(float32(0.5 * x) * float32(1.0 + float32(math.tanh(argument))))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite GELU."""
    yield from made(Gelu(bool(node.integer("approximate"))), node, 1)


SAMPLES = (
    sample(Gelu(), int8(1, 4, 3, 5), scale=0.03, zero=-121),
    sample(Gelu(approximate=True), int8(3, 5), scale=0.03, zero=-121),
)
