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
from typing import ClassVar, Self

import numpy as np

from penstock.fixedpoint import round_half_away
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.tensor import TensorType
from penstock.opkit.axis_map import ListedMap, StridedMap
from penstock.opkit.checks import require, require_rank
from penstock.opkit.requantised import requantised
from penstock.opkit.resize import Sampling, foreign_resize
from penstock.opkit.samples import int8, sample
from penstock.opkit.selection import Maps, Selection, listed_type


def _is_nearest(attributes: Mapping[str, object]) -> bool:
    """Whether an ONNX node repeats elements, by its attributes."""
    return attributes.get("mode", "nearest") == "nearest"


@dataclass(frozen=True, slots=True)
class ResizeNearest(Selection):
    """Resizes to `rows` x `columns`."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    TFLITE: ClassVar[tuple[str, ...]] = ("RESIZE_NEAREST_NEIGHBOR",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {
        name: OnnxName(AxisOrder.CHANNELS_LAST, carries=_is_nearest)
        for name in ("Resize", "Upsample")
    }
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("image.resize2d")

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
    """ONNX Resize and Upsample by integer factors, which repeat elements."""
    x = node.input(0)
    require_rank(x.type, (4,), "input")
    if node.text("mode", "nearest") != "nearest":
        raise node.unsupported(f"mode is {node.text('mode', 'nearest')}, must be nearest")
    rows, columns = (_factor(node, x.type.shape[node.axis(a)], a) for a in (2, 3))
    op = ResizeNearest(x.type.shape[1] * rows, x.type.shape[2] * columns)
    where = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if node.name == "Resize" and not _repeats(where, rounding):
        raise node.unsupported(f"{where} with {rounding} does not repeat elements")
    yield from requantised(node, op, x)


def _repeats(where: str, rounding: str) -> bool:
    """Whether the node's modes repeat each element, as 1, 1, 2, 2, .."""
    return (where == "asymmetric" and rounding == "floor") or (
        where == "half_pixel" and rounding in ("round_prefer_floor", "round_prefer_ceil")
    )


def _factor(node: OnnxNode, extent: int, axis: int) -> int:
    """Number of repetitions along an axis of the model's input, 1 for its first two axes."""
    factors = _factors(node)
    require(len(factors) == 4, f"there are {len(factors)} factors, must be 4")
    whole = all(f.denominator == 1 and 0 < f < 2**15 for f in factors)
    if not whole or factors[0] != 1 or factors[1] != 1:
        raise node.unsupported(
            f"factors are {[float(f) for f in factors]}, must be whole, those of axes 0 and 1 be 1"
        )
    return int(factors[axis])


def _factors(node: OnnxNode) -> list[Fraction]:
    """Number of repetitions along each axis of the model's input."""
    if node.optional(3) is not None:
        x = node.input(0).type.shape
        return [Fraction(n, x[node.axis(a)]) for a, n in enumerate(node.constant_ints(3))]
    found = node.constant(2 if node.name == "Resize" and len(node.inputs) > 2 else 1).ravel()
    require(bool(np.isfinite(found).all()), "a factor is no finite number")
    return [Fraction(float(f)) for f in found]


SAMPLES = (
    sample(ResizeNearest(8, 6), int8(1, 4, 3, 5)),
    sample(ResizeNearest(5, 9, Sampling.HALF_PIXEL), int8(2, 7, 4, 2)),
    sample(ResizeNearest(7, 4, Sampling.ALIGN_CORNERS), int8(1, 3, 6, 3)),
)
