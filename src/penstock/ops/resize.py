"""Resizing of the rows and columns of images.

    x  (N, H,  W,  C)  int8, or any type where elements are repeated
    y  (N, Ho, Wo, C)

Sources: TFLite RESIZE_BILINEAR; `ResizeBilinearInteger` (`reference/resize_bilinear.h`).
RESIZE_NEAREST_NEIGHBOR; `reference/resize_nearest_neighbor.h`, which computes the nearest index in
single precision.  ONNX operator specification, Resize.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from penstock.fixedpoint import multiply, round_half_away
from penstock.frozen import frozen
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Table,
    Types,
    Work,
    row_kernel,
)
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, Interval, Region, TensorType
from penstock.opkit.checks import image_shape, require, require_count, require_int8, require_rank
from penstock.opkit.lookup import saturated
from penstock.opkit.nodes import (
    in_shape_of_output,
    is_plain_foreign,
    is_real,
    requantised,
)
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.resize import (
    CROP,
    ResizedAxis,
    Sampling,
    coordinates_of,
    foreign_resize,
    image_affine,
    image_needs,
    resized_axes,
    rounding_of,
)
from penstock.opkit.selection import (
    Form,
    Indices,
    ListedMap,
    Maps,
    Selection,
    StridedMap,
    fitted,
    listed_type,
)
from penstock.ops.gather import Gather
from penstock.ops.plain_resample import interpolated, real_bilinear

WEIGHT_BITS = 11
"""Fraction bits of weights: sums of products fit int32 for linear and for cubic weights."""
LARGEST_WEIGHT = 2**15 - 1


@frozen
class Taps:
    """The sums along one axis.

    `first`: by output index, the first input index.  `weights`: by output index, one for each
    tap."""

    first: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of taps."""
        return len(self.weights) // max(1, len(self.first))

    @property
    def gain(self) -> int:
        """The largest sum of magnitudes of the weights of an output index."""
        return int(np.abs(self.table()).sum(axis=1).max())

    def table(self) -> Array:
        """Weights by output index and tap, as int64."""
        return np.array(self.weights, np.int64).reshape(len(self.first), self.size)

    def needs(self, out: Interval) -> Interval:
        """Input interval that an output interval reads."""
        seen = self.first[slice(*out)]
        return (min(seen), max(seen) + self.size) if seen else (0, 0)

    def matrix(self, out: Interval, read: Interval) -> Array:
        """Weights of the input indices in `read`, by output index in `out`."""
        found = np.zeros((out[1] - out[0], read[1] - read[0]), np.int64)
        table = self.table()
        for row, o in enumerate(range(*out)):
            start = self.first[o] - read[0]
            found[row, start : start + self.size] = table[o]
        return found

    def affine(self, extent: int) -> Form:
        """Affine form of `needs`."""
        reads = [(o, first, first + self.size) for o, first in enumerate(self.first)]
        return fitted(reads, Fraction(extent, len(self.first)))


