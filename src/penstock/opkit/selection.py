"""Selection: base of operators whose output elements are input elements or a fill value.

The input index is determined axis by axis: slices, padding, tiling, reversal, gathering,
nearest-neighbour resizing.

    x  any shape, any type
    y  y[o0, o1, ...] = x[m0(o0), m1(o1), ...], or `fill` where an index is outside
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Table,
    Types,
    row_kernel,
)
from penstock.ir.tensor import Array, Interval, Region, TensorType, row_axis
from penstock.opkit import broadcast
from penstock.opkit.checks import require, require_count

Indices = NDArray[np.int64]
Number = int | Fraction
Form = tuple[Number, Number, Number]
"""(factor, extra, offset): the interval [a, b) reads [factor * a + offset, factor * b + offset +
extra)."""
OUTSIDE = -1
"""An index that reads nothing."""


@frozen
class StridedMap:
    """Output index o reads input index start + step * o; `step` may be zero or negative."""

    start: int = 0
    step: int = 1

    def indices(self, out: Interval) -> Indices:
        """Input index of every output index in `out`."""
        return self.start + self.step * np.arange(*out, dtype=np.int64)

    def needs(self, out: Interval, extent: int) -> Interval:
        """The smallest input interval that contains every index that is read; empty if none is."""
        (lower, upper), start, step = out, self.start, self.step
        if step < 0:  # the same indices in ascending order
            start, step = start + step * (lower + upper - 1), -step
        if step:
            lower, upper = max(lower, -(start // step)), min(upper, -((start - extent) // step))
        elif not 0 <= start < extent:
            upper = lower
        return (start + step * lower, start + step * (upper - 1) + 1) if lower < upper else (0, 0)

    def affine(self, extent: int) -> Form:
        """(factor, extra, offset) of the input interval; the whole axis if indices descend."""
        if self.step < 0:
            return 0, extent, 0
        return self.step, 1 - self.step, self.start


@frozen
class ListedMap:
    """Output index o reads input index entries[o].

    `factor`: approximate input step per output index; the affine bound is fitted with it."""

    entries: tuple[int, ...]
    factor: Number = 0

    def indices(self, out: Interval) -> Indices:
        """Input index of every output index in `out`."""
        return np.array(self.entries[slice(*out)], np.int64)

    def needs(self, out: Interval, extent: int) -> Interval:
        """The smallest input interval that contains every index that is read; empty if none is."""
        inside = [k for k in self.entries[slice(*out)] if 0 <= k < extent]
        return (min(inside), max(inside) + 1) if inside else (0, 0)

    def affine(self, extent: int) -> Form:
        """(factor, extra, offset) of the tightest interval that contains what is read."""
        return fitted(
            [(o, k, k + 1) for o, k in enumerate(self.entries) if 0 <= k < extent], self.factor
        )


AxisMap = StridedMap | ListedMap


def fitted(reads: list[tuple[int, int, int]], factor: Number) -> Form:
    """The tightest form of this factor for an axis whose output index o reads [lower, upper), for
    every (o, lower, upper) of `reads`.

    Bounds are rounded outwards where the form is applied, so each may lie short of its integer by
    what rounding adds: all but one grain, where the grain is 1 / denominator of the factor."""
    if not reads:
        return 0, 0, 0
    slack = 1 - Fraction(1, Fraction(factor).denominator)
    offset = min(lower - factor * o for o, lower, _ in reads) + slack
    end = max(upper - factor * (o + 1) for o, _, upper in reads) - slack
    return factor, end - offset, offset


MOST_BYTES, MOST_WORD_BYTES = 24, 128
"""Maximum size of a run: if it is copied byte by byte, and in words of 4 bytes.  A copy with
`memcpy` takes about a hundred cycles even if it is short, and is faster for longer runs."""


def pixel_kernel(site: Site, maps: tuple[AxisMap, ...], fill: int) -> Kernel | None:
    """A kernel that copies consecutive channels of each pixel and fills those after them.

    maps: how the axes of the output map to those of the input (`Selection.maps`).
    fill: the element that fills the channels after those of the input.

    The result is None if another axis changes, if the number of channels is the same, if the output
    begins with filled channels, or if the runs are too long."""
    x, y = site.x, site.output
    last = maps[-1] if len(maps) > 2 else None
    if not isinstance(last, StridedMap) or last.step != 1 or last.start < 0:
        return None
    if any(axis != StridedMap() for axis in maps[:-1]) or x.shape[:-1] != y.shape[:-1]:
        return None
    if x.shape[-1] == y.shape[-1]:
        return None  # whole rows are copied
    size, (width, channels) = x.dtype.size_bytes, y.shape[-2:]
    run_bytes = (min(x.shape[-1], last.start + channels) - last.start) * size
    if not is_short(run_bytes):
        return None
    return _kernel(
        run_bytes,
        (width * channels * size, width),
        (0, x.shape[-1] * size),
        (0, channels * size),
        start=last.start * size,
        fill=fill if run_bytes < channels * size else None,
    )


def pack_kernel(site: Site, packs: int, *, packing: bool) -> Kernel | None:
    """A kernel that groups the channels of a row into packs, or the inverse.

    packs: the number of packs in a row.
    packing: True to group the channels, False for the inverse.

    The result is None if the runs are too long.  With one pack or one column, no element moves, so
    each row is a single run."""
    image, blocks = (site.x, site.output) if packing else (site.output, site.x)
    size, (width, channels) = image.dtype.size_bytes, image.shape[-2:]
    row_bytes, run_bytes = width * channels * size, blocks.shape[-1] * size
    if packs == 1 or width == 1:
        packs, width, run_bytes = 1, 1, row_bytes
        if row_bytes % 4:
            return None
    elif not is_short(run_bytes):
        return None
    in_image = (run_bytes, packs * run_bytes)
    in_blocks = (width * run_bytes, run_bytes)
    source, target = (in_image, in_blocks) if packing else (in_blocks, in_image)
    return _kernel(run_bytes, (row_bytes, width), source, target, pieces=packs)


def _kernel(
    run_bytes: int,
    row: tuple[int, int],
    source: tuple[int, int],
    target: tuple[int, int],
    *,
    pieces: int = 1,
    start: int = 0,
    fill: int | None = None,
) -> Kernel:
    """The kernel `channel_runs` with its parameters.

    row: the bytes of an output row, and the number of runs in a piece.
    source, target: the distances in bytes between pieces and between runs, of input and output.
    start: where the first run begins in an input row.
    fill: the element that fills the gaps between runs; None if there are none.
    """
    return row_kernel(
        "channel_runs",
        run_bytes=run_bytes,
        row_bytes=row[0],
        fills=fill is not None,
        fill=fill or 0,
        pieces=pieces,
        count=row[1],
        start=start,
        in_piece=source[0],
        in_step=source[1],
        out_piece=target[0],
        out_step=target[1],
    )


def is_short(run_bytes: int) -> bool:
    """Whether a copy in a loop is faster than `memcpy`."""
    return 0 < run_bytes <= (MOST_BYTES if run_bytes % 4 else MOST_WORD_BYTES)


Maps = tuple[AxisMap, ...]


def selected_type(inputs: Types, shape: tuple[int, ...]) -> TensorType:
    """Output type of a selection with `shape` from one input.  Raises ModelError."""
    require_count(inputs, 1, "selection")
    require(
        inputs[0].rank == len(shape),
        f"input has shape {list(inputs[0].shape)}, its rank must be {len(shape)}",
    )
    return TensorType(shape, inputs[0].dtype)


MOST_LISTED = 2**20
"""Indices that a table lists, at most: a megabyte of flash and more."""


def listed_type(inputs: Types, shape: tuple[int, ...]) -> TensorType:
    """Output type of a selection whose kernel has tables of rows, columns and channels."""
    rows = math.prod(shape[: row_axis(len(shape)) + 1])
    require(
        max(rows, *shape, 1) <= MOST_LISTED,
        f"output has shape {list(shape)}: {rows} rows; rows and extents must be at most "
        f"{MOST_LISTED}",
    )
    return selected_type(inputs, shape)


class Selection(OperatorDefaults):
    """Base of operators that map output indices to input indices axis by axis.

    Subclasses define `result_type` and `maps`."""

    __slots__ = ()

    def maps(self, site: Site) -> Maps:
        """The index map of each axis."""
        raise NotImplementedError

    def border(self) -> int:
        """The fill element; it must be 0 for element types wider than a byte."""
        return 0

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (x,) = inputs
        picked: list[Array] = []
        outside: list[Array] = []
        for axis, interval, extent in zip(self.maps(site), out.intervals, x.shape, strict=True):
            indices = axis.indices(interval)
            picked.append(np.clip(indices, 0, extent - 1))
            outside.append((indices < 0) | (indices >= extent))
        result: Array = x[np.ix_(*picked)] if picked else x.copy()
        for axis, filled in enumerate(outside):
            result[(slice(None),) * axis + (filled,)] = self.border()
        return result

    def needs(self, site: Site, out: Region) -> Regions:
        triples = zip(self.maps(site), out.intervals, site.x.shape, strict=True)
        return (Region.of(*(axis.needs(part, extent) for axis, part, extent in triples)),)

    def affine(self, site: Site) -> Affines:
        pairs = zip(self.maps(site), site.x.shape, strict=True)
        forms = [axis.affine(extent) for axis, extent in pairs]
        return (
            Affine.diagonal(
                [factor for factor, _, _ in forms],
                [extra for _, extra, _ in forms],
                [offset for _, _, offset in forms],
            ),
        )

    def kernel(self, site: Site) -> Kernel:
        """The fastest kernel that supports the maps: of short runs of channels; of strided axes, if
        the rank allows; or of indices."""
        maps = self.maps(site)
        found = pixel_kernel(site, maps, self.border())
        if found is not None:
            return found
        strided = [axis for axis in maps if isinstance(axis, StridedMap)]
        if len(strided) == len(maps) <= broadcast.RANK:
            return _strided_kernel(site, strided, self.border())
        return _listed_kernel(site, maps, self.border())


def _strided_kernel(site: Site, maps: list[StridedMap], fill: int) -> Kernel:
    x, y = broadcast.extended(site.x.shape), broadcast.extended(site.output.shape)
    # By rank, where the axes stand among N, H, W and C, as `broadcast.extended` places them.
    places = ((), (3,), (1, 3), (1, 2, 3), (0, 1, 2, 3))[len(maps)]
    axes = [StridedMap()] * broadcast.RANK
    for place, axis in zip(places, maps, strict=True):
        axes[place] = axis
    if (
        axes[2].step == 1 and axes[3] == StridedMap() and x[3] == y[3]
    ):  # a row is one run of elements
        axes[2:] = [StridedMap(), StridedMap(axes[2].start * x[3])]
        x, y = (*x[:2], 1, x[2] * x[3]), (*y[:2], 1, y[2] * y[3])
    params = [("element_bytes", site.output.dtype.size_bytes), ("fill", fill)]
    for name, axis, extent, outputs in zip("nhwc", axes, x, y, strict=True):
        params += [(f"in_{name}", extent), (f"start_{name}", axis.start)]
        params += [(f"step_{name}", axis.step)]
        params += [(f"out_{name}", outputs)] if name != "n" else []
    return row_kernel("strided", params)


def _listed_kernel(site: Site, maps: Maps, fill: int) -> Kernel:
    x, y = site.x.shape, site.output.shape
    first = row_axis(len(y)) + 1 if len(y) > 1 else 0  # axes before it count rows
    lists = [
        _marked(axis.indices((0, outputs)), extent)
        for axis, extent, outputs in zip(maps, x, y, strict=True)
    ]
    rows = _flattened(lists[:first], x[:first])
    columns = lists[-2] if len(y) >= 3 else np.zeros(1, np.int64)
    channels = lists[-1] if y else np.zeros(1, np.int64)
    in_c, out_c = (x[-1], y[-1]) if y else (1, 1)
    width = 1
    if np.array_equal(channels, np.arange(in_c)):  # a pixel is one element
        width, channels, in_c, out_c = in_c, channels[:1], 1, 1
        if len(y) >= 3 and np.array_equal(columns, np.arange(x[-2])):  # and so is a row
            width, columns = width * x[-2], columns[:1]
    return row_kernel(
        "listed",
        element_bytes=site.output.dtype.size_bytes * width,
        fill=fill,
        out_w=len(columns),
        out_c=out_c,
        in_c=in_c,
        rows=Table.integers(rows),
        columns=Table.integers(columns),
        channels=Table.integers(channels),
    )


def _marked(indices: Array, extent: int) -> Array:
    return np.where((indices >= 0) & (indices < extent), indices, OUTSIDE)


def _flattened(lists: list[Array], shape: tuple[int, ...]) -> Array:
    """Input row index of every output row, or OUTSIDE."""
    rows = np.zeros(1, np.int64)
    for indices, extent in zip(lists, shape, strict=True):
        outside = (rows[:, None] == OUTSIDE) | (indices[None, :] == OUTSIDE)
        rows = np.where(outside, OUTSIDE, rows[:, None] * extent + indices[None, :]).ravel()
    return rows
