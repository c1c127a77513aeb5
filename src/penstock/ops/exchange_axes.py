"""ExchangeAxes: exchanges rows and columns of an image, in place where possible.

    x  (H, W, C) or (1, H, W, C)  any type
    y  (W, H, C) or (1, W, H, C)  as x      y[w, h, c] = x[h, w, c]

Created by `passes/exchange_axes.py`.  Unlike that of `Transpose`, its kernel computes all rows in
one call, and may write them over the input.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ir.exchange import exchanged_entries, is_image
from penstock.ir.op import Kernel, Site
from penstock.ir.tensor import DType, TensorType
from penstock.opkit.checks import require
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class ExchangeAxes(Rearrangement):
    """Rows become columns, columns become rows."""

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        require(is_image(x), f"input has shape {list(x)}, must be (H, W, C) or (1, H, W, C)")
        axes = exchanged_entries(tuple(range(len(x))))
        return AxisGrouping(tuple((extent,) for extent in x), tuple((axis,) for axis in axes))

    def kernel(self, site: Site) -> Kernel:
        x = site.inputs[0]
        *_, rows, columns, channels = x.shape
        params = (
            ("rows", rows),
            ("columns", columns),
            ("pixel_bytes", channels * x.dtype.size_bytes),
        )
        return Kernel("exchange_axes", params, whole_in_place=(0,))


SAMPLES = (
    sample(ExchangeAxes(), int8(1, 3, 5, 7)),
    sample(ExchangeAxes(), int8(1, 6, 4, 1)),
    sample(ExchangeAxes(), TensorType((9, 2, 5), DType.INT32)),
)
