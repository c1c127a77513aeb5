"""Transpose: permutes the axes of a tensor.

    x  any shape, any type
    y  y.shape[a] = x.shape[order[a]]

Source: TFLite TRANSPOSE; `reference/transpose.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import DType, TensorType
from penstock.opkit.checks import require, resolved_axis
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Transpose(Rearrangement):
    """Axis a of the output is axis order[a] of the input."""

    order: tuple[int, ...]

    TFLITE = ("TRANSPOSE",)
    RELAY = relay("transpose")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        require(
            sorted(self.order) == list(range(len(x))),
            f"order is {list(self.order)}, must name each of {len(x)} axes once",
        )
        return AxisGrouping(tuple((extent,) for extent in x), tuple((axis,) for axis in self.order))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite TRANSPOSE."""
    rank = node.input(0).type.rank
    order = tuple(resolved_axis(axis, rank) for axis in node.constant_ints(1))
    yield Made(Transpose(order), (node.input(0),), node.output())


SAMPLES = (
    sample(Transpose((0, 2, 1, 3)), int8(1, 3, 4, 5)),
    sample(Transpose((0, 3, 1, 2)), int8(2, 3, 4, 5)),
    sample(Transpose((0, 1, 2, 4, 3)), int8(1, 2, 3, 2, 4)),
    sample(Transpose((1, 0)), TensorType((3, 4), DType.INT32)),
)
