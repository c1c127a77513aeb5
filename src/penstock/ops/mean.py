"""Mean: the mean along axes.

    x  int8, up to rank 4
    y  int8   its own scale and zero point

Source: TFLite MEAN; `reference/reduce.h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.opkit import reduction
from penstock.opkit.samples import int8, sample
from penstock.opkit.scaled_total import ScaledTotal


def _covers_image(op: Mean, site: Site) -> bool:
    """Whether the mean is taken over all rows and columns of images."""
    return site.inputs[0].rank == 4 and op.axes == (1, 2)


@dataclass(frozen=True, slots=True)
class Mean(ScaledTotal):
    """Mean along `axes`, which keep extent 1."""

    TFLITE: ClassVar[tuple[str, ...]] = ("MEAN",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {
        "GlobalAveragePool": OnnxName(AxisOrder.CHANNELS_LAST),
        "ReduceMean": OnnxName(AxisOrder.ALIKE),
    }
    RELAY: ClassVar[tuple[RelayName, ...]] = (
        *relay("mean"),
        RelayName("nn.global_avg_pool2d", condition=_covers_image),
    )
    MEAN: ClassVar[bool] = True


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MEAN."""
    return reduction.understood(node, Mean)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX GlobalAveragePool, ReduceMean."""
    if node.name == "GlobalAveragePool":
        yield node.made(Mean((1, 2)), node.input(0))
    else:
        yield node.made(Mean(reduction.onnx_axes(node)), node.input(0))


SAMPLES = (
    sample(Mean((1, 2)), int8(1, 5, 3, 4), scale=0.03),
    sample(Mean((3,)), int8(2, 3, 2, 7), scale=0.03),
    sample(Mean((0, 2)), int8(3, 2, 5), scale=0.03),
)
