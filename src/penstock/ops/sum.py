"""Sum: the total along axes.

    x  int8, up to rank 4
    y  int8   its own scale and zero point

Source: TFLite SUM as TFLite Micro runs it; `reference/reduce.h`.
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
class Sum(ScaledTotal):
    """Total along `axes`, which stay with extent 1."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("SUM",)
    MEAN: ClassVar[bool] = False


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SUM."""
    return reduction.understood(node, Sum)


ONNX = {"ReduceSum": OnnxName(Layout.ALIKE)}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX ReduceSum."""
    yield reduction.understood_onnx(node, Sum)


SAMPLES = (
    sample(Sum((1, 2)), int8(1, 5, 3, 4), scale=0.4),
    sample(Sum((1,)), int8(3, 9), scale=0.2),
)
