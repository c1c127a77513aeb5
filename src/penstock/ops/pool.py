"""Pooling: the mean or the maximum over a sliding window, padding excluded.

    x  (N, H,  W,  C)  int8 or float32
    y  (N, Ho, Wo, C)  as x             int8: same scale and zero point as x

Sources: TFLite AVERAGE_POOL_2D, MAX_POOL_2D; `reference/integer_ops/pooling.h`: a mean is the sum
of stored elements, divided by their number, rounded half away from zero; `reference/pooling.h`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from penstock.frozen import frozen
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    Regions,
    Site,
    Table,
    Types,
    Work,
    members,
    row_kernel,
)
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.tensor import MOST_ROWS, Array, DType, Interval, Region, TensorType
from penstock.opkit import sliding
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.broadcast import unary_node
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_rank,
)
from penstock.opkit.nodes import is_real, requantised
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.sliding import (
    Sliding,
    Window,
    foreign_windows,
    pair,
)
from penstock.opkit.sliding import windows as onnx_windows
from penstock.ops import convolutions, volumes
from penstock.ops.concatenation import Concatenation
from penstock.ops.pad import Pad
from penstock.ops.plain import PlainAbs, PlainDiv, Power
from penstock.ops.running import AverageLast, Halves, RunningMax, RunningSum, average
from penstock.ops.slice import part

MOST_TAPS = 2**23
"""Largest window whose sum of int8 elements always fits int32."""


def covers_image(op: Sliding, site: Site) -> bool:
    """Whether one window covers all rows and columns, so that they become one element."""
    x, y = site.x, site.output
    return x.shape[1:3] == (op.rows.size, op.columns.size) and y.shape[1:3] == (1, 1)


def divides_image(op: Sliding, site: Site) -> bool:
    """Whether the windows divide the image into equal parts, each of which becomes an element."""
    x, y = site.x.shape, site.output.shape
    axes = ((op.rows, x[1], y[1]), (op.columns, x[2], y[2]))
    return all(
        window.size * count == extent and (count == 1 or window.stride == window.size)
        for window, extent, count in axes
    )


def _relay(function: str, *others: str) -> tuple[RelayName, ...]:
    """The names of a pooling operator in Relay."""
    return (
        *relay(f"nn.{function}_pool2d", *others),
        RelayName(f"nn.global_{function}_pool2d", condition=covers_image),
        RelayName(f"nn.adaptive_{function}_pool2d", condition=divides_image),
    )


def windows(node: ForeignNode) -> tuple[Window, Window]:
    """The node's windows along rows and columns."""
    x = node.x.type
    require_rank(x, "input", 4)
    size = (node.integer("filter_height"), node.integer("filter_width"))
    return foreign_windows(node, x.shape[1:3], size)


def _stated(node: OnnxNode) -> OnnxNode:
    """The node without the cells that `ceil_mode` adds beyond the padding."""
    kept = {key: value for key, value in node.attributes.items() if key != "ceil_mode"}
    return replace(node, attributes=kept)


def onnx_pooling_windows(node: OnnxNode) -> tuple[Window, Window]:
    """Windows of an ONNX pooling node along rows and columns; global pooling covers the image."""
    x = node.x.type
    require_rank(x, "input", 4)
    if node.name.startswith("Global"):
        return Window(x.shape[1]), Window(x.shape[2])
    require("kernel_shape" in node.attributes, "attribute kernel_shape is missing")
    return onnx_windows(node, pair(node, "kernel_shape"))


