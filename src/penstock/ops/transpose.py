"""Transpose, ExchangeAxes: permutations of the axes of a tensor.

    x  any shape, any type
    y  y.shape[a] = x.shape[order[a]]

Source: TFLite TRANSPOSE; `reference/transpose.h`.
"""

from __future__ import annotations

from penstock.frozen import frozen
from penstock.ir.exchange import exchanged_entries, is_image
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.op import Kernel, Site, members
from penstock.ir.operator_facts import relay
from penstock.opkit.checks import require, resolved_axis
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement


@frozen
class Transpose(Rearrangement):
    """Permutes the axes of a tensor.

        x  any shape, any type
        y  y.shape[a] = x.shape[order[a]]

    Source: TFLite TRANSPOSE; `reference/transpose.h`."""

    order: tuple[int, ...]

    TFLITE = ("TRANSPOSE",)
    RELAY = relay("transpose")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        require(
            sorted(self.order) == list(range(len(x))),
            f"order is {list(self.order)}, must name each of {len(x)} axes once",
        )
        return AxisGrouping(tuple((extent,) for extent in x), tuple((axis,) for axis in self.order))


def from_foreign(node: ForeignNode) -> Nodes:
    rank = node.x.rank
    order = tuple(resolved_axis(axis, rank) for axis in node.constant_ints(1))
    yield Made(Transpose(order), (node.x,), node.y)


@frozen
class ExchangeAxes(Rearrangement):
    """Exchanges rows and columns of an image, in place where possible.

        x  (H, W, C) or (1, H, W, C)  any type
        y  (W, H, C) or (1, W, H, C)  as x      y[w, h, c] = x[h, w, c]

    Created by `passes/exchange_axes.py`.  Unlike that of `Transpose`, its kernel computes all
    rows in one call, and may write them over the input."""

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        require(is_image(x), f"input has shape {list(x)}, must be (H, W, C) or (1, H, W, C)")
        axes = exchanged_entries(tuple(range(len(x))))
        return AxisGrouping(tuple((extent,) for extent in x), tuple((axis,) for axis in axes))

    def kernel(self, site: Site) -> Kernel:
        x = site.x
        *_, rows, columns, channels = x.shape
        params = members(rows=rows, columns=columns, pixel_bytes=channels * x.dtype.size_bytes)
        return Kernel("exchange_axes", params, whole_in_place=(0,))
