"""Pad: a border of one value around a tensor.

    x  any shape, int8 (other types: a border of zeros)
    y  extents before[a] + x + after[a]

Source: TFLite PAD (the border is the output's zero point), PADV2; `reference/pad.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Site
from penstock.ir.tensor import DType, TensorType
from penstock.ops.axes import constant_paddings
from penstock.ops.axis_map import Strided
from penstock.ops.checks import require
from penstock.ops.samples import int8, sample
from penstock.ops.selection import Maps, Selection, selected_type


@dataclass(frozen=True, slots=True)
class Pad(Selection):
    """Border of `fill`, as an element, per axis before and after."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    fill: int

    FOREIGN: ClassVar[tuple[str, ...]] = ("PAD", "PADV2")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"padding has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require(
            x.rank == len(self.before) == len(self.after),
            f"input has shape {list(x.shape)}, paddings are for rank {len(self.before)}",
        )
        require(
            _fits(self.fill, x.dtype),
            f"{x.dtype.value} is padded with {self.fill}, must be padded with "
            + ("an element" if x.dtype.size_bytes == 1 else "0"),
        )
        triples = zip(self.before, x.shape, self.after, strict=True)
        return selected_type(inputs, tuple(sum(triple) for triple in triples))

    def maps(self, site: Site) -> Maps:
        return tuple(Strided(-before) for before in self.before)

    def border(self) -> int:
        return self.fill


def _fits(fill: int, dtype: DType) -> bool:
    """Whether a border of `fill` is made by repeating one byte."""
    if fill == 0 or dtype.size_bytes != 1:
        return fill == 0
    return fill == 1 if dtype is DType.BOOL else dtype.lower <= fill < dtype.upper


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite PAD, PADV2."""
    before, after = constant_paddings(node, 1, node.input(0).type.rank)
    yield Made(Pad(before, after, _fill(node)), (node.input(0),), node.output())


def _fill(node: ForeignNode) -> int:
    """The border's element: the output's zero point, or the constant third input."""
    value, out = node.optional(2), node.output().type
    if value is None:
        return out.zero_point
    values = node.constant_ints(2)
    require(len(values) == 1, f"border has {len(values)} elements, must have 1")
    if (value.type.dtype, value.type.scale, value.type.zero_point) != (
        out.dtype,
        out.scale,
        out.zero_point,
    ):
        raise node.unsupported("border and output differ in type or scale, must be alike")
    return values[0]


SAMPLES = (
    sample(Pad((0, 1, 2, 0), (0, 2, 1, 0), -7), int8(1, 5, 4, 3)),
    sample(Pad((1, 0, 0, 1), (0, 3, 0, 2), 9), int8(2, 3, 2, 2)),
    sample(Pad((2, 1), (0, 3), 0), TensorType((3, 4), DType.INT16)),
)
