"""Relu: clamp to an interval that begins at a real bound, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * (x - zero_x))

Source: TFLite RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1; `micro/kernels/activations.cc`
(`ReluQuantized`).  TFLite Micro's own RELU6 ignores that input and output may differ in scale, and
has no RELU_N1_TO_1; TensorFlow runs all of them by the formula above (`kernels/activations.cc`,
`ReluX`), and so do we.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import Layout, OnnxName, OnnxNode
from penstock.ir.tensor import Array, TensorType
from penstock.ops.activation import Activation
from penstock.ops.elementwise import made
from penstock.ops.lookup import ELEMENTS, Lookup, scale_ratio
from penstock.ops.real_function import UNBOUNDED, RealFunction, bounds
from penstock.ops.samples import int8, sample

_ACTIVATIONS = {
    "RELU": Activation.RELU,
    "RELU6": Activation.RELU6,
    "RELU_N1_TO_1": Activation.RELU_N1_TO_1,
    "RELU_0_TO_1": Activation.RELU_0_TO_1,
}


@dataclass(frozen=True, slots=True)
class Relu(Lookup):
    """Clamp to the interval of `activation`."""

    activation: Activation = Activation.RELU

    FOREIGN: ClassVar[tuple[str, ...]] = tuple(_ACTIVATIONS)

    def table(self, x: TensorType, y: TensorType) -> Array:
        scaled = multiply(ELEMENTS - x.zero_point, *quantise_multiplier(scale_ratio(x, y)))
        return np.clip(scaled + y.zero_point, *self.activation.bounds(y)).astype(np.int8)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RELU and its bounded kin."""
    yield from made(Relu(_ACTIVATIONS[node.name]), node, 1)


ONNX = {
    "Relu": OnnxName(Layout.ALIKE, carries=True),
    "Clip": OnnxName(Layout.ALIKE, carries=True),
}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Relu and Clip; a clamp to bounds that are no activation of TFLite's is a real
    function."""
    least, most = (0.0, UNBOUNDED) if node.name == "Relu" else bounds(node)
    wanted = (least, None if most == UNBOUNDED else most)
    activation = next((a for a in _ACTIVATIONS.values() if a.value == wanted), None)
    op = Relu(activation) if activation else RealFunction("Clip", (least, most))
    yield node.made(op, node.input(0))


SAMPLES = (
    sample(Relu(), int8(1, 4, 3, 5), scale=0.03, zero=-128),
    sample(Relu(Activation.RELU6), int8(7)),
    sample(Relu(Activation.RELU_N1_TO_1), int8(3, 5), scale=0.01, zero=0),
)
