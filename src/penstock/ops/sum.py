"""Sum: the sum along axes.

    x  int8, up to rank 4
    y  int8   its own scale and zero point

Source: TFLite SUM, as computed by TFLite Micro; `reference/reduce.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.opkit import reduction
from penstock.opkit.nodes import RealNodes, is_real
from penstock.opkit.samples import int8, sample
from penstock.opkit.scaled_total import ScaledTotal
from penstock.ops.plain_sum import PlainSum


@dataclass(frozen=True, slots=True)
class Sum(ScaledTotal):
    """Sum along `axes`, which keep extent 1."""

    TFLITE = ("SUM",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "ReduceSum")
    RELAY = relay("sum")
    MEAN = False


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SUM."""
    return reduction.understood(node, Sum)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX ReduceSum."""
    return reduction.onnx_nodes(node, _along)


def _along(node: OnnxNode, axes: reduction.Axes) -> Iterable[Made]:
    if is_real(node):
        real = RealNodes(node)
        yield from real.result(real.apply(PlainSum(axes), real.input(0)))
    else:
        yield node.made(Sum(axes), node.input(0))


SAMPLES = (
    sample(Sum((1, 2)), int8(1, 5, 3, 4), scale=0.4),
    sample(Sum((1,)), int8(3, 9), scale=0.2),
)
