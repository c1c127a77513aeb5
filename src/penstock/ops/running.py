"""Running reductions, which accumulate over the rows of an image, and operators on their last rows.

    x  (1, H,    W,  C)
    y  (1, rows, Wo, Co)    row r reduces rows 0 .. r of x; only the last row is a result

A reduction to one row is split into a running reduction and an operator on its last row
(`passes/accumulate.py`).  A row of x is then dead once it is accumulated, and all rows of y may
share storage (`Kernel.accumulates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    Op,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Table,
    Types,
    Work,
    members,
    row_kernel,
)
from penstock.ir.tensor import Array, DType, Region, TensorType, row_before
from penstock.opkit import sliding
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require, require_count, require_dtype, require_int8, require_rank
from penstock.opkit.requantise import SumRequantisation
from penstock.opkit.sliding import Window

ROW = Window(1)
"""Each row of the output finds its part in one row of the input."""


@frozen
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


class _UnderColumns(OperatorDefaults):
    """Region propagation of operators whose row r reads row r of x, under windows `columns`."""

    __slots__ = ()
    columns: Window

    def needs(self, site: Site, out: Region) -> Regions:
        return (sliding.needs(ROW, self.columns, site.x.shape, out),)

    def affine(self, site: Site) -> Affines:
        return (sliding.affine(ROW, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.columns.size)


class _OfLastRow(OperatorDefaults):
    """Region propagation of operators that read the last row of a total."""

    __slots__ = ()

    def needs(self, site: Site, out: Region) -> Regions:
        height = site.x.shape[1]
        return (out.replace(1, (0, 0) if out.empty else (height - 1, height)),)

    def affine(self, site: Site) -> Affines:
        offset = (0, site.x.shape[1] - 1, 0, 0)
        return (Affine.diagonal((1, 0, 1, 1), extra=(0, 1, 0, 0), offset=offset),)


def gone_on(found: Array, inputs: Sequence[Array], out: Region, joined: np.ufunc) -> Array:
    """Each row of `found` combined with all rows before it.

    Rows before `out` are already in the last input, which is the output computed so far."""
    if out.lower[1] > 0:
        found[:, :1] = joined(found[:, :1], inputs[-1][row_before(out).slices])
    return joined.accumulate(found, axis=1, dtype=found.dtype)


def require_image(x: TensorType) -> None:
    """Raises PenstockError unless the input is one int8 image."""
    require_rank(x, "input", 4)
    require_int8(x, "input")
    require(x.shape[0] == 1, f"input has batch {x.shape[0]}, must have 1")


def pooled_type(rows: int, columns: Window, inputs: Types, dtype: DType) -> TensorType:
    """Output type of a running reduction over `rows` rows, under windows along columns."""
    (x,) = require_count(inputs, 1, "running reduction")
    require_image(x)
    require(0 < rows <= x.shape[1], f"{rows} rows are read, input has {x.shape[1]}")
    outputs = columns.outputs(x.shape[2])
    require(outputs > 0, f"the window does not fit into input {list(x.shape)}")
    return TensorType((1, rows, outputs, x.shape[3]), dtype)


def column_params(columns: Window, site: Site) -> Params:
    """Kernel parameters of windows along columns."""
    x, y = site.x.shape, site.output.shape
    return members(
        in_w=x[2],
        in_c=x[3],
        out_w=y[2],
        kernel_w=columns.size,
        stride_w=columns.stride,
        dilation_w=columns.dilation,
        pad_left=columns.before,
    )


def total_type(inputs: Types, dtype: DType) -> TensorType:
    """The type of the only input.  Raises PenstockError unless it is a total of `dtype`."""
    require(len(inputs) == 1, f"there are {len(inputs)} totals, must be 1")
    x = inputs[0]
    require_rank(x, "total", 4)
    require_dtype(x, "total", dtype)
    require(x.shape[0] == 1, f"total has batch {x.shape[0]}, must have 1")
    return x


def average(
    total: Array, count: Array, bounds: tuple[int, int], *, halves_up: bool = False
) -> Array:
    """Sums divided by counts, rounded half away from zero or up, and clamped."""
    below = (count - int(halves_up)) // 2
    mean = np.where(total > 0, (total + count // 2) // count, -((below - total) // count))
    return np.clip(mean, *bounds).astype(np.int8)


@frozen
class RunningSum(_UnderColumns):
    """Running sum over rows, under windows along columns.

        x  (1, H,    W,  C)  int8
        y  (1, rows, Wo, C)  int32    y[r] = y[r - 1] + sum over the window of (x[r] - zero)

    Created from means, sums and average pools with one output row (`passes/accumulate.py`).

    `rows`: how many are read; `zero`: subtracted from each element."""

    rows: int
    columns: Window
    zero: int = 0

    def result_type(self, inputs: Types) -> TensorType:
        return pooled_type(self.rows, self.columns, inputs, DType.INT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = inputs[0][..., out.slices[3]]
        read = sliding.block(x, ROW, self.columns, out).astype(np.int32) - self.zero
        found = np.zeros(out.shape, np.int32)
        for _, _, tap in sliding.taps(read, x.shape, ROW, self.columns, out):
            found += tap
        return gone_on(found, inputs, out, np.add)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "running_sum_s8",
            column_params(self.columns, site),
            zero=self.zero,
            recurrent=True,
            accumulates=True,
        )


@frozen
class RunningMax(_UnderColumns):
    """Running maximum over rows, under windows along columns, with clamp.

        x  (1, H,    W,  C)  int8
        y  (1, rows, Wo, C)  int8     y[r] = max(y[r - 1], clamp(largest under the window of x[r]))

    Created from max pools with one output row (`passes/accumulate.py`).

    `rows`: how many are read."""

    rows: int
    columns: Window
    activation: Activation = Activation.NONE

    def result_type(self, inputs: Types) -> TensorType:
        return pooled_type(self.rows, self.columns, inputs, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = inputs[0][..., out.slices[3]]
        read = sliding.block(x, ROW, self.columns, out)
        found = np.full(out.shape, -128, np.int8)
        for _, _, tap in sliding.taps(read, x.shape, ROW, self.columns, out, -128):
            np.maximum(found, tap, out=found)
        least, most = self.activation.bounds(site.output)
        found = np.clip(found, np.int8(least), np.int8(most))
        return gone_on(found, inputs, out, np.maximum)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "running_max_s8",
            column_params(self.columns, site),
            self.activation.params(site.output),
            recurrent=True,
            accumulates=True,
        )


@frozen
class RunningProduct(OperatorDefaults):
    """Running sum over rows of weighted inputs, starting with a bias.

        x  (1, H, W, C)  int8
        w  (O, H*W*C)    int8     zero point 0; those of row r are [r*W*C, (r + 1)*W*C)
        b  (O)           int32
        y  (1, H, 1, O)  int32    y[r] = (y[r - 1], or b) + w[r] * (x[r] - zero_x)

    Created from fully connected layers on an image (`passes/accumulate.py`)."""

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = require_count(inputs, 3, "running product")
        require_image(x)
        require_rank(w, "weights", 2)
        require_dtype(w, "weights", DType.INT8)
        require_dtype(b, "bias", DType.INT32)
        outputs, depth = w.shape
        require(x.elements == depth, f"input has {x.elements} elements, the weights {depth}")
        require(b.shape == (outputs,), f"bias has shape {list(b.shape)}, must be [{outputs}]")
        return TensorType((1, x.shape[1], 1, outputs), DType.INT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs[:3]
        _, rows, _, channels = out.slices
        centred = x[0, rows].reshape(out.shape[1], -1).astype(np.int64) - site.x.zero_point
        by_row = w.reshape(w.shape[0], x.shape[1], -1)[channels, rows].astype(np.int64)
        # Sums fit int32: `layer_node` has refused layers whose accumulators do not.
        found = np.einsum("rk,ork->ro", centred, by_row).astype(np.int32).reshape(out.shape)
        if out.lower[1] == 0:
            found[:, :1] += b[channels]
        return gone_on(found, inputs, out, np.add)

    def needs(self, site: Site, out: Region) -> Regions:
        x = site.x.shape
        batch, rows, _, channels = out.intervals
        row = x[2] * x[3]
        first = channels if rows[0] == 0 else (channels[0], channels[0])
        return (
            Region.of(batch, rows, (0, x[2]), (0, x[3])),
            Region.of(channels, (rows[0] * row, rows[1] * row)),
            Region.of(first),
        )

    def affine(self, site: Site) -> Affines:
        x = site.x.shape
        image = Affine.diagonal((1, 1, 0, 0), extra=(0, 0, x[2], x[3]))
        channel = (0, 0, 0, 1, 0)
        by_row = (0, x[2] * x[3], 0, 0, 0)
        # the bias is read with the first row only: no form is exact for that
        whole = Affine.constant(site.inputs[2].shape, 4)
        return image, Affine((channel, by_row), (0, 0)), whole

    def work(self, site: Site, out: Region) -> Work:
        x = site.x.shape
        return Work(out.elements * x[2] * x[3], out.elements)

    def kernel(self, site: Site) -> Kernel:
        x = site.x
        return row_kernel(
            "running_product_s8",
            row=x.shape[2] * x.shape[3],
            depth=site.inputs[1].shape[1],
            out_c=site.output.shape[3],
            in_zero=x.zero_point,
            constants=((1, "weights"), (2, "bias")),
            recurrent=True,
            accumulates=True,
        )


@frozen
class AverageLast(_OfLastRow):
    """Divides the last row of sums by the number of summed elements.

        x  (1, rows, Wo, C)  int32    only the last row is read
        y  (1, 1,    Wo, C)  int8     clamp(round(x[rows - 1] / count)), ties away from zero

    Created from average pools that accumulate row by row (`passes/accumulate.py`).

    `counts`: numbers of summed elements, one for each column."""

    counts: tuple[int, ...]
    activation: Activation = Activation.NONE

    def result_type(self, inputs: Types) -> TensorType:
        x = total_type(inputs, DType.INT32)
        given = len(self.counts)
        require(given == x.shape[2], f"{given} counts for {x.shape[2]} columns")
        require(min(self.counts) > 0, f"counts are {list(self.counts)}, must be at least 1")
        return TensorType((1, 1, *x.shape[2:]), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        counts = np.array(self.counts, np.int32)[out.slices[2], None]
        return average(inputs[0][read.slices], counts, self.activation.bounds(site.output))

    def kernel(self, site: Site) -> Kernel:
        _, rows, width, channels = site.x.shape
        return row_kernel(
            "average_last_s32",
            members(in_h=rows, in_w=width, in_c=channels),
            self.activation.params(site.output),
            counts=Table.integers(self.counts),
        )


@frozen
class RequantiseLast(_OfLastRow, SumRequantisation):
    """Requantises the last row of accumulators.

        x  (1, H, W, C)  int32     only row H - 1 is read
        y  (1, 1, W, C)  int8      clamp(zero_y + M[c] * x[H - 1])

    Created from means, sums and layers that accumulate row by row (`passes/accumulate.py`)."""

    def result_type(self, inputs: Types) -> TensorType:
        x = total_type(inputs, DType.INT32)
        self.require_channels(x)
        return TensorType((1, 1, *x.shape[2:]), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        return self.requantised(site, inputs[0][read.slices], out)

    def kernel(self, site: Site) -> Kernel:
        return self.kernel_from(site, site.x.shape[1] - 1)
