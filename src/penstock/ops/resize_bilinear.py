"""ResizeBilinear: resizes rows and columns by bilinear interpolation.

    x  (N, H,  W,  C)  int8
    y  (N, Ho, Wo, C)  int8   same scale and zero point as x

Positions and weights have 10 fraction bits; results are rounded half away from zero.

Source: TFLite RESIZE_BILINEAR; `ResizeBilinearInteger` (`reference/resize_bilinear.h`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.operator_facts import relay
from penstock.ir.region import Interval, Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_int8, require_rank
from penstock.opkit.resize import Sampling, foreign_resize
from penstock.opkit.samples import int8, sample
from penstock.opkit.selection import Form, Indices, fitted

BITS = 10
"""Fraction bits of positions and weights."""
MOST_POSITIONS = 2**20
"""Rows or columns, at most, for positions to fit int32."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Output index o samples position o * scale + offset of an input axis of `extent`."""

    extent: int
    scale: int
    offset: int

    @staticmethod
    def of(extent: int, outputs: int, sampling: Sampling) -> _Axis:
        shrink = int(sampling is Sampling.ALIGN_CORNERS and outputs > 1)
        steps = outputs - shrink
        scale = (((extent - shrink) << BITS) + steps // 2) // steps
        half = sampling is Sampling.HALF_PIXEL
        return _Axis(extent, scale, scale // 2 - (1 << (BITS - 1)) if half else 0)

    def around(self, out: Interval) -> tuple[Indices, Indices, Indices]:
        """(lower index, upper index, weight of the upper) of every output index in `out`."""
        position = np.arange(*out, dtype=np.int64) * self.scale + self.offset
        before = np.clip(position >> BITS, 0, self.extent - 1)
        after = np.clip(-(-position >> BITS), before, self.extent - 1)
        return before, after, position - (before << BITS)

    def needs(self, out: Interval) -> Interval:
        before, after, _ = self.around(out)
        return (int(before[0]), int(after[-1]) + 1) if before.size else (0, 0)

    def affine(self, outputs: int) -> Form:
        before, after, _ = self.around((0, outputs))
        reads = [(o, int(before[o]), int(after[o]) + 1) for o in range(outputs)]
        return fitted(reads, Fraction(self.extent, outputs))


@dataclass(frozen=True, slots=True)
class ResizeBilinear(OperatorDefaults):
    """Resizes to `rows` x `columns`."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    TFLITE = ("RESIZE_BILINEAR",)
    RELAY = relay("image.resize2d")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"resizing has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require_int8(x, "input")
        require_rank(x, (4,), "input")
        require(
            min(self.rows, self.columns) > 0, f"output is {self.rows} x {self.columns}, is empty"
        )
        largest = max(x.shape[1], x.shape[2], self.rows, self.columns)
        require(
            largest <= MOST_POSITIONS,
            f"an extent is {largest}, must be at most {MOST_POSITIONS}: positions have {BITS} "
            "fraction bits",
        )
        return TensorType((x.shape[0], self.rows, self.columns, x.shape[3]), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        rows, columns = self._axes(site)
        top, bottom, down = rows.around(out.intervals[1])
        left, right, across = columns.around(out.intervals[2])
        x = inputs[0][out.slices[0], ..., out.slices[3]].astype(np.int64)
        one = 1 << BITS
        down, across = down[:, None, None], across[:, None]
        upper, lower = x[:, top], x[:, bottom]
        total = (one - down) * ((one - across) * upper[:, :, left] + across * upper[:, :, right])
        total += down * ((one - across) * lower[:, :, left] + across * lower[:, :, right])
        magnitude = (np.abs(total) + (1 << (2 * BITS - 1))) >> (2 * BITS)
        return (np.sign(total) * magnitude).astype(np.int8)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        rows, columns = self._axes(site)
        n, h, w, c = out.intervals
        return (Region.of(n, rows.needs(h), columns.needs(w), c),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        rows, columns = self._axes(site)
        forms = ((1, 0, 0), rows.affine(self.rows), columns.affine(self.columns), (1, 0, 0))
        factors, extra, offset = zip(*forms, strict=True)
        return (Affine.diagonal(factors, extra, offset),)

    def exchanged(self, rank: int) -> Self:
        return replace(self, rows=self.columns, columns=self.rows)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 4 * out.elements)

    def kernel(self, site: Site) -> Kernel:
        rows, columns = self._axes(site)
        return Kernel(
            "resize_bilinear_s8",
            params=(
                ("in_h", rows.extent),
                ("in_w", columns.extent),
                ("channels", site.inputs[0].shape[3]),
                ("out_h", self.rows),
                ("out_w", self.columns),
                ("scale_h", rows.scale),
                ("scale_w", columns.scale),
                ("offset_h", rows.offset),
                ("offset_w", columns.offset),
            ),
            by_rows=True,
        )

    def _axes(self, site: Site) -> tuple[_Axis, _Axis]:
        _, height, width, _ = site.inputs[0].shape
        rows = _Axis.of(height, self.rows, self.sampling)
        return rows, _Axis.of(width, self.columns, self.sampling)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RESIZE_BILINEAR."""
    rows, columns, sampling = foreign_resize(node)
    yield Made(ResizeBilinear(rows, columns, sampling), (node.input(0),), node.output())


SAMPLES = (
    sample(ResizeBilinear(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeBilinear(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeBilinear(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
)