@frozen
class _Pool(Sliding):
    """Base of average and max pooling, with clamp."""

    KERNEL: ClassVar[str]
    ELEMENTS: ClassVar[DType] = DType.INT8

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "pooling")
        require_rank(x, "input", 4)
        if self.ELEMENTS is DType.INT8:
            require_int8(x, "input")
        require_dtype(x, "input", self.ELEMENTS)
        taps = self.rows.size, self.columns.size
        require(
            taps[0] * taps[1] <= MOST_TAPS,
            f"the window has {taps[0]} x {taps[1]} elements, must have at most {MOST_TAPS}",
        )
        return self.image_type(x, x.shape[3])

    def needs(self, site: Site, out: Region) -> Regions:
        return (sliding.needs(self.rows, self.columns, site.x.shape, out),)

    def affine(self, site: Site) -> Affines:
        return (sliding.affine(self.rows, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.rows.size * self.columns.size)

    def kernel(self, site: Site) -> Kernel:
        return self.clamped(
            site,
            row_kernel(
                self.KERNEL,
                sliding.params(site, self.rows, self.columns),
            ),
        )

    def clamped(self, site: Site, kernel: Kernel) -> Kernel:
        """The kernel with the clamp of its results."""
        raise NotImplementedError

    def taps(self, x: Array, out: Region) -> Iterator[tuple[tuple[slice, slice, slice], Array]]:
        """Yields, per tap, where in `out` it meets the input, over batch, rows and columns, and the
        elements there."""
        read = sliding.block(x[..., out.slices[3]], self.rows, self.columns, out)
        for _, _, at, tap in sliding.taps_inside(read, x.shape, self.rows, self.columns, out):
            yield at, tap


def rows_of_one(rows: Window, shape: tuple[int, ...]) -> int:
    """Number of leading input rows under the window, if the output has one row and one image; else
    0."""
    one = shape[0] == 1 and rows.outputs(shape[1]) == 1
    return rows.needs((0, 1), shape[1])[1] if one and rows.dilation == 1 else 0


@frozen
class _QuantisedPool(ExchangedPair, _Pool):
    """Base of pooling of int8."""

    activation: Activation = Activation.NONE

    def clamped(self, site: Site, kernel: Kernel) -> Kernel:
        return replace(kernel, params=(*kernel.params, *self.activation.params(site.output)))


@frozen
class _PlainPool(_Pool):
    """Base of pooling of real numbers."""

    limits: Limits = FINITE

    ELEMENTS = DType.FLOAT32

    def clamped(self, site: Site, kernel: Kernel) -> Kernel:
        return replace(kernel, tables=(("bounds", Table.of(self.limits.array(self.ELEMENTS))),))


def _require_elements(op: _Pool, x: TensorType) -> None:
    """Raises ModelError unless every window meets an element that is not padding."""
    _, height, width, _ = x.shape
    require(
        op.rows.always_meets(height) and op.columns.always_meets(width),
        f"a window of {op.rows.size} x {op.columns.size} elements lies in the padding "
        f"alone, must meet the {height} x {width} elements of the input: it has no average",
    )


@frozen
class AveragePool2D(_QuantisedPool):
    """The mean over a sliding window, padding excluded.

        x  (N, H,  W,  C)  int8
        y  (N, Ho, Wo, C)  int8     same scale and zero point as x

    Source: TFLite AVERAGE_POOL_2D; `reference/integer_ops/pooling.h`: the sum of stored
    elements, divided by their number, rounded half away from zero."""

    HALVES_UP: ClassVar[bool] = False
    TFLITE = ("AVERAGE_POOL_2D",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "AveragePool") | onnx(
        OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "LpPool", "GlobalLpPool"
    )
    RELAY = _relay("avg", "qnn.avg_pool2d")
    KERNEL = "average_pool2d_s8"

    def result_type(self, inputs: Types) -> TensorType:
        y = _Pool.result_type(self, inputs)
        _require_elements(self, inputs[0])
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (x,) = inputs
        x = x[..., out.slices[3]]
        read = sliding.block(x, self.rows, self.columns, out).astype(np.int32)
        present = np.ones((*read.shape[:3], 1), np.int32)
        total = np.zeros(out.shape, np.int32)
        count = np.zeros((*out.shape[:3], 1), np.int32)
        for _, _, tap in sliding.taps(read, x.shape, self.rows, self.columns, out):
            total += tap
        for _, _, tap in sliding.taps(present, x.shape, self.rows, self.columns, out):
            count += tap
        bounds = self.activation.bounds(site.output)
        return average(total, count, bounds, halves_up=self.HALVES_UP)

    def halves(self, site: Site) -> Halves | None:
        """Sums of the only output row, accumulated over rows, then divided."""
        x = site.x
        if self.HALVES_UP or site.output.shape[2] > MOST_ROWS:  # there is a divisor for each column
            return None
        rows = rows_of_one(self.rows, x.shape)
        columns = range(site.output.shape[2])
        counts = tuple(rows * self.columns.taps_inside(c, x.shape[2]) for c in columns)
        if min(counts) == 0:
            return None
        sums = RunningSum(rows, self.columns)
        return Halves(sums, sums.result_type((x,)), AverageLast(counts, self.activation))


@frozen
class UnsignedAveragePool2D(AveragePool2D):
    """As AveragePool2D, with halves rounded up: as the mean of uint8 elements is, which are less by
    128 here.

    Source: TFLite AVERAGE_POOL_2D; `reference/pooling.h`."""

    HALVES_UP = True
    TFLITE = ()
    ONNX = MappingProxyType({})
    RELAY = ()
    KERNEL = "average_pool2d_u8"


COARSEST = 1.5
"""Ratio of the scales of input and output up to which an average may be rounded to the one and then
to the other: both together err by less than 1.5 steps of the output, so that the result is within a
step of the average that is rounded once."""


def _onnx_average(node: OnnxNode) -> Nodes:
    """ONNX AveragePool.  Where every window counts as many elements it is a depthwise convolution
    by ones, unless input and output have one scale; that rounds once.

    `ceil_mode` adds cells beyond the padding, which do not count: torch and onnxruntime agree.  In
    QLinearAveragePool (`count_beyond_pads`) with `count_include_pad` they do: there onnxruntime
    always divides by the size of the window."""
    x = node.x
    rows, columns = onnx_pooling_windows(_stated(node))
    full_rows, full_columns = onnx_pooling_windows(node)
    if node.integer("count_beyond_pads"):
        rows, columns = full_rows, full_columns
    padding = (rows.before, rows.after, columns.before, columns.after)
    if node.integer("count_include_pad") and any(padding):
        if (rows, columns) == (full_rows, full_columns):
            yield convolutions.averaged(node, x, rows, columns, rows.size * columns.size)
            return
        pad = _pads(rows, columns, x.zero_point)
        made = node.between(pad, x, label="padded", like=x.quantisation)
        yield made
        x = made.output
        full_rows, full_columns = _less(full_rows, rows), _less(full_columns, columns)
    yield from _over_present(node, x, full_rows, full_columns)


def _pads(rows: Window, columns: Window, element: int) -> Pad:
    before, after = (0, rows.before, columns.before, 0), (0, rows.after, columns.after, 0)
    return Pad(before, after, element)


def _less(window: Window, padded: Window) -> Window:
    """The window on an axis with the padding of another one."""
    return replace(window, before=0, after=window.after - padded.after)


def _plain_average(node: OnnxNode) -> Nodes:
    """ONNX AveragePool of real numbers; see `_onnx_average`."""
    real = RealNodes(node)
    x = real.input(0)
    windows = onnx_pooling_windows(_stated(node))
    (rows, columns), divisor = onnx_pooling_windows(node), 0
    if node.integer("count_include_pad"):
        if windows == (rows, columns):
            divisor = rows.size * columns.size
        else:
            x = real.apply(_pads(*windows, 0), x)
            rows, columns = map(_less, (rows, columns), windows)
    op = PlainAveragePool2D(rows, columns, UNLIMITED, divisor)
    return real.result(real.apply(op, x))


def _norm_pool(node: OnnxNode) -> Nodes:
    """ONNX LpPool and GlobalLpPool, which add the powers of the elements under a window."""
    real, p = RealNodes(node), node.integer("p", 2)
    require(p > 0, f"p is {p}, must be positive")
    powers = real.apply(PlainAbs(), real.input(0))
    if p > 1:
        powers = real.apply(Power(), powers, real.constant(float(p), "p"))
    windows = onnx_pooling_windows(node)
    total = real.apply(PlainAveragePool2D(*windows, UNLIMITED, 1), powers)
    if p > 1:
        total = real.apply(Power(), total, real.constant(1 / p, "inverse"))
    return real.result(total)


def _over_present(node: OnnxNode, x: Value, rows: Window, columns: Window) -> Nodes:
    """Nodes that average the elements under each window that are not padding."""
    _, height, width, _ = x.shape
    counts = tuple(map(_counts, (rows, columns), (height, width)))
    uniform = all(len(set(of_axis)) == 1 for of_axis in counts)
    ratio = x.scale / node.y.scale
    one_scale = x.quantisation == node.y.quantisation
    if one_scale or (ratio <= COARSEST and not uniform):
        yield from requantised(node, AveragePool2D(rows, columns), x)
    elif uniform:
        yield convolutions.averaged(node, x, rows, columns, counts[0][0] * counts[1][0])
    else:
        yield from _in_parts(node, x, rows, columns, counts)


def _counts(window: Window, extent: int) -> tuple[int, ...]:
    """Number of elements under the window, by output index."""
    found: list[int] = []
    for o in range(window.outputs(extent)):
        first = o * window.stride - window.before
        taps = range(first, first + window.extent, window.dilation)
        found.append(sum(0 <= tap < extent for tap in taps))
    return tuple(found)


def _in_parts(
    node: OnnxNode,
    x: Value,
    rows: Window,
    columns: Window,
    counts: tuple[tuple[int, ...], ...],
) -> Nodes:
    """Averages by parts of the output in which every window counts as many elements."""
    name, (batch, _, _, channels) = node.y.name, x.shape
    bands: list[Value] = []
    for h in _runs(counts[0]):
        pieces: list[Value] = []
        for w in _runs(counts[1]):
            out = Region.of((0, batch), h, w, (0, channels))
            windows = sliding.cropped(rows, columns, x.shape, out)
            read = sliding.needs(rows, columns, x.shape, out)
            require(windows is not None, "a window lies in the padding alone: it has no average")
            assert windows is not None
            label = f"part_{h[0]}_{w[0]}"
            cut = node.between(
                part(read.lower, read.shape),
                x,
                label=f"{label}/input",
                like=x.quantisation,
            )
            yield cut
            mean = replace(node.y, name=f"{name}/{label}")
            count = counts[0][h[0]] * counts[1][w[0]]
            made = convolutions.averaged(
                replace(node, outputs=(mean,)), cut.output, *windows, count
            )
            yield made
            pieces.append(made.output)
        band = node.between(
            Concatenation(2), *pieces, label=f"rows_{h[0]}", like=node.y.quantisation
        )
        yield band
        bands.append(band.output)
    yield node.made(Concatenation(1), *bands)


def _runs(counts: tuple[int, ...]) -> Iterator[Interval]:
    """Intervals of indices that have one count."""
    lower = 0
    for _, run in groupby(counts):
        upper = lower + len(list(run))
        yield lower, upper
        lower = upper


@frozen
class MaxPool2D(_QuantisedPool):
    """The maximum over a sliding window.

        x  (N, H,  W,  C)  int8
        y  (N, Ho, Wo, C)  int8     same scale and zero point as x

    Source: TFLite MAX_POOL_2D; `reference/integer_ops/pooling.h`."""

    TFLITE = ("MAX_POOL_2D",)
    ONNX = onnx(
        OnnxName(AxisOrder.CHANNELS_LAST, carries=True, floats=True), "MaxPool", "GlobalMaxPool"
    )
    RELAY = _relay("max")
    KERNEL = "max_pool2d_s8"

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (x,) = inputs
        read = sliding.block(x[..., out.slices[3]], self.rows, self.columns, out)
        largest = np.full(out.shape, -128, np.int8)
        for _, _, tap in sliding.taps(read, x.shape, self.rows, self.columns, out, -128):
            np.maximum(largest, tap, out=largest)
        least, most = self.activation.bounds(site.output)
        return np.clip(largest, np.int8(least), np.int8(most))

    def halves(self, site: Site) -> Halves | None:
        """Running maxima of the only output row; the last row is the result."""
        x = site.x
        rows = rows_of_one(self.rows, x.shape)
        if rows == 0:
            return None
        maxima = RunningMax(rows, self.columns, self.activation)
        total = replace(maxima.result_type((x,)), quantisation=site.output.quantisation)
        return Halves(maxima, total, part((0, rows - 1, 0, 0), site.output.shape))


@frozen
class PlainAveragePool2D(_PlainPool):
    """The mean of real numbers under a sliding window: their sum, added in order, divided by their
    number without padding, or by `divisor` unless that is 0."""

    divisor: int = 0

    KERNEL = "average_pool2d_f32"

    RELAY = _relay("avg")

    def result_type(self, inputs: Types) -> TensorType:
        y = _Pool.result_type(self, inputs)
        if not self.divisor:
            _require_elements(self, inputs[0])
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (x,) = inputs
        total = np.zeros(out.shape, np.float32)
        count = np.zeros((*out.shape[:3], 1), np.float32)
        with np.errstate(all="ignore"):
            for at, tap in self.taps(x, out):
                total[at] += tap
                count[at] += 1
            return self.limits.applied(total / (np.float32(self.divisor) or count))

    def kernel(self, site: Site) -> Kernel:
        found = _Pool.kernel(self, site)
        return replace(found, params=members(found.params, divisor=self.divisor))


@frozen
class PlainMaxPool2D(_PlainPool):
    """The largest real number under a sliding window; NaN is passed over."""

    KERNEL = "max_pool2d_f32"

    RELAY = _relay("max")

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        largest = np.full(out.shape, self.limits.array(self.ELEMENTS)[0])
        for at, tap in self.taps(inputs[0], out):
            largest[at] = np.where(largest[at] < tap, tap, largest[at])
        return self.limits.applied(largest)


def from_foreign(node: ForeignNode) -> Nodes:
    is_max, clamp = node.name == "MAX_POOL_2D", fused_activation(node)
    if node.x.dtype is DType.FLOAT32:
        plain = PlainMaxPool2D if is_max else PlainAveragePool2D
        yield unary_node(plain(*windows(node), Limits.of(clamp)), node, DType.FLOAT32)
        return
    mean = UnsignedAveragePool2D if node.unsigned else AveragePool2D
    quantised = MaxPool2D if is_max else mean
    yield unary_node(quantised(*windows(node), clamp), node)


def _volume_pool(node: OnnxNode) -> Nodes:
    """ONNX MaxPool, AveragePool and LpPool of volumes of real numbers."""
    new = RealNodes(node)
    x, p = new.input(0), node.integer("p", 2)
    image, planes = (
        onnx_pooling_windows(volumes.of_axes(node, axes, x))
        for axes in (volumes.IMAGE, volumes.PLANES)
    )
    if node.name.endswith("MaxPool"):
        op = partial(PlainMaxPool2D, limits=UNLIMITED)
        return new.result(volumes.pooled(new, x, image, planes[0], op))
    is_norm = node.name.endswith("LpPool")
    if is_norm:
        x = new.apply(Power(), new.apply(PlainAbs(), x), float(p))
    op = partial(PlainAveragePool2D, limits=UNLIMITED, divisor=1)
    total = volumes.pooled(new, x, image, planes[0], op)
    if is_norm:
        return new.result(new.apply(Power(), total, 1 / p))
    stated = [
        window
        for axes in (volumes.PLANES, volumes.IMAGE)
        for window in onnx_pooling_windows(volumes.of_axes(_stated(node), axes, x))[: len(axes)]
    ]
    counts = np.ones((), np.int64)
    for window, told, extent in zip((planes[0], *image), stated, x.shape[1:4], strict=True):
        ends = (told.before, told.after) if node.integer("count_include_pad") else (0, 0)
        counts = np.multiply.outer(counts, volumes.counts(window, extent, *ends))
    require(bool(counts.all()), "a window lies in the padding alone: it has no average")
    divisors = new.constant(counts[None, ..., None], "counts")
    return new.result(new.apply(PlainDiv(), total, divisors))


def from_onnx(node: OnnxNode) -> Nodes:
    if node.x.rank == volumes.RANK:
        return _volume_pool(node)
    if node.name.endswith("LpPool"):
        return _norm_pool(node)
    if node.name == "AveragePool":
        return _plain_average(node) if is_real(node) else _onnx_average(node)
    if is_real(node):
        real = RealNodes(node)
        op = PlainMaxPool2D(*onnx_pooling_windows(node), UNLIMITED)
        return real.result(real.apply(op, real.input(0)))
    return requantised(node, MaxPool2D(*onnx_pooling_windows(node)), node.x)
