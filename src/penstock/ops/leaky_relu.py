"""LeakyRelu: multiplies negative values by a constant, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * (x - zero_x))  where x >= zero_x,
                               clamp(zero_y + M * alpha * (x - zero_x))  elsewhere

Source: TFLite LEAKY_RELU; `reference/leaky_relu.h`, parameters in
`micro/kernels/leaky_relu_common.cc`, in double precision.
ONNX LeakyRelu: `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import float32, multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.lookup import (
    ELEMENTS,
    Lookup,
    Numerics,
    finite_parameter,
    real_table,
    saturated,
    scale_ratio,
)
from penstock.opkit.nodes import is_real
from penstock.opkit.samples import int8, sample
from penstock.ops.real_function import real_form


@dataclass(frozen=True, slots=True)
class LeakyRelu(Lookup):
    """Slope 1 for positive and `alpha` for negative values."""

    alpha: float
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("LEAKY_RELU",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "LeakyRelu")
    RELAY = relay("nn.leaky_relu", "qnn.leaky_relu")

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(lambda r: r if r >= 0 else self.alpha * r, x, y)
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
    yield from elementwise_nodes(LeakyRelu(alpha), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX LeakyRelu."""
    alpha = finite_parameter(node, "alpha", 0.01)
    if is_real(node):
        yield from real_form(node, "LeakyRelu", (alpha,))
        return
    yield node.made(LeakyRelu(alpha, Numerics.REAL), node.input(0))


SAMPLES = (
    sample(LeakyRelu(float32(0.1)), int8(1, 4, 3, 5), scale=0.03),
    sample(LeakyRelu(-0.5), int8(3, 5)),
    sample(LeakyRelu(0.1, Numerics.REAL), int8(9, scale=0.4)),
)
