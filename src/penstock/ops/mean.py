"""Mean: the average along axes.

    x  int8, up to rank 4
    y  int8   its own scale and zero point

Source: TFLite MEAN; `reference/reduce.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import Layout, OnnxName, OnnxNode
from penstock.ops import reduction
from penstock.ops.samples import int8, sample
from penstock.ops.scaled_total import ScaledTotal


@dataclass(frozen=True, slots=True)
class Mean(ScaledTotal):
    """Average along `axes`, which stay with extent 1."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("MEAN",)
    MEAN: ClassVar[bool] = True


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MEAN."""
    return reduction.understood(node, Mean)


ONNX = {
    "GlobalAveragePool": OnnxName(Layout.CHANNELS_LAST),
    "ReduceMean": OnnxName(Layout.ALIKE),
}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX GlobalAveragePool, ReduceMean."""
    if node.name == "GlobalAveragePool":
        yield node.made(Mean((1, 2)), node.input(0))
    else:
        yield reduction.understood_onnx(node, Mean)


SAMPLES = (
    sample(Mean((1, 2)), int8(1, 5, 3, 4), scale=0.03),
    sample(Mean((3,)), int8(2, 3, 2, 7), scale=0.03),
    sample(Mean((0, 2)), int8(3, 2, 5), scale=0.03),
)
