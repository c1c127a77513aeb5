"""Selection: base of operators whose output elements are input elements or a fill value.

The input index is determined axis by axis: slices, padding, tiling, reversal, gathering,
nearest-neighbour resizing.

    x  any shape, any type
    y  y[o0, o1, ...] = x[m0(o0), m1(o1), ...], or `fill` where an index is outside
"""

from __future__ import annotations

import math

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site, Table, row_axis
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.axis_map import OUTSIDE, AxisMap, StridedMap
from penstock.opkit.channel_runs import pixel_kernel
from penstock.opkit.checks import require

Maps = tuple[AxisMap, ...]


def selected_type(inputs: tuple[TensorType, ...], shape: tuple[int, ...]) -> TensorType:
    """Output type of a selection with `shape` from one input.  Raises ModelError."""
    require(len(inputs) == 1, f"selection has {len(inputs)} inputs, must have 1")
    require(
        inputs[0].rank == len(shape),
        f"input has shape {list(inputs[0].shape)}, its rank must be {len(shape)}",
    )
    return TensorType(shape, inputs[0].dtype)


MOST_LISTED = 2**20
"""Indices that a table lists, at most: a megabyte of flash and more."""


def listed_type(inputs: tuple[TensorType, ...], shape: tuple[int, ...]) -> TensorType:
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

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
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

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        triples = zip(self.maps(site), out.intervals, site.inputs[0].shape, strict=True)
        return (Region.of(*(axis.needs(part, extent) for axis, part, extent in triples)),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        pairs = zip(self.maps(site), site.inputs[0].shape, strict=True)
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
    x, y = broadcast.extended(site.inputs[0].shape), broadcast.extended(site.output.shape)
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
    return Kernel("strided", params=tuple(params), by_rows=True)


def _listed_kernel(site: Site, maps: Maps, fill: int) -> Kernel:
    x, y = site.inputs[0].shape, site.output.shape
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
    if len(channels) == in_c and (channels == np.arange(in_c)).all():  # a pixel is one element
        width, channels = in_c, channels[:1]
    return Kernel(
        "listed",
        params=(
            ("element_bytes", site.output.dtype.size_bytes * width),
            ("fill", fill),
            ("out_w", len(columns)),
            ("out_c", out_c // width),
            ("in_c", in_c // width),
        ),
        tables=(
            ("rows", Table.of(rows.astype(np.int32))),
            ("columns", Table.of(columns.astype(np.int32))),
            ("channels", Table.of(channels.astype(np.int32))),
        ),
        by_rows=True,
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
