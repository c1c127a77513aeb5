"""Sliding windows over rows and columns of (N, H, W, C), for convolutions and pooling.

Along an axis, output index o reads the input indices o * stride - before + k * dilation, k in
[0, size).

Source of windows of ONNX: operator specification, Conv, MaxPool and AveragePool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Self

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import OperatorDefaults, Params, Site, members
from penstock.ir.operator_facts import StatedAttribute
from penstock.ir.tensor import Array, Interval, Region, TensorType
from penstock.opkit.checks import require

MOST_STEP = 2**15
"""Strides, dilations and paddings of TFLite are smaller.

Source: TensorFlow Lite, kernels/internal/types.h: `ConvParams`, `DepthwiseParams` and
`PaddingValues` hold them as int16."""


@frozen
class Window:
    """Size, stride, dilation and padding, in elements; `before` and `after` pad the two ends."""

    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @staticmethod
    def same(extent: int, size: int, stride: int = 1, dilation: int = 1) -> Window:
        """The window with SAME padding on an axis of `extent`: one output per `stride` elements.

        The larger pad is at the end.

        Source: TFLite, `ComputePaddingHeightWidth` (padding.h).
        """
        reach = (size - 1) * dilation + 1
        total = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
        return Window(size, stride, dilation, total // 2, total - total // 2)

    @property
    def extent(self) -> int:
        """Number of elements from the first tap to the last, both included."""
        return (self.size - 1) * self.dilation + 1

    def outputs(self, extent: int) -> int:
        """Number of outputs over an axis of `extent`; 0 or less if the window does not fit."""
        return (extent + self.before + self.after - self.extent) // self.stride + 1

    def always_meets(self, extent: int) -> bool:
        """Whether every output over an axis of `extent` reads an element that is not padding."""
        outputs = self.outputs(extent)
        last = (outputs - 1) * self.stride - self.before
        # Where dilation skips no axis, the first window is the one that lies farthest outside.
        padded = -(-self.before // self.stride) if self.dilation > extent else min(self.before, 1)
        distances = (self.before - o * self.stride for o in range(min(padded, outputs)))
        return last < extent and all(
            -(-d // self.dilation) < self.size and -d % self.dilation < extent for d in distances
        )

    def taps_inside(self, out: int, extent: int) -> int:
        """Number of elements in [0, extent) that output `out` reads.

        >>> Window(3, dilation=2, before=2).taps_inside(0, extent=4)
        2
        """
        first = out * self.stride - self.before
        lower, upper = -(first // self.dilation), (extent - 1 - first) // self.dilation + 1
        return max(0, min(self.size, upper) - max(0, lower))

    def reads(self, out: Interval) -> Interval:
        """Input interval that the output interval reads, unclipped; it may include padding."""
        lower = out[0] * self.stride - self.before
        return lower, (out[1] - 1) * self.stride - self.before + self.extent

    def cropped(self, out: Interval, extent: int) -> Window:
        """The window that computes the output interval from the input interval `needs`, which is
        not empty.

        Only the padding differs: what the output interval reads outside that interval."""
        (lower, upper), (first, end) = self.reads(out), self.needs(out, extent)
        return replace(self, before=first - lower, after=max(0, upper - end))

    def needs(self, out: Interval, extent: int) -> Interval:
        """Input interval that the output interval reads, clipped to [0, extent).

        It is the hull of what the single outputs read: outputs that read padding alone, at either
        end, do not count.  If there are no others, it is empty."""
        first = max(out[0], -(-(self.before + 1 - self.extent) // self.stride))
        end = min(out[1], (extent - 1 + self.before) // self.stride + 1)
        lower, upper = self.reads((first, end)) if first < end else self.reads(out)
        lower = min(max(lower, 0), extent)
        return lower, max(lower, min(upper, extent)) if first < end else lower


def stated_windows(rows: Window, columns: Window) -> tuple[StatedAttribute, ...]:
    """The attributes of a window along rows and columns, rows first.

    >>> [one.words for one in stated_windows(Window(3, 2, after=1), Window(1))]
    ['3 × 1', '2 × 1', 'bottom 1']
    >>> stated_padding(1, 1, 1, 1).words
    '1 on each side'
    """
    return (
        StatedAttribute("kernel size", f"{rows.size} × {columns.size}"),
        StatedAttribute("stride", f"{rows.stride} × {columns.stride}"),
        *(
            [StatedAttribute("dilation", f"{rows.dilation} × {columns.dilation}")]
            if (rows.dilation, columns.dilation) != (1, 1)
            else []
        ),
        stated_padding(rows.before, rows.after, columns.before, columns.after),
    )


def stated_padding(top: int, bottom: int, left: int, right: int) -> StatedAttribute:
    """The padding of an image, without the sides that have none."""
    if top and top == bottom == left == right:
        return StatedAttribute("padding", f"{top} on each side")
    sides = {"top": top, "bottom": bottom, "left": left, "right": right}
    words = ", ".join(f"{side} {count}" for side, count in sides.items() if count)
    return StatedAttribute("padding", words or "none")


def foreign_windows(
    node: ForeignNode, input_hw: tuple[int, ...], size_hw: tuple[int, ...]
) -> tuple[Window, Window]:
    """Windows of a TFLite node along rows and columns, with SAME and VALID padding resolved."""
    padding = node.choice("padding", ("SAME", "VALID"))
    windows: list[Window] = []
    for axis, extent, size in zip("hw", input_hw, size_hw, strict=True):
        stride = node.integer(f"stride_{axis}")
        dilation = node.integer(f"dilation_{axis}_factor", 1)
        if min(stride, dilation, size) < 1:
            raise node.unsupported(
                f"stride {stride}, dilation {dilation}, window {size} along {axis}, "
                "must each be at least 1"
            )
        if padding == "SAME":
            window = Window.same(extent, size, stride, dilation)
        else:
            window = Window(size, stride, dilation)
        if max(stride, dilation, window.before, window.after) >= MOST_STEP:
            raise node.unsupported(
                f"stride {stride}, dilation {dilation}, padding {window.before} and {window.after} "
                f"along {axis}, must each be below {MOST_STEP}: the reference holds 16 bits of them"
            )
        windows.append(window)
    return windows[0], windows[1]


@frozen
class Sliding(OperatorDefaults):
    """Base of operators with a window along the rows and one along the columns of input 0."""

    rows: Window
    columns: Window

    def image_type(self, x: TensorType, channels: int) -> TensorType:
        """The output with so many channels.  Raises ModelError if the windows do not fit."""
        n, height, width, _ = x.shape
        y = (n, self.rows.outputs(height), self.columns.outputs(width), channels)
        require_countable(self.rows, self.columns, x)
        require(min(y) > 0, f"the window does not fit into input {list(x.shape)}")
        return TensorType(y, x.dtype)

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        windows = stated_windows(self.rows, self.columns)
        return (*windows, *OperatorDefaults.stated_attributes(self))

    def cropped(self, site: Site, out: Region) -> Self | None:
        windows = cropped(self.rows, self.columns, site.x.shape, out)
        return None if windows is None else replace(self, rows=windows[0], columns=windows[1])


def require_countable(rows: Window, columns: Window, x: TensorType) -> None:
    """Raises ModelError unless int32 can index the padded input and the windows, as kernels do."""
    _, height, width, channels = x.shape
    tall = height + rows.before + rows.after + rows.extent
    wide = width + columns.before + columns.after + columns.extent
    require(
        tall < 2**31 and wide * channels < 2**31,
        f"windows reach over {rows.extent} x {columns.extent} of {height} x {width} elements in "
        f"{channels} channels; with padding, rows and bytes of a row must be below 2**31",
    )


def needs(rows: Window, columns: Window, shape: tuple[int, ...], out: Region) -> Region:
    """Region of an input of `shape` that region `out` reads; channels as in `out`."""
    n, h, w, c = out.intervals
    return Region.of(n, rows.needs(h, shape[1]), columns.needs(w, shape[2]), c)


def cropped(
    rows: Window, columns: Window, shape: tuple[int, ...], out: Region
) -> tuple[Window, Window] | None:
    """The windows that compute region `out` from the region `needs` of an input of `shape`; None if
    the region reads only padding."""
    if needs(rows, columns, shape, out).empty:
        return None
    _, h, w, _ = out.intervals
    return rows.cropped(h, shape[1]), columns.cropped(w, shape[2])


def affine(rows: Window, columns: Window) -> Affine:
    """Affine form of `needs`; batch and channels are the identity."""
    return Affine.diagonal(
        (1, rows.stride, columns.stride, 1),
        extra=(0, rows.extent - rows.stride, columns.extent - columns.stride, 0),
        offset=(0, -rows.before, -columns.before, 0),
    )


def block(x: Array, rows: Window, columns: Window, out: Region) -> Array:
    """The input rows and columns that `out` reads, without padding; batch as in `out`, channels
    whole."""
    n, h, w, _ = out.intervals
    (top, bottom), (left, right) = rows.needs(h, x.shape[1]), columns.needs(w, x.shape[2])
    return x[n[0] : n[1], top:bottom, left:right]


def taps(
    read: Array, shape: tuple[int, ...], rows: Window, columns: Window, out: Region, fill: int = 0
) -> Iterator[tuple[int, int, Array]]:
    """Yields, per tap (k, l) that meets the input, the elements of `block` at each index of `out`.

    `shape`: shape of the input.  `fill`: value of padding, which must not change the caller's
    result, because taps that meet padding alone are omitted."""
    _, h, w, _ = out.intervals
    size = (read.shape[0], h[1] - h[0], w[1] - w[0], read.shape[3])
    for k, l, at, found in taps_inside(  # noqa: E741  (style guide: O K L I are weights' axes)
        read, shape, rows, columns, out
    ):
        if found.shape == size:
            yield k, l, found
            continue
        padded = np.full(size, fill, read.dtype)
        padded[at] = found
        yield k, l, padded


def taps_inside(
    read: Array, shape: tuple[int, ...], rows: Window, columns: Window, out: Region
) -> Iterator[tuple[int, int, tuple[slice, slice, slice], Array]]:
    """Yields, per tap (k, l) that meets the input, where in `out` it does, over batch, rows and
    columns, and the elements of `block` there.  `shape`: shape of the input."""
    _, h, w, _ = out.intervals
    across = tuple(_meeting(columns, w, shape[2]))
    for k, at_h, source_h in _meeting(rows, h, shape[1]):
        for l, at_w, source_w in across:  # noqa: E741
            yield k, l, (slice(None), at_h, at_w), read[:, source_h, source_w]


def _meeting(window: Window, out: Interval, extent: int) -> Iterator[tuple[int, slice, slice]]:
    """Each tap that meets an axis of `extent`, with the part of the output interval where it does,
    and the elements that it reads there, relative to the first one that the interval reads."""
    stride, before = window.stride, window.before
    first = window.needs(out, extent)[0]
    lower = max(0, -((out[1] - 1) * stride - before) // window.dilation)
    upper = min(window.size, (extent - 1 - out[0] * stride + before) // window.dilation + 1)
    for tap in range(lower, upper):
        offset = tap * window.dilation - before
        start = max(out[0], -(offset // stride))
        end = min(out[1], (extent - 1 - offset) // stride + 1)
        if start < end:
            source = start * stride + offset - first
            last = source + (end - start - 1) * stride
            yield tap, slice(start - out[0], end - out[0]), slice(source, last + 1, stride)


def params(site: Site, rows: Window, columns: Window) -> Params:
    """Kernel parameters of shapes and windows."""
    return members(shape_params(site.x.shape, site.output.shape), window_params(rows, columns))


def window_params(rows: Window, columns: Window) -> Params:
    """Kernel parameters of the two windows."""
    return (("kernel_h", rows.size), ("kernel_w", columns.size), *tap_params(rows, columns))


def tap_params(rows: Window, columns: Window) -> Params:
    """Kernel parameters of where the taps of two windows are, without the windows' sizes."""
    return members(
        stride_h=rows.stride,
        stride_w=columns.stride,
        dilation_h=rows.dilation,
        dilation_w=columns.dilation,
        pad_top=rows.before,
        pad_left=columns.before,
    )


