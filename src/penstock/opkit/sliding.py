"""Sliding windows over rows and columns of (N, H, W, C), for convolutions and pooling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import OperatorDefaults, Site
from penstock.ir.region import Interval, Region
from penstock.ir.stated_attribute import StatedAttribute
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.checks import require
from penstock.opkit.window import Window, stated_windows


@dataclass(frozen=True, slots=True)
class Sliding(OperatorDefaults):
    """Base of operators with a window along the rows and one along the columns of input 0."""

    rows: Window
    columns: Window

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        windows = stated_windows(self.rows, self.columns)
        return (*windows, *OperatorDefaults.stated_attributes(self))

    def exchanged(self, rank: int) -> Self:
        return replace(self, rows=self.columns, columns=self.rows)

    def cropped(self, site: Site, out: Region) -> Self | None:
        windows = cropped(self.rows, self.columns, site.inputs[0].shape, out)
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
    across = tuple(_meeting(columns, w, shape[2]))
    for k, at_h, source_h in _meeting(rows, h, shape[1]):
        for l, at_w, source_w in across:  # noqa: E741  (style guide: O K L I are weights' axes)
            found = read[:, source_h, source_w]
            if found.shape == size:
                yield k, l, found
                continue
            padded = np.full(size, fill, read.dtype)
            padded[:, at_h, at_w] = found
            yield k, l, padded


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


def window_params(rows: Window, columns: Window) -> tuple[tuple[str, int], ...]:
    """Kernel parameters of the two windows."""
    return (("kernel_h", rows.size), ("kernel_w", columns.size), *tap_params(rows, columns))


def tap_params(rows: Window, columns: Window) -> tuple[tuple[str, int], ...]:
    """Kernel parameters of where the taps of two windows are, without the windows' sizes."""
    return (
        ("stride_h", rows.stride),
        ("stride_w", columns.stride),
        ("dilation_h", rows.dilation),
        ("dilation_w", columns.dilation),
        ("pad_top", rows.before),
        ("pad_left", columns.before),
    )


def shape_params(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Kernel parameters of the shapes of input and output, both (N, H, W, C)."""
    return (
        ("in_h", x[1]),
        ("in_w", x[2]),
        ("in_c", x[3]),
        ("out_h", y[1]),
        ("out_w", y[2]),
        ("out_c", y[3]),
    )


def channel_fraction(spatial: Affine, multiplier: int) -> Affine:
    """`spatial` extended to channels: `multiplier` output channels read one input channel,
    [lower / multiplier, upper / multiplier) rounded outwards."""
    rows = (*spatial.matrix[:3], (0, 0, 0, Fraction(1, multiplier), 0))
    return Affine(rows, spatial.offset)
