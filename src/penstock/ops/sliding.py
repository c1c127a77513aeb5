"""What convolutions and pooling share: windows that slide over rows and columns of (N, H, W, C)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.ops.checks import require
from penstock.ops.window import Window


def require_countable(rows: Window, columns: Window, x: TensorType) -> None:
    """Raises ModelError unless the padded input and the windows can be counted through in int32, as
    the kernels do."""
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


def affine(rows: Window, columns: Window) -> Affine:
    """Affine form of `needs`: rows and columns stretched, batch and channels as they are."""
    return Affine.diagonal(
        (1, rows.stride, columns.stride, 1),
        extra=(0, rows.extent - rows.stride, columns.extent - columns.stride, 0),
        offset=(0, -rows.before, -columns.before, 0),
    )


def block(x: Array, rows: Window, columns: Window, out: Region, fill: int) -> Array:
    """The input rows and columns that `out` reads, padding filled in; batch as in `out`, channels
    whole."""
    n, h, w, _ = out.intervals
    (top, bottom), (left, right) = rows.reads(h), columns.reads(w)
    inside = Region.of((top, bottom), (left, right)).meet(Region.whole(x.shape[1:3]))
    result = np.full((n[1] - n[0], bottom - top, right - left, x.shape[3]), fill, x.dtype)
    target = inside.shift((-top, -left))
    result[:, target.slices[0], target.slices[1]] = x[
        n[0] : n[1], inside.slices[0], inside.slices[1]
    ]
    return result


def taps(
    padded: Array, rows: Window, columns: Window, out: Region
) -> Iterator[tuple[int, int, Array]]:
    """For every tap (k, l), the elements of a `block` under it, one for each index of `out`."""
    _, height, width, _ = out.shape
    for k in range(rows.size):
        for l in range(columns.size):  # noqa: E741  (style guide: O K L I are the weights' axes)
            top, left = k * rows.dilation, l * columns.dilation
            yield (
                k,
                l,
                padded[
                    :,
                    top : top + (height - 1) * rows.stride + 1 : rows.stride,
                    left : left + (width - 1) * columns.stride + 1 : columns.stride,
                ],
            )


def window_params(rows: Window, columns: Window) -> tuple[tuple[str, int], ...]:
    """Members of a kernel's parameters that describe the two windows."""
    return (
        ("kernel_h", rows.size),
        ("kernel_w", columns.size),
        ("stride_h", rows.stride),
        ("stride_w", columns.stride),
        ("dilation_h", rows.dilation),
        ("dilation_w", columns.dilation),
        ("pad_top", rows.before),
        ("pad_left", columns.before),
    )


def shape_params(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Members of a kernel's parameters that describe input (N, H, W, C) and output."""
    return (
        ("in_h", x[1]),
        ("in_w", x[2]),
        ("in_c", x[3]),
        ("out_h", y[1]),
        ("out_w", y[2]),
        ("out_c", y[3]),
    )


def channel_fraction(spatial: Affine, multiplier: int) -> Affine:
    """`spatial` with `multiplier` output channels for each input channel: [lower / multiplier,
    upper / multiplier), rounded outwards."""
    rows = (*spatial.matrix[:3], (0, 0, 0, Fraction(1, multiplier), 0))
    return Affine(rows, spatial.offset)