@frozen
class Resample(ExchangedPair, OperatorDefaults):
    """Each output row and column is a weighted sum of adjacent input rows and columns.

        x  (N, H,  W,  C)  int8
        y  (N, Ho, Wo, C)  int8   y = clamp(zero_y + M * sum v[ho, k] * w[wo, l] * (x - zero_x))

    The sum is over the input rows first_h[ho] + k and columns first_w[wo] + l.  Weights have 11
    fraction bits; those of an output index add up to 1, as a rule.

    Source: ONNX operator specification, Resize in modes linear and cubic."""

    rows: Taps
    columns: Taps

    RELAY = relay("image.resize2d")

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "resampling")
        require_int8(x, "input")
        require_rank(x, "input", 4)
        for axis, extent in ((self.rows, x.shape[1]), (self.columns, x.shape[2])):
            require(
                bool(axis.first)
                and axis.size > 0
                and len(axis.weights) == axis.size * len(axis.first)
                and min(axis.first) >= 0
                and max(axis.first) + axis.size <= extent,
                f"taps reach outside an axis of {extent}, or have no weights",
            )
            require(
                all(abs(weight) <= LARGEST_WEIGHT for weight in axis.weights),
                f"a weight is above {LARGEST_WEIGHT}",
            )
        return TensorType(
            (x.shape[0], len(self.rows.first), len(self.columns.first), x.shape[3]), DType.INT8
        )

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = inputs[0][read.slices].astype(np.int64) - site.x.zero_point
        down = self.rows.matrix(out.intervals[1], read.intervals[1])
        across = self.columns.matrix(out.intervals[2], read.intervals[2])
        total = np.einsum("oh,pw,nhwc->nopc", down, across, x, optimize=True)
        scaled = multiply(total, *self._multiplier(site)) + site.output.zero_point
        return saturated(scaled)

    def needs(self, site: Site, out: Region) -> Regions:
        return (image_needs(self.rows, self.columns, out),)

    def affine(self, site: Site) -> Affines:
        _, height, width, _ = site.x.shape
        return (image_affine(self.rows.affine(height), self.columns.affine(width)),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.rows.size * (self.columns.size + 1))

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = self._multiplier(site)
        tables = (("h", self.rows), ("w", self.columns))
        return row_kernel(
            "resample_s8",
            ((f"first_{a}", Table.integers(t.first)) for a, t in tables),
            ((f"weights_{a}", Table.of(np.array(t.weights, np.int16))) for a, t in tables),
            in_h=site.x.shape[1],
            channels=site.x.shape[3],
            out_h=len(self.rows.first),
            out_w=len(self.columns.first),
            taps_h=self.rows.size,
            taps_w=self.columns.size,
            in_zero=site.x.zero_point,
            multiplier=multiplier,
            shift=shift,
            out_zero=site.output.zero_point,
        )

    def _multiplier(self, site: Site) -> tuple[int, int]:
        real = site.x.scale / site.output.scale / (1 << 2 * WEIGHT_BITS)
        return fitting_multiplier(real, 255 * self.rows.gain * self.columns.gain)


def from_onnx_resize(node: OnnxNode) -> Nodes:
    """ONNX Resize and Upsample in mode linear (or bilinear) or cubic."""
    x, mode = node.x, node.text("mode", "nearest")
    if x.rank != 4:
        raise node.unsupported(f"input has {x.rank} axes, must have 4")
    if node.integer("antialias"):
        raise node.unsupported("antialias is 1, must be 0")
    axes = resized_axes(node)
    if not (axes[0].is_unchanged and axes[3].is_unchanged):
        raise node.unsupported(f"mode {mode} resizes axes 0 or 1, must resize later axes")
    rows, columns = (_taps(node, axis) for axis in axes[1:3])
    yield node.made(Resample(rows, columns), x)


def _taps(node: OnnxNode, axis: ResizedAxis) -> Taps:
    if axis.is_unchanged:
        return Taps(tuple(range(axis.extent)), (1 << WEIGHT_BITS,) * axis.extent)
    positions = axis.positions(coordinates_of(node)).astype(np.float64)
    if node.text("mode", "nearest") == "cubic":
        return _cubic(node, axis, positions)
    positions = np.clip(positions, 0, axis.extent - 1)
    lower = np.floor(positions).astype(np.int64)
    upper = positions - lower
    return _rounded(axis.extent, lower, np.stack([1 - upper, upper], axis=1))


def _cubic(node: OnnxNode, axis: ResizedAxis, positions: Array) -> Taps:
    """Sums of four inputs.  Source: ONNX operator specification, Resize."""
    a, lower = node.real("cubic_coeff_a", -0.75), np.floor(positions).astype(np.int64)
    t = positions - lower
    weights = np.stack(
        [
            ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
            ((a + 2) * t - (a + 3)) * t * t + 1,
            ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1,
            ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a,
        ],
        axis=1,
    )
    if node.integer("exclude_outside"):
        taps = lower[:, None] - 1 + np.arange(4)
        weights = np.where((taps >= 0) & (taps < axis.extent), weights, 0)
        weights /= weights.sum(axis=1, keepdims=True)
    return _rounded(axis.extent, lower - 1, weights)