def shape_params(x: tuple[int, ...], y: tuple[int, ...]) -> Params:
    """Kernel parameters of the shapes of input and output, both (N, H, W, C)."""
    return members(in_h=x[1], in_w=x[2], in_c=x[3], out_h=y[1], out_w=y[2], out_c=y[3])


def channel_fraction(spatial: Affine, multiplier: int) -> Affine:
    """`spatial` extended to channels: `multiplier` output channels read one input channel,
    [lower / multiplier, upper / multiplier) rounded outwards."""
    rows = (*spatial.matrix[:3], (0, 0, 0, Fraction(1, multiplier), 0))
    return Affine(rows, spatial.offset)


MOST = 2**31
AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def pair(
    node: OnnxNode, attribute: str, default: tuple[int, ...] = (1, 1), least: int = 1
) -> tuple[int, int]:
    """An attribute as (rows, columns); 1-D operators have the default for columns."""
    values = node.integers(attribute, default)
    require(
        len(values) in (1, 2) and all(least <= value < MOST for value in values),
        f"attribute {attribute} is {list(values)}, must be one or two numbers of at least {least}",
    )
    return values[0], values[1] if len(values) == 2 else default[1]


def windows(node: OnnxNode, size: tuple[int, int]) -> tuple[Window, Window]:
    """Windows of `size` along rows and columns of input 0, (N, H, W, C).  Resolves SAME padding."""
    x = node.x.type
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    plain = tuple(Window(size[a], strides[a], dilations[a]) for a in range(2))
    how = node.text("auto_pad", "NOTSET", AUTO_PADS)
    if how == "VALID":
        rows, columns = plain
    elif how == "NOTSET":
        rows, columns = _padded(node, plain)
    else:
        same = tuple(
            Window.same(x.shape[a + 1], size[a], strides[a], dilations[a]) for a in range(2)
        )
        rows, columns = same if how == "SAME_UPPER" else tuple(map(_odd_pad_first, same))
    if node.integer("ceil_mode"):
        rows, columns = _up(rows, x.shape[1]), _up(columns, x.shape[2])
    return rows, columns


def _padded(node: OnnxNode, plain: tuple[Window, ...]) -> tuple[Window, ...]:
    """Windows padded by the attribute `pads`, which lists starts of all axes, then ends."""
    pads = node.integers("pads", (0, 0, 0, 0))
    require(
        len(pads) in (2, 4) and all(0 <= pad < MOST for pad in pads),
        f"attribute pads is {list(pads)}, must be a number of at least 0 for each end of each axis",
    )
    axes = len(pads) // 2
    return tuple(
        replace(window, before=pads[a], after=pads[a + axes]) if a < axes else window
        for a, window in enumerate(plain)
    )


def _odd_pad_first(window: Window) -> Window:
    return replace(window, before=window.after, after=window.before)


def _up(window: Window, extent: int) -> Window:
    """The window with a partial last output (`ceil_mode`), unless it would start in padding."""
    total = extent + window.before + window.after - window.extent
    outputs = -(-total // window.stride) + 1
    if (outputs - 1) * window.stride >= extent + window.before:
        outputs -= 1
    missing = (outputs - 1) * window.stride - total
    return replace(window, after=window.after + max(0, missing))
