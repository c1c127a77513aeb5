"""Mean: the mean along axes.

    x  int8, up to rank 4
    y  int8   its own scale and zero point

Source: TFLite MEAN; `reference/reduce.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.opkit import reduction
from penstock.opkit.nodes import RealNodes, is_real
from penstock.opkit.samples import int8, sample
from penstock.opkit.scaled_total import ScaledTotal
from penstock.ops.div import PlainDiv
from penstock.ops.plain_sum import PlainSum


def _covers_image(op: Mean, site: Site) -> bool:
    """Whether the mean is taken over all rows and columns of images."""
    return site.inputs[0].rank == 4 and op.axes == (1, 2)


@dataclass(frozen=True, slots=True)
class Mean(ScaledTotal):
    """Mean along `axes`, which keep extent 1."""

    TFLITE = ("MEAN",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "GlobalAveragePool") | onnx(
        OnnxName(AxisOrder.ALIKE, floats=True), "ReduceMean"
    )
    RELAY = (
        *relay("mean"),
        RelayName("nn.global_avg_pool2d", condition=_covers_image),
    )
    MEAN = True


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MEAN."""
    return reduction.understood(node, Mean)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX GlobalAveragePool, ReduceMean."""
    if node.name == "GlobalAveragePool":
        return _along(node, (1, 2))
    return reduction.onnx_nodes(node, _along)


def _along(node: OnnxNode, axes: reduction.Axes) -> Iterable[Made]:
    if is_real(node):
        real = RealNodes(node)
        total = real.apply(PlainSum(axes), real.input(0))
        count = math.prod(node.input(0).type.shape[axis] for axis in axes)
        yield from real.result(real.apply(PlainDiv(), total, real.constant(count, "count")))
    else:
        yield node.made(Mean(axes), node.input(0))


SAMPLES = (
    sample(Mean((1, 2)), int8(1, 5, 3, 4), scale=0.03),
    sample(Mean((3,)), int8(2, 3, 2, 7), scale=0.03),
    sample(Mean((0, 2)), int8(3, 2, 5), scale=0.03),
)
