"""Minimum: the smaller of two elements; inputs may be broadcast.

    a, b, y  int8     one scale and zero point

Source: TFLite MINIMUM; `reference/maximum_minimum.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import Layout, OnnxName, OnnxNode
from penstock.ops.extreme import Extreme, from_foreign_extreme, from_onnx_extreme
from penstock.ops.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Minimum(Extreme):
    """The smaller of two tensors."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("MINIMUM",)
    LARGER: ClassVar[bool] = False


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MINIMUM."""
    yield from from_foreign_extreme(Minimum(), node)


ONNX = {"Min": OnnxName(Layout.ALIKE)}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Min of two tensors."""
    yield from from_onnx_extreme(Minimum(), node)


SAMPLES = (
    sample(Minimum(), int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(Minimum(), int8(5), int8(2, 4, 1, 5), scale=0.05, zero=-3),
)
