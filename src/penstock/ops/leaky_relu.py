"""LeakyRelu: negative values are multiplied by a constant, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * (x - zero_x))  where x >= zero_x,
                               clamp(zero_y + M * alpha * (x - zero_x))  elsewhere

Source: TFLite LEAKY_RELU; `reference/leaky_relu.h`, parameters in
`micro/kernels/leaky_relu_common.cc`, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import float32, multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import Array, TensorType
from penstock.ops.elementwise import made
from penstock.ops.lookup import ELEMENTS, Lookup, saturated, scale_ratio
from penstock.ops.samples import int8, sample


@dataclass(frozen=True, slots=True)
class LeakyRelu(Lookup):
    """Two slopes: 1 above zero, `alpha` below."""

    alpha: float

    FOREIGN: ClassVar[tuple[str, ...]] = ("LEAKY_RELU",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        slope = x.scale * self.alpha / y.scale
        centred = ELEMENTS - x.zero_point
        above = multiply(centred, *quantise_multiplier(scale_ratio(x, y)))
        below = multiply(centred, *quantise_multiplier(abs(slope)))
        signed = -below if slope < 0 else below
        return saturated(np.where(centred >= 0, above, signed) + y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LEAKY_RELU."""
    alpha = node.real("alpha")
    if not math.isfinite(alpha):
        raise node.unsupported(f"alpha is {alpha}, must be finite")
    yield from made(LeakyRelu(alpha), node, 1)


SAMPLES = (
    sample(LeakyRelu(float32(0.1)), int8(1, 4, 3, 5), scale=0.03),
    sample(LeakyRelu(-0.5), int8(3, 5)),
)
