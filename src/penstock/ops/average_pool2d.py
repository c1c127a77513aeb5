"""AveragePool2D: the mean over a sliding window, padding excluded.

    x  (N, H,  W,  C)  int8
    y  (N, Ho, Wo, C)  int8     same scale and zero point as x

Source: TFLite AVERAGE_POOL_2D; `reference/integer_ops/pooling.h`: the sum of stored elements,
divided by their number, rounded half away from zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import MOST_ROWS, Kernel, Site, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, OperatorDefaults, RelayName, relay
from penstock.ir.region import Region
from penstock.ir.stated_attribute import StatedAttribute
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import pool, sliding
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.checks import require
from penstock.opkit.requantised import requantised
from penstock.opkit.running import Halves
from penstock.opkit.samples import int8, sample
from penstock.opkit.window import Window, stated_windows
from penstock.ops import depthwise_conv2d
from penstock.ops.average_last import AverageLast
from penstock.ops.running_sum import RunningSum


@dataclass(frozen=True, slots=True)
class AveragePool2D(OperatorDefaults):
    """Average pooling with clamp."""

    rows: Window
    columns: Window
    activation: Activation = Activation.NONE

    TFLITE: ClassVar[tuple[str, ...]] = ("AVERAGE_POOL_2D",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {"AveragePool": OnnxName(AxisOrder.CHANNELS_LAST)}
    RELAY: ClassVar[tuple[RelayName, ...]] = (
        *relay("nn.avg_pool2d", "qnn.avg_pool2d"),
        RelayName("nn.global_avg_pool2d", condition=pool.covers_image),
    )

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        windows = stated_windows(self.rows, self.columns)
        return (*windows, *OperatorDefaults.stated_attributes(self))

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        y = pool.result_type(self.rows, self.columns, inputs)
        _, height, width, _ = inputs[0].shape
        require(
            self.rows.always_meets(height) and self.columns.always_meets(width),
            f"a window of {self.rows.size} x {self.columns.size} elements lies in the padding "
            f"alone, must meet the {height} x {width} elements of the input: it has no average",
        )
        return y

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (x,) = inputs
        x = x[..., out.slices[3]]
        read = sliding.block(x, self.rows, self.columns, out).astype(np.int32)
        present = np.ones((*read.shape[:3], 1), np.int32)
        total = np.zeros(out.shape, np.int32)
        count = np.zeros((*out.shape[:3], 1), np.int32)
        for _, _, tap in sliding.taps(read, x.shape, self.rows, self.columns, out):
            total += tap
        for _, _, tap in sliding.taps(present, x.shape, self.rows, self.columns, out):
            count += tap
        return pool.average(total, count, self.activation.bounds(site.output))

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (sliding.needs(self.rows, self.columns, site.inputs[0].shape, out),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (sliding.affine(self.rows, self.columns),)

    def exchanged(self, rank: int) -> Self:
        return replace(self, rows=self.columns, columns=self.rows)

    def work(self, site: Site, out: Region) -> Work:
        return pool.work(self.rows, self.columns, out)

    def cropped(self, site: Site, out: Region) -> AveragePool2D | None:
        windows = sliding.cropped(self.rows, self.columns, site.inputs[0].shape, out)
        return None if windows is None else replace(self, rows=windows[0], columns=windows[1])

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()

    def kernel(self, site: Site) -> Kernel:
        return pool.kernel("average_pool2d_s8", self.rows, self.columns, self.activation, site)

    def halves(self, site: Site) -> Halves | None:
        """Sums of the only output row, accumulated over rows, then divided."""
        x = site.inputs[0]
        if site.output.shape[2] > MOST_ROWS:  # there is a divisor for each column
            return None
        rows = pool.rows_of_one(self.rows, self.columns, x.shape)
        seen = [self.columns.needs((c, c + 1), x.shape[2]) for c in range(site.output.shape[2])]
        counts = tuple(rows * (upper - lower) for lower, upper in seen)
        if min(counts) == 0:
            return None
        sums = RunningSum(rows, self.columns)
        return Halves(sums, sums.result_type((x,)), AverageLast(counts, self.activation))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite AVERAGE_POOL_2D."""
    yield Made(
        AveragePool2D(*pool.windows(node), fused_activation(node)), (node.input(0),), node.output()
    )


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX AveragePool.  Where every window counts as many elements it is a depthwise convolution
    by ones, unless input and output have one scale; that rounds once."""
    x, (rows, columns) = node.input(0), pool.onnx_pooling_windows(node)
    counts_padding = bool(node.integer("count_include_pad"))
    padded = any((rows.before, rows.after, columns.before, columns.after))
    same = x.type.quantisation == node.output().type.quantisation
    if not counts_padding if padded else same:
        yield from requantised(node, AveragePool2D(rows, columns), x)
    else:
        yield depthwise_conv2d.averaged(node, x, rows, columns)


SAMPLES = (
    sample(AveragePool2D(Window(3, 2, 1, 1, 1), Window(2, 1, 1, 0, 1)), int8(1, 7, 6, 3)),
    sample(AveragePool2D(Window(4, 4), Window(5, 5), Activation.RELU), int8(2, 4, 5, 2)),
)
