"""ResizeNearest: rows and columns at another density, each output from the nearest input.

    x  (N, H,  W,  C)  any type
    y  (N, Ho, Wo, C)

Source: TFLite RESIZE_NEAREST_NEIGHBOR; `reference/resize_nearest_neighbor.h`, which computes the
nearest index in single precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import round_half_away
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Site
from penstock.ir.tensor import TensorType
from penstock.ops.axis_map import Listed, Strided
from penstock.ops.checks import require, require_rank
from penstock.ops.resize import Sampling, foreign_resize
from penstock.ops.samples import int8, sample
from penstock.ops.selection import Maps, Selection, listed_type


@dataclass(frozen=True, slots=True)
class ResizeNearest(Selection):
    """`rows` x `columns` output positions."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    FOREIGN: ClassVar[tuple[str, ...]] = ("RESIZE_NEAREST_NEIGHBOR",)

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"resizing has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require_rank(x, (4,), "input")
        require(
            min(self.rows, self.columns) > 0, f"output is {self.rows} x {self.columns}, is empty"
        )
        return listed_type(inputs, (x.shape[0], self.rows, self.columns, x.shape[3]))

    def maps(self, site: Site) -> Maps:
        _, height, width, _ = site.inputs[0].shape
        rows = _nearest(height, self.rows, self.sampling)
        return Strided(), rows, _nearest(width, self.columns, self.sampling), Strided()


def _nearest(extent: int, outputs: int, sampling: Sampling) -> Listed:
    align = sampling is Sampling.ALIGN_CORNERS
    shrink = int(align and outputs > 1)
    scale = np.float32(extent - shrink) / np.float32(outputs - shrink)
    offset = np.float32(0.5 if sampling is Sampling.HALF_PIXEL else 0.0)
    places = [float((np.float32(o) + offset) * scale) for o in range(outputs)]
    nearest = [round_half_away(p) if align else int(p) for p in places]
    return Listed(tuple(min(k, extent - 1) for k in nearest), Fraction(extent, outputs))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RESIZE_NEAREST_NEIGHBOR."""
    rows, columns, sampling = foreign_resize(node)
    yield Made(ResizeNearest(rows, columns, sampling), (node.input(0),), node.output())


SAMPLES = (
    sample(ResizeNearest(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeNearest(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeNearest(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
)
