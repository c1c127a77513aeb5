"""Relu: clamp to a real interval, with requantisation.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * (x - zero_x))

    PlainRelu  float32, both   y = clamp(x)

Source: TFLite RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1; `micro/kernels/activations.cc`
(`ReluQuantized`).  TFLite Micro's RELU6 ignores differing scales of input and output, and it has no
RELU_N1_TO_1; TensorFlow and penstock use the formula above for all (`kernels/activations.cc`,
`ReluX`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site, Table
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.lookup import ELEMENTS, Lookup, scale_ratio
from penstock.opkit.nodes import is_real
from penstock.opkit.samples import int8, reals, sample
from penstock.ops.real_function import UNBOUNDED, RealFunction, clip_bounds, real_form

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

    TFLITE = tuple(_ACTIVATIONS)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True, floats=True), "Relu", "Clip")
    RELAY = (
        *relay("clip"),
        RelayName("nn.relu", (("activation", "RELU"),)),
    )

    def table(self, x: TensorType, y: TensorType) -> Array:
        scaled = multiply(ELEMENTS - x.zero_point, *quantise_multiplier(scale_ratio(x, y)))
        return np.clip(scaled + y.zero_point, *self.activation.bounds(y)).astype(np.int8)


@dataclass(frozen=True, slots=True)
class PlainRelu(Plain):
    """Clamp of real numbers to the interval of `activation`; NaN stays."""

    activation: Activation = Activation.RELU

    ARITHMETIC = arithmetic("relu", float32=np.positive)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        lower, upper = self.activation.value
        x = Plain.evaluate(self, site, inputs, out)
        x = np.where(x < lower, np.float32(lower), x)
        return x if upper is None else np.where(x > upper, np.float32(upper), x)

    def kernel(self, site: Site) -> Kernel:
        lower, upper = self.activation.value
        bounds = np.array([lower, upper or 0.0], np.float32)
        params = (*Plain.kernel(self, site).params, ("bounded", int(upper is not None)))
        return Kernel("relu_f32", params, (("bounds", Table.of(bounds)),), by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1."""
    activation = _ACTIVATIONS[node.name]
    yield from typed_nodes(node, PlainRelu(activation), Relu(activation))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Relu and Clip.  A clamp to bounds that no TFLite activation has becomes a
    `RealFunction`."""
    least, most = (0.0, UNBOUNDED) if node.name == "Relu" else clip_bounds(node)
    if is_real(node):
        yield from real_form(node, "Clip", (least, most))
        return
    wanted = (least, None if most == UNBOUNDED else most)
    activation = next((a for a in _ACTIVATIONS.values() if a.value == wanted), None)
    op = Relu(activation) if activation else RealFunction("Clip", (least, most))
    yield node.made(op, node.input(0))


SAMPLES = (
    sample(Relu(), int8(1, 4, 3, 5), scale=0.03, zero=-128),
    sample(Relu(Activation.RELU6), int8(7)),
    sample(Relu(Activation.RELU_N1_TO_1), int8(3, 5), scale=0.01, zero=0),
    sample(PlainRelu(), reals(1, 4, 3, 5)),
    sample(PlainRelu(Activation.RELU_N1_TO_1), reals(7)),
)
