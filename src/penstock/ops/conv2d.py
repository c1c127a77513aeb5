"""Conv2D: two-dimensional convolution, optionally in groups of channels.

    x  (N, H,  W,  C)      int8
    w  (O, K,  L,  C / G)  int8    zero point 0; one scale, or one per O
    b  (O)                 int32   scale x.scale * w.scale
    y  (N, Ho, Wo, O)      int8

y = clamp(zero_y + M[o] * (b[o] + sum (x - zero_x) * w)); padding has the value zero_x.

Source: TFLite CONV_2D; `reference/integer_ops/conv.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import layers, onnx_constants, sliding
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.checks import require, require_rank
from penstock.opkit.layers import Layer, layer_node, with_bias
from penstock.opkit.samples import bias, int8, sample, weights
from penstock.opkit.sliding import Sliding, Window, foreign_windows
from penstock.opkit.sliding import windows as onnx_windows
from penstock.ops import depthwise_conv2d


def _slides_along_one_axis(op: Conv2D, site: Site) -> bool:
    """Whether rows, or columns, have extent 1 in the input and in the window."""
    _, height, width, _ = site.inputs[0].shape
    return (height, op.rows.size) == (1, 1) or (width, op.columns.size) == (1, 1)


@dataclass(frozen=True, slots=True)
class Conv2D(Sliding, Layer):
    """Convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE

    TFLITE = ("CONV_2D",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST), "Conv")
    RELAY = (
        *relay("nn.conv2d", "qnn.conv2d"),
        RelayName("nn.conv1d", condition=_slides_along_one_axis),
        RelayName("qnn.conv1d", condition=_slides_along_one_axis),
    )

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, "convolution", 4)
        outputs, k, l, group_channels = w.shape  # noqa: E741
        require(
            (k, l) == (self.rows.size, self.columns.size),
            f"weights have a window of {k} x {l}, attributes say "
            f"{self.rows.size} x {self.columns.size}",
        )
        groups, rest = divmod(x.shape[3], group_channels) if group_channels else (0, 1)
        require(
            groups > 0 and not rest and outputs % groups == 0,
            f"input has {x.shape[3]} channels, weights take {group_channels} a group",
        )
        require(b.shape == (outputs,), f"bias has shape {list(b.shape)}, must be [{outputs}]")
        return self.image_type(x, outputs)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        channels = out.slices[3]
        read = sliding.block(x, self.rows, self.columns, out)
        # Doubles hold every partial sum exactly (below 2**53), and their product is a BLAS call.
        centred = read.astype(np.float64) - site.inputs[0].zero_point
        weights = w.astype(np.float64)
        group_inputs, group_outputs = w.shape[3], w.shape[0] * w.shape[3] // x.shape[3]
        total = np.zeros(out.shape)
        for k, l, tap in sliding.taps(  # noqa: E741
            centred, x.shape, self.rows, self.columns, out
        ):
            for group in range(x.shape[3] // group_inputs):
                lower = max(group * group_outputs, channels.start)
                upper = min((group + 1) * group_outputs, channels.stop)
                if lower < upper:
                    source = tap[..., group * group_inputs : (group + 1) * group_inputs]
                    total[..., lower - channels.start : upper - channels.start] += (
                        source @ weights[lower:upper, k, l].T
                    )
        return self.requantised(site, total, b, out)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        x, w, _ = site.inputs
        group_inputs = w.shape[3]
        group_outputs = w.shape[0] * group_inputs // x.shape[3]
        lower, upper = out.intervals[3]
        groups = (lower // group_outputs, -(-upper // group_outputs))
        channels = (groups[0] * group_inputs, groups[1] * group_inputs)
        read = sliding.needs(self.rows, self.columns, x.shape, out).replace(3, channels)
        return read, *self.needed_constants(site, out)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        spatial = sliding.affine(self.rows, self.columns)
        channels = (0, 0, 0, 0, site.inputs[0].shape[3])
        read = Affine((*spatial.matrix[:3], channels), (*spatial.offset[:3], 0))
        return read, *self.affine_constants(site)

    def work(self, site: Site, out: Region) -> Work:
        w = site.inputs[1].shape
        return Work(out.elements * w[1] * w[2] * w[3], out.elements, out.elements * w[1])

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        x, w, _ = site.inputs
        return (((0, 3), (1, 3)),) if x.shape[3] == w.shape[3] else ()

    def kernel(self, site: Site) -> Kernel:
        x, w, _ = site.inputs
        params = (
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(self.rows, self.columns),
            ("groups", x.shape[3] // w.shape[3]),
        )
        return self.layer_kernel(site, "conv2d_s8", params)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    x, w = node.input(0), node.input(1)
    require_rank(x.type, (4,), "input")
    require_rank(w.type, (4,), "weights")
    rows, columns = foreign_windows(node, x.type.shape[1:3], w.type.shape[1:3])
    op = Conv2D(rows, columns, fused_activation(node))
    yield layer_node(op, node, x, w, with_bias(node, w.type.shape[0]))


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Conv; with a group for each channel it is a depthwise convolution."""
    x, groups = node.input(0), node.integer("group", 1)
    require_rank(x.type, (4,), "input")
    w = onnx_constants.kernel(node, (0, 2, 3, 1), axis=0)
    depth = w.type.shape[3]
    require(
        groups > 0 and depth * groups == x.type.shape[3],
        f"input has {x.type.shape[3]} channels, weights take {depth} in each of {groups} groups",
    )
    rows, columns = onnx_windows(node, (w.type.shape[1], w.type.shape[2]))
    yield from grouped_nodes(node, x, w, rows, columns)


def grouped_nodes(
    node: OnnxNode, x: Value, w: Value, rows: Window, columns: Window
) -> Iterable[Made]:
    """Nodes of an ONNX convolution by weights (O, K, L, C / groups), and bias input 2."""
    outputs, groups = w.type.shape[0], x.type.shape[3] // w.type.shape[3]
    if groups == x.type.shape[3] > 1 and layers.centred(w) is not None:
        yield depthwise_conv2d.of_onnx_groups(node, x, w, rows, columns)
        return
    x, w, made = layers.centred_layer(node.output().name, x, w, groups)
    yield from made
    b = onnx_constants.bias(node, 2, x, w, outputs)
    op = Conv2D(rows, columns)
    yield layer_node(op, node.typed(op, x, w, b), x, w, b)


SAMPLES = (
    sample(
        Conv2D(Window(3, 2, 1, 1, 1), Window(3, 1, 1, 1, 0), Activation.RELU),
        int8(1, 7, 6, 3),
        weights(5, 3, 3, 3, axis=0),
        bias(5),
    ),
    sample(
        Conv2D(Window(2, 1, 2, 1, 1), Window(3, 2, 2)),
        int8(2, 6, 9, 4),
        weights(6, 2, 3, 2),
        bias(6),
    ),
    sample(Conv2D(Window(1), Window(1)), int8(1, 5, 4, 8), weights(3, 1, 1, 8, axis=0), bias(3)),
)
