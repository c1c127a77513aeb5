"""Rearrangement: base of operators that permute elements, such as transposes and space-to-depth.

Each input axis is split into parts, and each output axis merges some of the parts in another order.
An axis that only moves is a single part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine, Number
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
from penstock.opkit.checks import require_count

INNER_LOOPS = 3
"""Loops of the kernel within a row."""


@dataclass(frozen=True)
class AxisGrouping:
    """How axes of the input become axes of the output.

    `splits`: extents of the parts of each input axis, outermost first; parts are numbered across
    axes.  `merges`: numbers of the parts of each output axis, outermost first."""

    splits: tuple[tuple[int, ...], ...]
    merges: tuple[tuple[int, ...], ...]

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Extents of the parts, by part number."""
        return tuple(extent for axis in self.splits for extent in axis)

    @cached_property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Part numbers of each input axis."""
        ends = np.cumsum([len(axis) for axis in self.splits]).tolist()
        return tuple(
            tuple(range(end - len(axis), end)) for axis, end in zip(self.splits, ends, strict=True)
        )

    @property
    def result_shape(self) -> tuple[int, ...]:
        return tuple(math.prod(self.extents[part] for part in axis) for axis in self.merges)

    def within(self, axis: tuple[int, ...], part: int) -> int:
        """Number of indices of an axis, given by its part numbers, per index of `part`."""
        return self._within[axis, part]

    @cached_property
    def _within(self) -> Mapping[tuple[tuple[int, ...], int], int]:
        return {
            (axis, part): math.prod(self.extents[p] for p in axis[k + 1 :])
            for axis in (*self.numbers, *self.merges)
            for k, part in enumerate(axis)
        }


class Rearrangement(OperatorDefaults):
    """Base of operators that permute elements by an `AxisGrouping`."""

    __slots__ = ()

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        """The grouping for an input of this shape.  Raises ModelError if the shape does not fit."""
        raise NotImplementedError

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "rearrangement")
        return TensorType(self.layout(inputs[0].shape).result_shape, inputs[0].dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        layout = self.layout(site.x.shape)
        order = tuple(part for axis in layout.merges for part in axis)
        moved = inputs[0].reshape(layout.extents).transpose(order)
        return moved.reshape(layout.result_shape)[out.slices]

    def needs(self, site: Site, out: Region) -> Regions:
        layout = _layout(self, site.x.shape)
        if out.empty:
            return (Region.whole((0,) * site.x.rank),)
        parts: dict[int, Interval] = {}
        for axis, interval in zip(layout.merges, out.intervals, strict=True):
            for part in axis:
                parts[part] = _seen(interval, layout.within(axis, part), layout.extents[part])
        intervals: list[Interval] = []
        for axis in layout.numbers:
            first = sum(parts[part][0] * layout.within(axis, part) for part in axis)
            last = sum(parts[part][1] * layout.within(axis, part) for part in axis)
            intervals.append((first, last + 1))
        return (Region.of(*intervals),)

    def affine(self, site: Site) -> Affines:
        layout = self.layout(site.x.shape)
        rank = len(layout.merges)
        rows: list[tuple[Number, ...]] = []
        for axis, extent in zip(layout.numbers, site.x.shape, strict=True):
            row: list[Number] = [*(0,) * rank, extent]
            leading = [j for j, merged in enumerate(layout.merges) if merged[0] == axis[0]]
            for j in leading:
                inner = layout.within(axis, axis[0])
                outer = layout.within(layout.merges[j], axis[0])
                if inner == 1 or outer == 1:
                    row[j], row[-1] = Fraction(inner, outer), 0
            rows.append(tuple(row))
        return (Affine(tuple(rows), (0,) * len(rows)),)

    def kernel(self, site: Site) -> Kernel:
        x = site.x
        layout = self.layout(x.shape)
        steps = _steps(layout, x)
        rows_end = row_axis(len(layout.merges)) + 1 if len(layout.merges) > 1 else 0
        # Tables describe the loops over rows, of which there may be any number.
        outer = [steps[part] for axis in layout.merges[:rows_end] for part in axis] or [_Step()]
        inner = _joined([steps[part] for axis in layout.merges[rows_end:] for part in axis])
        run_bytes = x.dtype.size_bytes
        if inner and (inner[-1].rows, inner[-1].bytes) == (0, run_bytes):
            run_bytes *= inner.pop().extent
        assert len(inner) <= INNER_LOOPS, f"a row is {len(inner)} nested loops"
        inner = [_Step()] * (INNER_LOOPS - len(inner)) + inner
        params = [("run_bytes", run_bytes), ("outer", len(outer))]
        for k, step in enumerate(inner):
            params += [(f"extent{k}", step.extent), (f"rows{k}", step.rows)]
            params += [(f"bytes{k}", step.bytes)]
        return row_kernel(
            "rearrange",
            params,
            extents=Table.integers([step.extent for step in outer]),
            rows=Table.integers([step.rows for step in outer]),
            bytes=Table.integers([step.bytes for step in outer]),
        )


@lru_cache(maxsize=1024)
def _layout(op: Rearrangement, x: tuple[int, ...]) -> AxisGrouping:
    """The operator's grouping, memoised because schedulers query many regions."""
    return op.layout(x)


def _seen(interval: Interval, inner: int, extent: int) -> tuple[int, int]:
    """The least and the greatest value of `index // inner % extent` over the indices of an
    interval; the whole range if the interval wraps around."""
    first, last = interval[0] // inner, (interval[1] - 1) // inner
    if first // extent < last // extent:
        return 0, extent - 1
    return first % extent, last % extent


@frozen
class _Step:
    """Distance in the input of one index of a part: rows, and bytes within a row."""

    extent: int = 1
    rows: int = 0
    bytes: int = 0


def _steps(layout: AxisGrouping, x: TensorType) -> tuple[_Step, ...]:
    rows_end = row_axis(x.rank) + 1 if x.rank > 1 else 0
    found: list[_Step] = []
    for k, axis in enumerate(layout.numbers):
        for part in axis:
            extent, inner = layout.extents[part], layout.within(axis, part)
            if k < rows_end:
                rows = inner * math.prod(x.shape[k + 1 : rows_end])
                found.append(_Step(extent, rows=rows))
            else:
                size = inner * math.prod(x.shape[k + 1 :]) * x.dtype.size_bytes
                found.append(_Step(extent, bytes=size))
    return tuple(found)


def _joined(steps: list[_Step]) -> list[_Step]:
    """Steps of extent above 1; adjacent steps that form one arithmetic progression are merged."""
    found: list[_Step] = []
    for step in steps:
        before = found[-1] if found else None
        if step.extent == 1:
            continue
        if before and (before.rows, before.bytes) == (
            step.rows * step.extent,
            step.bytes * step.extent,
        ):
            found[-1] = _Step(before.extent * step.extent, step.rows, step.bytes)
        else:
            found.append(step)
    return found
