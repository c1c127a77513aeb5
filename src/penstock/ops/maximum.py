"""Maximum: the larger of two elements; inputs may be broadcast.

    a, b, y  int8     one scale and zero point

Source: TFLite MAXIMUM; `reference/maximum_minimum.h`.
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
class Maximum(Extreme):
    """The larger of two tensors."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("MAXIMUM",)
    LARGER: ClassVar[bool] = True


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MAXIMUM."""
    yield from from_foreign_extreme(Maximum(), node)


ONNX = {"Max": OnnxName(Layout.ALIKE)}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Max of two tensors."""
    yield from from_onnx_extreme(Maximum(), node)


SAMPLES = (
    sample(Maximum(), int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(Maximum(), int8(5), int8(2, 4, 1, 5), scale=0.05, zero=-3),
)
