"""Resampling of the rows and columns of images of real numbers.

    x  (N, H,  W,  C)  float32
    y  (N, Ho, Wo, C)  float32

Sources: TFLite RESIZE_BILINEAR; `ResizeBilinear` (`reference/resize_bilinear.h`).  ONNX operator
specification, Resize in modes linear and cubic.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Table,
    Types,
    Work,
    row_kernel,
)
from penstock.ir.tensor import Array, DType, Interval, Region, TensorType
from penstock.opkit.checks import require, require_count, require_dtype, require_rank
from penstock.opkit.nodes import onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.resize import (
    CROP,
    MODEL_AXES,
    ResizedAxis,
    Sampling,
    foreign_resize,
    image_affine,
    image_needs,
    real_positions,
    resized_axes,
    rounding_of,
)
from penstock.opkit.selection import Form, fitted
from penstock.ops.comparisons import Select

MOST_JOINT_TAPS = 4
"""Rows and columns are resampled at once if a sum has no more products: with more, one axis after
the other takes fewer."""


@frozen
class RealTaps:
    """The sums along one axis: by output index, the input index and the weight of each tap."""

    indices: tuple[int, ...]
    weights: tuple[float, ...]
    size: int

    @staticmethod
    def of(indices: Array, weights: Array) -> RealTaps:
        """Taps by output index and tap; weights are rounded to single precision."""
        rounded = weights.astype(np.float32).ravel().tolist()
        return RealTaps(tuple(indices.ravel().tolist()), tuple(rounded), indices.shape[1])

    @staticmethod
    def unchanged(extent: int) -> RealTaps:
        """Each output is its input."""
        return RealTaps(tuple(range(extent)), (1.0,) * extent, 1)

    @property
    def outputs(self) -> int:
        return len(self.indices) // self.size

    def indices_of(self, out: Interval) -> Array:
        """Input indices by output index and tap."""
        return np.array(self.indices, np.int64).reshape(-1, self.size)[slice(*out)]

    def weights_of(self, out: Interval) -> Array:
        """Weights by output index and tap."""
        return np.array(self.weights, np.float32).reshape(-1, self.size)[slice(*out)]

    def needs(self, out: Interval) -> Interval:
        """Input interval that an output interval reads."""
        seen = self.indices[out[0] * self.size : out[1] * self.size]
        return (min(seen), max(seen) + 1) if seen else (0, 0)

    def affine(self, extent: int) -> Form:
        """Affine form of `needs`."""
        reads = [(o, *self.needs((o, o + 1))) for o in range(self.outputs)]
        return fitted(reads, Fraction(extent, self.outputs))


@frozen
class PlainResample(OperatorDefaults):
    """Each output row and column is a weighted sum of input rows and columns.

        x  (N, H,  W,  C)  float32
        y  (N, Ho, Wo, C)  float32   y = sum of (x[h(k), w(l)] * v[k]) * u[l], rounded after each
                                     operation, over the taps k of the row within those, l, of the
                                     column: so that rows and columns cannot be exchanged

    Source: TFLite RESIZE_BILINEAR; `reference/resize_bilinear.h`, for the order of operations."""

    rows: RealTaps
    columns: RealTaps

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "resampling")
        require_dtype(x, "input", DType.FLOAT32)
        require_rank(x, "input", 4)
        for axis, extent in ((self.rows, x.shape[1]), (self.columns, x.shape[2])):
            require(
                axis.size > 0
                and len(axis.indices) == len(axis.weights) == axis.outputs * axis.size > 0
                and 0 <= min(axis.indices) <= max(axis.indices) < extent,
                f"taps reach outside an axis of {extent}, or have no weights",
            )
        shape = (x.shape[0], self.rows.outputs, self.columns.outputs, x.shape[3])
        return TensorType(shape, DType.FLOAT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        images, rows, columns, channels = out.intervals
        x = inputs[0][slice(*images), ..., slice(*channels)]
        total: Array | None = None
        with np.errstate(all="ignore"):
            for column, across in zip(
                self.columns.indices_of(columns).T, self.columns.weights_of(columns).T, strict=True
            ):
                for row, down in zip(
                    self.rows.indices_of(rows).T, self.rows.weights_of(rows).T, strict=True
                ):
                    part = x[:, row][:, :, column] * down[:, None, None] * across[:, None]
                    total = part if total is None else total + part
        assert total is not None
        return total

    def needs(self, site: Site, out: Region) -> Regions:
        return (image_needs(self.rows, self.columns, out),)

    def affine(self, site: Site) -> Affines:
        _, height, width, _ = site.x.shape
        return (image_affine(self.rows.affine(height), self.columns.affine(width)),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 2 * out.elements * self.rows.size * self.columns.size)

    def kernel(self, site: Site) -> Kernel:
        _, height, _, channels = site.x.shape
        axes = (("h", self.rows), ("w", self.columns))
        return row_kernel(
            "resample_f32",
            ((f"indices_{a}", Table.integers(t.indices)) for a, t in axes),
            ((f"weights_{a}", Table.reals(t.weights)) for a, t in axes),
            in_h=height,
            channels=channels,
            out_h=self.rows.outputs,
            out_w=self.columns.outputs,
            taps_h=self.rows.size,
            taps_w=self.columns.size,
        )


def interpolated(node: OnnxNode) -> Nodes:
    """ONNX Resize and Upsample of real numbers that does not only repeat elements."""
    new = RealNodes(node)
    x = new.input(0)
    is_crop = node.text("coordinate_transformation_mode", "half_pixel") == CROP
    taps: dict[int, RealTaps] = {}
    outside: dict[int, Array] = {}
    for a, axis in enumerate(resized_axes(node)):
        positions = real_positions(node, axis, MODEL_AXES[a])
        if axis.is_unchanged and not (is_crop and (positions != np.arange(axis.extent)).any()):
            continue
        taps[a] = _taps(node, axis, positions)
        if is_crop:
            outside[a] = (positions < 0) | (positions > axis.extent - 1)
    x = _resampled(new, x, taps)
    for a, is_outside in outside.items():
        if is_outside.any():
            shape = tuple(len(is_outside) if b == a else 1 for b in range(4))
            mask = new.typed_constant(is_outside.reshape(shape), DType.BOOL)
            x = new.apply(Select(), mask, node.real("extrapolation_value", 0.0), x)
    return new.result(x)


def _resampled(new: RealNodes, x: Value, taps: dict[int, RealTaps]) -> Value:
    """Images resampled along some axes."""
    if {1, 2} <= taps.keys() and taps[1].size * taps[2].size <= MOST_JOINT_TAPS:
        x = new.apply(PlainResample(taps.pop(1), taps.pop(2)), x)
    for a, axis in taps.items():
        shape = x.shape
        outer, inner = math.prod(shape[:a]), math.prod(shape[a + 1 :])
        if a == 1:  # rows of images stay rows, which need not be there at once
            x = new.apply(PlainResample(axis, RealTaps.unchanged(shape[2])), x)
            continue
        columns = new.reshape(x, (1, outer, shape[a], inner))
        found = new.apply(PlainResample(RealTaps.unchanged(outer), axis), columns)
        x = new.reshape(found, (*shape[:a], axis.outputs, *shape[a + 1 :]))
    return x


def _taps(node: OnnxNode, axis: ResizedAxis, positions: Array) -> RealTaps:
    """The taps at positions on an axis, at whose ends indices outside are read.

    A position on an input index is right of its left neighbour; with `antialias`, the filter of
    a reduction is as wide as the distance of outputs."""
    mode = node.text("mode", "nearest").removeprefix("bi")
    width = {"nearest": 1, "linear": 1, "cubic": 2}[mode]
    scale = min(float(axis.scale), 1.0) if node.integer("antialias") else 1.0
    reach = -int(np.floor(-width / scale) + 1) + 1
    first = np.ceil(positions).astype(np.int64) - reach
    taps = first[:, None] + np.arange(2 * reach)
    distances = (taps - positions[:, None]) * scale
    if mode == "cubic":
        weights = _cubic_weights(np.abs(distances), node.real("cubic_coeff_a", -0.75))
    elif mode == "linear":
        weights = np.clip(1 - np.abs(distances), 0, 1)
    else:
        nearest = axis.at(positions.astype(np.float32), rounding_of(node))
        weights = (taps == np.array(nearest)[:, None]) * 1.0
    if node.integer("exclude_outside"):
        weights = np.where((taps >= 0) & (taps < axis.extent), weights, 0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
    used = weights.any(axis=0)
    return RealTaps.of(np.clip(taps, 0, axis.extent - 1)[:, used], weights[:, used])


def _cubic_weights(x: Array, a: float) -> Array:
    """Source: ONNX operator specification, Resize; Keys, "Cubic convolution interpolation"."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def real_bilinear(node: ForeignNode) -> Nodes:
    """TFLite RESIZE_BILINEAR of real numbers."""
    *outputs, sampling = foreign_resize(node)
    new = RealNodes(onnx_form(node, "Resize"))
    x = new.input(0)
    rows, columns = (
        _bilinear(extent, count, sampling)
        for extent, count in zip(x.shape[1:3], outputs, strict=True)
    )
    return new.result(new.apply(PlainResample(rows, columns), x))


def _bilinear(extent: int, outputs: int, sampling: Sampling) -> RealTaps:
    """The input before and after each output, and their weights, in single precision as in
    `reference/resize_bilinear.h`."""
    scale = np.float32(extent) / np.float32(outputs)
    if sampling is Sampling.ALIGN_CORNERS and outputs > 1:
        scale = np.float32(extent - 1) / np.float32(outputs - 1)
    positions = np.arange(outputs, dtype=np.float32)
    if sampling is Sampling.HALF_PIXEL:
        positions = (positions + np.float32(0.5)) * scale - np.float32(0.5)
    else:
        positions = positions * scale
    before = np.maximum(np.floor(positions), 0).astype(np.int64)
    after = np.minimum(np.ceil(positions), extent - 1).astype(np.int64)
    share = positions - before.astype(np.float32)
    return RealTaps.of(np.stack([before, after], 1), np.stack([1 - share, share], 1))