def _rounded(extent: int, first: Array, weights: Array) -> Taps:
    """Taps in fixed point.  Indices outside the axis read its ends; of each output index, the
    largest weight takes what rounding leaves of the sum."""
    start, folded = _folded(extent, first, weights)
    outputs = len(folded)
    steps = np.rint(folded * (1 << WEIGHT_BITS)).astype(np.int64)
    rest = np.rint(folded.sum(axis=1) * (1 << WEIGHT_BITS)).astype(np.int64) - steps.sum(axis=1)
    # Constant images stay constant only if weights add up to one exactly.
    steps[np.arange(outputs), folded.argmax(axis=1)] += rest
    return Taps(tuple(start.tolist()), tuple(steps.ravel().tolist()))


def _folded(extent: int, first: Array, weights: Array) -> tuple[Array, Array]:
    """First indices and weights inside the axis, at whose ends indices outside are read."""
    outputs, size = weights.shape
    start = np.clip(first, 0, max(0, extent - size))
    folded = np.zeros((outputs, min(size, extent)))
    for k in range(size):
        at = np.clip(first + k, 0, extent - 1) - start
        folded[np.arange(outputs), at] += weights[:, k]
    return start, folded


POSITION_BITS = 10
"""Fraction bits of positions and weights."""
MOST_POSITIONS = 2**20
"""Rows or columns, at most, for positions to fit int32."""


