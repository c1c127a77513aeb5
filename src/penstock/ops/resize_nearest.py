"""ResizeNearest: resizes rows and columns by nearest-neighbour sampling.

    x  (N, H,  W,  C)  any type
    y  (N, Ho, Wo, C)

Source: TFLite RESIZE_NEAREST_NEIGHBOR; `reference/resize_nearest_neighbor.h`, which computes the
nearest index in single precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from penstock.fixedpoint import round_half_away
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import TensorType
from penstock.opkit.checks import require, require_rank
from penstock.opkit.nodes import requantised
from penstock.opkit.resize import (
    ResizedAxis,
    Sampling,
    coordinates_of,
    foreign_resize,
    resized_axes,
    rounding_of,
)
from penstock.opkit.samples import int8, sample
from penstock.opkit.selection import ListedMap, Maps, Selection, StridedMap, listed_type
from penstock.ops.gather import Gather
from penstock.ops.resample import from_onnx_resize


def _is_nearest(attributes: Mapping[str, object]) -> bool:
    """Whether an ONNX node repeats elements, by its attributes."""
    return attributes.get("mode", "nearest") == "nearest"


@dataclass(frozen=True, slots=True)
class ResizeNearest(Selection):
    """Resizes to `rows` x `columns`."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    TFLITE = ("RESIZE_NEAREST_NEIGHBOR",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=_is_nearest), "Resize", "Upsample")
    RELAY = relay("image.resize2d")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"resizing has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require_rank(x, (4,), "input")
        require(
            min(self.rows, self.columns) > 0, f"output is {self.rows} x {self.columns}, is empty"
        )
        return listed_type(inputs, (x.shape[0], self.rows, self.columns, x.shape[3]))

    def exchanged(self, rank: int) -> Self:
        return replace(self, rows=self.columns, columns=self.rows)

    def maps(self, site: Site) -> Maps:
        _, height, width, _ = site.inputs[0].shape
        rows = _nearest(height, self.rows, self.sampling)
        return StridedMap(), rows, _nearest(width, self.columns, self.sampling), StridedMap()


def _nearest(extent: int, outputs: int, sampling: Sampling) -> ListedMap:
    align = sampling is Sampling.ALIGN_CORNERS
    shrink = int(align and outputs > 1)
    scale = np.float32(extent - shrink) / np.float32(outputs - shrink)
    offset = np.float32(0.5 if sampling is Sampling.HALF_PIXEL else 0.0)
    places = [float((np.float32(o) + offset) * scale) for o in range(outputs)]
    nearest = [round_half_away(p) if align else int(p) for p in places]
    return ListedMap(tuple(min(k, extent - 1) for k in nearest), Fraction(extent, outputs))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite RESIZE_NEAREST_NEIGHBOR."""
    rows, columns, sampling = foreign_resize(node)
    yield Made(ResizeNearest(rows, columns, sampling), (node.input(0),), node.output())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Resize and Upsample."""
    x, mode = node.input(0), node.text("mode", "nearest")
    require_rank(x.type, (4,), "input")
    require(mode in _MODES, f"mode is {mode!r:.60}, must be one of {', '.join(_MODES)}")
    if mode != "nearest":
        yield from from_onnx_resize(node)
        return
    axes = resized_axes(node)
    where, rounding = coordinates_of(node), rounding_of(node)
    if _repeats(axes, where, rounding):
        op = ResizeNearest(axes[1].outputs, axes[2].outputs)
        yield from requantised(node, op, x)
        return
    *steps, last = [
        Gather(a, axis.nearest(where, rounding))
        for a, axis in enumerate(axes)
        if not axis.is_unchanged or a == 2
    ]
    for a, op in enumerate(steps):
        made = node.between(op, x, label=f"resized{a}", like=x.type.quantisation)
        yield made
        x = made.output
    yield from requantised(node, last, x)


_MODES = ("nearest", "linear", "bilinear", "cubic")


def _repeats(axes: tuple[ResizedAxis, ...], where: str, rounding: str) -> bool:
    """Whether rows and columns are repeated as 1, 1, 2, 2, .., and other axes are kept."""
    _, rows, columns, _ = axes
    return all(
        axis.is_unchanged
        or (
            axis in (rows, columns)
            and axis.scale % 1 == 0
            and axis.nearest(where, rounding)
            == tuple(o // int(axis.scale) for o in range(axis.outputs))
        )
        for axis in axes
    )


SAMPLES = (
    sample(ResizeNearest(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeNearest(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeNearest(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
)
