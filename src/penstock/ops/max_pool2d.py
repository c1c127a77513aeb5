"""MaxPool2D: the maximum over a sliding window.

    x  (N, H,  W,  C)  int8
    y  (N, Ho, Wo, C)  int8     same scale and zero point as x

Source: TFLite MAX_POOL_2D; `reference/integer_ops/pooling.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import pool, sliding
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.nodes import requantised
from penstock.opkit.running import Halves
from penstock.opkit.samples import int8, sample
from penstock.opkit.sliding import Sliding, Window
from penstock.ops.running_max import RunningMax
from penstock.ops.slice import Slice


@dataclass(frozen=True, slots=True)
class MaxPool2D(Sliding):
    """Max pooling with clamp."""

    activation: Activation = Activation.NONE

    TFLITE = ("MAX_POOL_2D",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=True), "MaxPool", "GlobalMaxPool")
    RELAY = (
        *relay("nn.max_pool2d"),
        RelayName("nn.global_max_pool2d", condition=pool.covers_image),
    )

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return pool.result_type(self.rows, self.columns, inputs)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (x,) = inputs
        read = sliding.block(x[..., out.slices[3]], self.rows, self.columns, out)
        largest = np.full(out.shape, -128, np.int8)
        for _, _, tap in sliding.taps(read, x.shape, self.rows, self.columns, out, -128):
            np.maximum(largest, tap, out=largest)
        least, most = self.activation.bounds(site.output)
        return np.clip(largest, np.int8(least), np.int8(most))

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (sliding.needs(self.rows, self.columns, site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (sliding.affine(self.rows, self.columns),)

    def work(self, site: Site, out: Region) -> Work:
        return pool.work(self.rows, self.columns, out)

    def kernel(self, site: Site) -> Kernel:
        return pool.kernel("max_pool2d_s8", self.rows, self.columns, self.activation, site)

    def halves(self, site: Site) -> Halves | None:
        """Running maxima of the only output row; the last row is the result."""
        x = site.inputs[0]
        rows = pool.rows_of_one(self.rows, x.shape)
        if rows == 0:
            return None
        maxima = RunningMax(rows, self.columns, self.activation)
        total = replace(maxima.result_type((x,)), quantisation=site.output.quantisation)
        start, step = (0, rows - 1, 0, 0), (1, 1, 1, 1)
        return Halves(maxima, total, Slice(start, site.output.shape, step))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MAX_POOL_2D."""
    yield Made(
        MaxPool2D(*pool.windows(node), fused_activation(node)), (node.input(0),), node.output()
    )


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX MaxPool, GlobalMaxPool."""
    yield from requantised(node, MaxPool2D(*pool.onnx_pooling_windows(node)), node.input(0))


SAMPLES = (
    sample(MaxPool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)), int8(1, 7, 6, 3)),
    sample(MaxPool2D(Window(2, 2), Window(2, 2), Activation.RELU), int8(2, 4, 6, 2)),
    sample(MaxPool2D(Window(3, 2, 2, 2, 1), Window(2, 1, 3, 1, 4)), int8(2, 7, 6, 9)),
)