@frozen
class _Axis:
    """Output index o samples position o * scale + offset of an input axis of `extent`."""

    extent: int
    scale: int
    offset: int

    @staticmethod
    def of(extent: int, outputs: int, sampling: Sampling) -> _Axis:
        shrink = int(sampling is Sampling.ALIGN_CORNERS and outputs > 1)
        steps = outputs - shrink
        scale = (((extent - shrink) << POSITION_BITS) + steps // 2) // steps
        half = sampling is Sampling.HALF_PIXEL
        return _Axis(extent, scale, scale // 2 - (1 << (POSITION_BITS - 1)) if half else 0)

    def around(self, out: Interval) -> tuple[Indices, Indices, Indices]:
        """(lower index, upper index, weight of the upper) of every output index in `out`."""
        position = np.arange(*out, dtype=np.int64) * self.scale + self.offset
        before = np.clip(position >> POSITION_BITS, 0, self.extent - 1)
        after = np.clip(-(-position >> POSITION_BITS), before, self.extent - 1)
        return before, after, position - (before << POSITION_BITS)

    def needs(self, out: Interval) -> Interval:
        before, after, _ = self.around(out)
        return (int(before[0]), int(after[-1]) + 1) if before.size else (0, 0)

    def affine(self, outputs: int) -> Form:
        before, after, _ = self.around((0, outputs))
        reads = [(o, int(before[o]), int(after[o]) + 1) for o in range(outputs)]
        return fitted(reads, Fraction(self.extent, outputs))


def _resized(inputs: Types, rows: int, columns: int) -> tuple[int, int, int, int]:
    """The shape of the output.  Raises ModelError unless the input is an image, and it has rows and
    columns."""
    (x,) = require_count(inputs, 1, "resizing")
    n, _, _, channels = image_shape(x.shape)
    require(min(rows, columns) > 0, f"output is {rows} x {columns}, is empty")
    return n, rows, columns, channels


@frozen
class _Bilinear(OperatorDefaults):
    """Base of bilinear interpolation of rows and columns."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    def result_type(self, inputs: Types) -> TensorType:
        (x,), shape = inputs, _resized(inputs, self.rows, self.columns)
        require_int8(x, "input")
        largest = max(x.shape[1], x.shape[2], self.rows, self.columns)
        require(
            largest <= MOST_POSITIONS,
            f"an extent is {largest}, must be at most {MOST_POSITIONS}: positions have "
            f"{POSITION_BITS} fraction bits",
        )
        return TensorType(shape, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        rows, columns = self._axes(site)
        top, bottom, down = rows.around(out.intervals[1])
        left, right, across = columns.around(out.intervals[2])
        x = inputs[0][out.slices[0], ..., out.slices[3]].astype(np.int64)
        one = 1 << POSITION_BITS
        down, across = down[:, None, None], across[:, None]
        upper, lower = x[:, top], x[:, bottom]
        total = (one - down) * ((one - across) * upper[:, :, left] + across * upper[:, :, right])
        total += down * ((one - across) * lower[:, :, left] + across * lower[:, :, right])
        magnitude = (np.abs(total) + (1 << (2 * POSITION_BITS - 1))) >> (2 * POSITION_BITS)
        return (np.sign(total) * magnitude).astype(np.int8)

    def needs(self, site: Site, out: Region) -> Regions:
        return (image_needs(*self._axes(site), out),)

    def affine(self, site: Site) -> Affines:
        rows, columns = self._axes(site)
        return (image_affine(rows.affine(self.rows), columns.affine(self.columns)),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 4 * out.elements)

    def kernel(self, site: Site) -> Kernel:
        rows, columns = self._axes(site)
        return row_kernel(
            "resize_bilinear_s8",
            self.shape_params(site),
            scale_h=rows.scale,
            scale_w=columns.scale,
            offset_h=rows.offset,
            offset_w=columns.offset,
        )

    def shape_params(self, site: Site) -> Params:
        """Kernel parameters of the shapes."""
        _, height, width, channels = site.x.shape
        sizes = (height, width, channels, self.rows, self.columns)
        return tuple(zip(("in_h", "in_w", "channels", "out_h", "out_w"), sizes, strict=True))

    def _axes(self, site: Site) -> tuple[_Axis, _Axis]:
        _, height, width, _ = site.x.shape
        rows = _Axis.of(height, self.rows, self.sampling)
        return rows, _Axis.of(width, self.columns, self.sampling)


@frozen
class ResizeBilinear(ExchangedPair, _Bilinear):
    """Resizes rows and columns by bilinear interpolation.

        x  (N, H,  W,  C)  int8
        y  (N, Ho, Wo, C)  int8   same scale and zero point as x

    Positions and weights have 10 fraction bits; results are rounded half away from zero.

    Source: TFLite RESIZE_BILINEAR; `ResizeBilinearInteger` (`reference/resize_bilinear.h`)."""

    TFLITE = ("RESIZE_BILINEAR",)
    RELAY = relay("image.resize2d")


@frozen
class _RealAxis(_Axis):
    """As _Axis, with positions in single precision."""

    real: float = 1.0
    half: bool = False

    @staticmethod
    def of(extent: int, outputs: int, sampling: Sampling) -> _RealAxis:
        shrink = int(sampling is Sampling.ALIGN_CORNERS and outputs > 1)
        real = np.float32(extent - shrink) / np.float32(outputs - shrink)
        return _RealAxis(extent, 0, 0, float(real), sampling is Sampling.HALF_PIXEL)

    def around(self, out: Interval) -> tuple[Indices, Indices, Array]:
        indices, real, half = (
            np.arange(*out).astype(np.float32),
            np.float32(self.real),
            np.float32(0.5),
        )
        positions = (indices + half) * real - half if self.half else indices * real
        before = np.maximum(np.floor(positions).astype(np.int64), 0)
        after = np.minimum(np.ceil(positions).astype(np.int64), self.extent - 1)
        return before, after, positions - before.astype(np.float32)


@frozen
class UnsignedResizeBilinear(_Bilinear):
    """As ResizeBilinear, in single precision: as for uint8 elements, which are less by 128 here.
    Its roundings differ if rows and columns are exchanged.

    Source: TFLite RESIZE_BILINEAR; `ResizeBilinear` (`reference/resize_bilinear.h`)."""

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        rows, columns = self._axes(site)
        top, bottom, down = rows.around(out.intervals[1])
        left, right, across = columns.around(out.intervals[2])
        x = (inputs[0][out.slices[0], ..., out.slices[3]].astype(np.int16) + 128).astype(np.float32)
        down, across = down[:, None, None], across[:, None]
        upper, lower, one = x[:, top], x[:, bottom], np.float32(1)
        # Every operation is rounded to single precision, in the reference's order.
        total = upper[:, :, left] * (one - down) * (one - across)
        total += lower[:, :, left] * down * (one - across)
        total += upper[:, :, right] * (one - down) * across
        total += lower[:, :, right] * down * across
        return ((total + np.float32(0.5)).astype(np.int32) - 128).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        rows, columns = self._axes(site)
        return row_kernel(
            "resize_bilinear_u8",
            self.shape_params(site),
            half=self.sampling is Sampling.HALF_PIXEL,
            scale=Table.reals([rows.real, columns.real]),
        )

    def _axes(self, site: Site) -> tuple[_RealAxis, _RealAxis]:
        _, height, width, _ = site.x.shape
        rows = _RealAxis.of(height, self.rows, self.sampling)
        return rows, _RealAxis.of(width, self.columns, self.sampling)


def _is_nearest(attributes: Mapping[str, object]) -> bool:
    """Whether an ONNX node repeats elements, by its attributes."""
    return attributes.get("mode", "nearest") == "nearest"


@frozen
class ResizeNearest(ExchangedPair, Selection):
    """Resizes rows and columns by nearest-neighbour sampling.

        x  (N, H,  W,  C)  any type
        y  (N, Ho, Wo, C)

    Source: TFLite RESIZE_NEAREST_NEIGHBOR; `reference/resize_nearest_neighbor.h`, which
    computes the nearest index in single precision."""

    rows: int
    columns: int
    sampling: Sampling = Sampling.LEGACY

    TFLITE = ("RESIZE_NEAREST_NEIGHBOR",)
    ONNX = onnx(
        OnnxName(AxisOrder.CHANNELS_LAST, carries=_is_nearest, floats=True), "Resize", "Upsample"
    )
    RELAY = relay("image.resize2d")

    def result_type(self, inputs: Types) -> TensorType:
        return listed_type(inputs, _resized(inputs, self.rows, self.columns))

    def maps(self, site: Site) -> Maps:
        _, height, width, _ = site.x.shape
        rows = _nearest(height, self.rows, self.sampling)
        return StridedMap(), rows, _nearest(width, self.columns, self.sampling), StridedMap()


def _nearest(extent: int, outputs: int, sampling: Sampling) -> ListedMap:
    align = sampling is Sampling.ALIGN_CORNERS
    shrink = int(align and outputs > 1)
    scale = np.float32(extent - shrink) / np.float32(outputs - shrink)
    offset = np.float32(0.5 if sampling is Sampling.HALF_PIXEL else 0.0)
    # Each operation is rounded to single precision, as in the reference.
    places = [float((np.float32(o) + offset) * scale) for o in range(outputs)]
    nearest = [round_half_away(p) if align else int(p) for p in places]
    return ListedMap(tuple(min(k, extent - 1) for k in nearest), Fraction(extent, outputs))


def from_onnx(node: OnnxNode) -> Nodes:
    x, mode = node.x, node.text("mode", "nearest", _MODES)
    if x.rank != 4:
        raise node.unsupported(f"input has {x.rank} axes, must have 4")
    is_crop = node.text("coordinate_transformation_mode", "half_pixel") == CROP
    if is_real(node) and (mode != "nearest" or is_crop):
        yield from interpolated(node)
        return
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
        made = node.between(op, x, label=f"resized{a}", like=x.quantisation)
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


def from_foreign(node: ForeignNode) -> Nodes:
    if node.name == "RESIZE_BILINEAR" and is_plain_foreign(node):
        yield from in_shape_of_output(node, real_bilinear(node))
        return
    make = ResizeNearest
    if node.name == "RESIZE_BILINEAR":
        make = UnsignedResizeBilinear if node.unsigned else ResizeBilinear
    yield Made(make(*foreign_resize(node)), (node.x,), node.y)
