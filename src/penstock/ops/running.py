"""Running: what operators share that go through the rows of an image and keep what they found.

    x  (1, H,    W,  C)
    y  (1, rows, Wo, Co)    row r: of rows 0 .. r of x, in whatever way; only its last row matters

A reduction to one row is such an operator and one that reads its last row.  So rows of x may die
once they have been added, and all rows of y may lie in one place (see `Kernel.accumulates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Op, Site, Work, row_before
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.ops import sliding
from penstock.ops.checks import require, require_dtype, require_int8, require_rank
from penstock.ops.window import Window

ROW = Window(1)
"""Each row of the output finds its part in one row of the input."""


@dataclass(frozen=True, slots=True)
class Halves:
    """An operator as two: `running` makes `total` of its inputs, `last` the output of that."""

    running: Op
    total: TensorType
    last: Op


@runtime_checkable
class Halving(Protocol):
    """An operator that may be done in two halves."""

    def halves(self, site: Site) -> Halves | None:
        """The halves; None where its attributes or types do not allow it."""
        ...


class UnderColumns:
    """What operators say alike whose row r is made of row r of x, under `columns`."""

    __slots__ = ()
    columns: Window

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (sliding.needs(ROW, self.columns, site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (sliding.affine(ROW, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.columns.size)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()


class OfLastRow:
    """What operators say alike that read the last row of a total."""

    __slots__ = ()

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (last_row(site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (last_row_affine(site.inputs[0].shape),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()


def gone_on(found: Array, inputs: Sequence[Array], out: Region, joined: np.ufunc) -> Array:
    """What each row of `out` finds, joined with all that was found above it: in the rows above of
    `found`, and before that in the last of the inputs, the output as far as it is there."""
    if out.lower[1] > 0:
        found[:, :1] = joined(found[:, :1], inputs[-1][row_before(out).slices])
    return joined.accumulate(found, axis=1, dtype=found.dtype)


def require_image(x: TensorType) -> None:
    """Raises PenstockError unless the input is one int8 image."""
    require_rank(x, (4,), "input")
    require_int8(x, "input")
    require(x.shape[0] == 1, f"input has batch {x.shape[0]}, must have 1")


def pooled_type(
    rows: int, columns: Window, inputs: tuple[TensorType, ...], dtype: DType
) -> TensorType:
    """Type of what runs down `rows` rows and under windows along columns."""
    require(len(inputs) == 1, f"running reduction has {len(inputs)} inputs, must have 1")
    x = inputs[0]
    require_image(x)
    require(0 < rows <= x.shape[1], f"{rows} rows are read, input has {x.shape[1]}")
    outputs = columns.outputs(x.shape[2])
    require(outputs > 0, f"the window does not fit into input {list(x.shape)}")
    return TensorType((1, rows, outputs, x.shape[3]), dtype)


def last_row(shape: tuple[int, ...], out: Region) -> Region:
    """Region of a total that region `out` of the output, its one last row, reads."""
    return out.replace(1, (shape[1] - 1, shape[1]) if not out.empty else (0, 0))


def column_params(columns: Window, site: Site) -> tuple[tuple[str, int], ...]:
    """Members of a kernel's parameters that describe windows along columns."""
    x, y = site.inputs[0].shape, site.output.shape
    return (
        ("in_w", x[2]),
        ("in_c", x[3]),
        ("out_w", y[2]),
        ("kernel_w", columns.size),
        ("stride_w", columns.stride),
        ("pad_left", columns.before),
    )


def total_type(inputs: tuple[TensorType, ...], dtype: DType) -> TensorType:
    """The only input, found to be a total of that element type."""
    require(len(inputs) == 1, f"there are {len(inputs)} totals, must be 1")
    x = inputs[0]
    require_rank(x, (4,), "total")
    require_dtype(x, (dtype,), "total")
    require(x.shape[0] == 1, f"total has batch {x.shape[0]}, must have 1")
    return x


def last_row_affine(shape: tuple[int, ...]) -> Affine:
    """Affine form of `last_row`."""
    return Affine.diagonal((1, 0, 1, 1), extra=(0, 1, 0, 0), offset=(0, shape[1] - 1, 0, 0))


def totals(*shape: int) -> TensorType:
    """Totals of `shape`, for samples."""
    return TensorType(shape, DType.INT32)
