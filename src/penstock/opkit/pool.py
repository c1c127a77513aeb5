"""Pooling: shared by average and max pooling."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.ir.foreign import ForeignNode
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import sliding
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require, require_int8, require_rank
from penstock.opkit.sliding import Window, foreign_windows, pair
from penstock.opkit.sliding import windows as onnx_windows

MOST_TAPS = 2**23
"""Largest window whose sum of int8 elements always fits int32."""


class Pooling(Protocol):
    """An operator with a window along rows and one along columns."""

    @property
    def rows(self) -> Window: ...

    @property
    def columns(self) -> Window: ...


def covers_image(op: Pooling, site: Site) -> bool:
    """Whether one window covers all rows and columns, so that they become one element."""
    x, y = site.inputs[0], site.output
    return x.shape[1:3] == (op.rows.size, op.columns.size) and y.shape[1:3] == (1, 1)


def windows(node: ForeignNode) -> tuple[Window, Window]:
    """The node's windows along rows and columns."""
    x = node.input(0).type
    require_rank(x, (4,), "input")
    size = (node.integer("filter_height"), node.integer("filter_width"))
    return foreign_windows(node, x.shape[1:3], size)


def onnx_pooling_windows(node: OnnxNode) -> tuple[Window, Window]:
    """Windows of an ONNX pooling node along rows and columns; global pooling covers the image."""
    x = node.input(0).type
    require_rank(x, (4,), "input")
    if node.name.startswith("Global"):
        return Window(x.shape[1]), Window(x.shape[2])
    require("kernel_shape" in node.attributes, "attribute kernel_shape is missing")
    return onnx_windows(node, pair(node, "kernel_shape"))


def result_type(rows: Window, columns: Window, inputs: tuple[TensorType, ...]) -> TensorType:
    """Output type.  Raises ModelError for inputs that cannot be pooled."""
    require(len(inputs) == 1, f"pooling has {len(inputs)} inputs, must have 1")
    x = inputs[0]
    require_rank(x, (4,), "input")
    require_int8(x, "input")
    y = (x.shape[0], rows.outputs(x.shape[1]), columns.outputs(x.shape[2]), x.shape[3])
    sliding.require_countable(rows, columns, x)
    require(
        rows.size * columns.size <= MOST_TAPS,
        f"the window has {rows.size} x {columns.size} elements, must have at most {MOST_TAPS}",
    )
    require(min(y) > 0, f"the window does not fit into input {list(x.shape)}")
    return TensorType(y, DType.INT8)


def average(total: Array, count: Array, bounds: tuple[int, int]) -> Array:
    """Sums divided by counts, rounded half away from zero, and clamped."""
    half = count // 2
    mean = np.where(total > 0, (total + half) // count, -((half - total) // count))
    return np.clip(mean, *bounds).astype(np.int8)


def rows_of_one(rows: Window, shape: tuple[int, ...]) -> int:
    """Number of leading input rows under the window, if the output has one row and one image; else
    0."""
    one = shape[0] == 1 and rows.outputs(shape[1]) == 1
    return rows.needs((0, 1), shape[1])[1] if one and rows.dilation == 1 else 0


def work(rows: Window, columns: Window, out: Region) -> Work:
    """Work of a region: one operation per tap of each output element."""
    return Work(0, out.elements * rows.size * columns.size)


def kernel(name: str, rows: Window, columns: Window, activation: Activation, site: Site) -> Kernel:
    """The C kernel `name` with parameters of the windows."""
    least, most = activation.bounds(site.output)
    return Kernel(
        name,
        params=(
            *sliding.shape_params(site.inputs[0].shape, site.output.shape),
            *sliding.window_params(rows, columns),
            ("least", least),
            ("most", most),
        ),
        by_rows=True,
    )
