"""Prelu: parametric rectifier; negative values are multiplied by an input, with requantisation.

    x      any shape  int8
    alpha  broadcasts to x int8
    y      as x       int8   y = clamp(zero_y + M1 * (x - zero_x))  where x >= zero_x,
                                 clamp(zero_y + M2 * (x - zero_x) * (alpha - zero_alpha))  elsewhere

Source: TFLite PRELU; `reference/prelu.h`, parameters in `micro/kernels/prelu_common.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.lookup import saturated
from penstock.opkit.nodes import RealNodes
from penstock.opkit.onnx_constants import exact_operand
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.samples import int8, sample, weights
from penstock.ops.add import PlainAdd
from penstock.ops.extremes import PlainMaximum, PlainMinimum
from penstock.ops.mul import PlainMul


@dataclass(frozen=True, slots=True)
class Prelu(Elementwise):
    """Slope 1 for positive values; input 1 is the slope for negative values."""

    TFLITE = ("PRELU",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "PRelu")
    RELAY = relay("nn.prelu")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        found = broadcast.int8_result(inputs, 2, "prelu")
        require(
            found.shape == inputs[0].shape,
            f"slopes have shape {list(inputs[1].shape)}, must stretch to {list(inputs[0].shape)}",
        )
        return found

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x, alpha = (
            broadcast.take(elements, type, out) - type.zero_point
            for elements, type in zip(inputs, site.inputs, strict=True)
        )
        above, below = _multipliers(site)
        scaled = np.where(x >= 0, multiply(x, *above), multiply(x * alpha, *below))
        return saturated(scaled + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        above, below = _multipliers(site)
        return Kernel(
            "prelu_s8",
            params=(
                *broadcast.params(site),
                ("zero0", site.inputs[0].zero_point),
                ("zero1", site.inputs[1].zero_point),
                ("above_multiplier", above[0]),
                ("above_shift", above[1]),
                ("below_multiplier", below[0]),
                ("below_shift", below[1]),
                ("out_zero", site.output.zero_point),
            ),
            by_rows=True,
        )


def _multipliers(site: Site) -> tuple[tuple[int, int], tuple[int, int]]:
    """(multiplier, shift) for positive and for negative values."""
    x, alpha = site.inputs
    y = site.output
    return (
        fitting_multiplier(x.scale / y.scale, 255),
        fitting_multiplier(x.scale * alpha.scale / y.scale, 255 * 255),
    )


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite PRELU."""
    yield from elementwise_nodes(Prelu(), node, 2)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX PRelu."""
    slopes = exact_operand(node, 1)
    if slopes is not None and node.output().type.quantisation is not None:
        yield node.made(Prelu(), node.input(0), slopes)
        return
    real = RealNodes(node)
    zero = real.constant(0.0, "zero")
    above = real.apply(PlainMaximum(), real.input(0), zero)
    below = real.apply(PlainMinimum(), real.input(0), zero)
    scaled = real.apply(PlainMul(), below, real.input(1))
    yield from real.result(real.apply(PlainAdd(), above, scaled))


SAMPLES = (
    sample(Prelu(), int8(1, 4, 3, 5), weights(1, 1, 5), scale=0.04, zero=-20),
    sample(Prelu(), int8(2, 4, 3, 5), int8(4, 3, 5, scale=0.01, zero=9)),
)
