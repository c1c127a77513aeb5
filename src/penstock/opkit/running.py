"""Running reductions: operators that accumulate over the rows of an image.

    x  (1, H,    W,  C)
    y  (1, rows, Wo, Co)    row r reduces rows 0 .. r of x; only the last row is a result

A reduction to one row is split into a running reduction and an operator on its last row.  A row of
x is then dead once it is accumulated, and all rows of y may share storage (`Kernel.accumulates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Op, OperatorDefaults, Site, Work, row_before
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import sliding
from penstock.opkit.checks import require, require_dtype, require_int8, require_rank
from penstock.opkit.sliding import Window

ROW = Window(1)
"""Each row of the output finds its part in one row of the input."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A reduction split in two: `running` computes `total` from the inputs, `last` the output."""

    running: Op
    total: TensorType
    last: Op


@runtime_checkable
class Halving(Protocol):
    """An operator that may be split in two."""

    def halves(self, site: Site) -> Halves | None:
        """The two operators; None if attributes or types do not allow the split."""
        ...


class UnderColumns(OperatorDefaults):
    """Region propagation of operators whose row r reads row r of x, under windows `columns`."""

    __slots__ = ()
    columns: Window

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (sliding.needs(ROW, self.columns, site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (sliding.affine(ROW, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.columns.size)


class OfLastRow(OperatorDefaults):
    """Region propagation of operators that read the last row of a total."""

    __slots__ = ()

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (last_row(site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (last_row_affine(site.inputs[0].shape),)


def gone_on(found: Array, inputs: Sequence[Array], out: Region, joined: np.ufunc) -> Array:
    """Each row of `found` combined with all rows before it.

    Rows before `out` are already in the last input, which is the output computed so far."""
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
    """Output type of a running reduction over `rows` rows, under windows along columns."""
    require(len(inputs) == 1, f"running reduction has {len(inputs)} inputs, must have 1")
    x = inputs[0]
    require_image(x)
    require(0 < rows <= x.shape[1], f"{rows} rows are read, input has {x.shape[1]}")
    outputs = columns.outputs(x.shape[2])
    require(outputs > 0, f"the window does not fit into input {list(x.shape)}")
    return TensorType((1, rows, outputs, x.shape[3]), dtype)


def last_row(shape: tuple[int, ...], out: Region) -> Region:
    """Region of the total that region `out` of the output reads."""
    return out.replace(1, (shape[1] - 1, shape[1]) if not out.empty else (0, 0))


def column_params(columns: Window, site: Site) -> tuple[tuple[str, int], ...]:
    """Kernel parameters of windows along columns."""
    x, y = site.inputs[0].shape, site.output.shape
    return (
        ("in_w", x[2]),
        ("in_c", x[3]),
        ("out_w", y[2]),
        ("kernel_w", columns.size),
        ("stride_w", columns.stride),
        ("dilation_w", columns.dilation),
        ("pad_left", columns.before),
    )


def total_type(inputs: tuple[TensorType, ...], dtype: DType) -> TensorType:
    """The type of the only input.  Raises PenstockError unless it is a total of `dtype`."""
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
    """Random totals of `shape`, for samples."""
    return TensorType(shape, DType.INT32)
