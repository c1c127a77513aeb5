"""Abs: the absolute value, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * |x - zero_x|)

Source: TFLite ABS; `micro/kernels/elementwise.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import Array, TensorType
from penstock.ops.elementwise import made
from penstock.ops.lookup import ELEMENTS, Lookup, saturated, scale_ratio
from penstock.ops.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Abs(Lookup):
    """The absolute value."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("ABS",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        multiplier = quantise_multiplier(scale_ratio(x, y))
        return saturated(multiply(np.abs(ELEMENTS - x.zero_point), *multiplier) + y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ABS."""
    yield from made(Abs(), node, 1)


SAMPLES = (
    sample(Abs(), int8(1, 4, 3, 5), scale=0.03, zero=-128),
    sample(Abs(), int8(3, 5), scale=0.05, zero=-100),
)
