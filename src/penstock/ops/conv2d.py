"""Two-dimensional convolution, optionally in groups of channels.

    x  (N, H,  W,  C)      int8    float32
    w  (O, K,  L,  C / G)  int8    float32    int8: zero point 0; one scale, or one per O;
                                              int16 if wide
    b  (O)                 int32   float32    int32: scale x.scale * w.scale
    y  (N, Ho, Wo, O)      int8    float32

    Conv2D       y = clamp(zero_y + M[o] * (b[o] + sum (x - zero_x) * w)); padding is zero_x
    PlainConv2D  y = clamp(b[o] + sum x * w); what lies in the padding is not added

Source: TFLite CONV_2D; `reference/integer_ops/conv.h`, `reference/conv.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Params, Site, Types, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import layers, onnx_constants, sliding
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.checks import require, require_dtype, require_rank
from penstock.opkit.layers import (
    PlainLayer,
    WeightedOp,
    WindowedLayer,
    in_quads,
    onnx_layer,
)
from penstock.opkit.nodes import in_shape_of_output, is_real, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers, stated_multipliers
from penstock.opkit.sliding import Sliding, Window, foreign_windows
from penstock.opkit.sliding import windows as onnx_windows
from penstock.ops import depthwise_conv2d, volumes
from penstock.ops.dynamic_range import convolution_nodes
from penstock.ops.plain import PlainAdd


def _slides_along_one_axis(op: _Convolution, site: Site) -> bool:
    """Whether rows, or columns, have extent 1 in the input and in the window."""
    _, height, width, _ = site.inputs[0].shape
    return (height, op.rows.size) == (1, 1) or (width, op.columns.size) == (1, 1)


@dataclass(frozen=True, slots=True)
class _Convolution(Sliding, WeightedOp):
    """Shapes, regions and work of a convolution."""

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

    def window_params(self, site: Site) -> Params:
        """Kernel parameters of shapes, windows and groups."""
        x, w, _ = site.inputs
        return (
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(self.rows, self.columns),
            ("groups", x.shape[3] // w.shape[3]),
        )


@dataclass(frozen=True, slots=True)
class Conv2D(ExchangedPair, _Convolution, WindowedLayer):
    """Convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    TFLITE = ("CONV_2D", "CONV_3D")
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "Conv")
    RELAY = (
        *relay("nn.conv2d", "qnn.conv2d"),
        RelayName("nn.conv1d", condition=_slides_along_one_axis),
        RelayName("qnn.conv1d", condition=_slides_along_one_axis),
    )

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        x, w, _ = site.inputs
        return (((0, 3), (1, 3)),) if x.shape[3] == w.shape[3] else ()

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

    def kernel(self, site: Site) -> Kernel:
        w = site.inputs[1]
        if w.dtype is layers.WIDE:
            return self.wide_kernel(site, np.arange(w.shape[0]))
        return self.layer_kernel(site, "conv2d_s8", self.window_params(site))

    def wide_kernel(self, site: Site, channels: Int64s) -> Kernel:
        x, w, _ = site.inputs
        firsts = channels * x.shape[3] // (w.shape[0] * w.shape[3]) * w.shape[3]
        return self.wide_windows_kernel(site, channels, firsts, w.shape[3])


@dataclass(frozen=True, slots=True)
class PlainConv2D(_Convolution, PlainLayer):
    """Convolution of real numbers with bias and clamp."""

    limits: Limits = FINITE

    RELAY = (*relay("nn.conv2d"), RelayName("nn.conv1d", condition=_slides_along_one_axis))

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        channels = out.slices[3]
        depth, group_outputs = w.shape[3], w.shape[0] * w.shape[3] // x.shape[3]
        first = np.arange(channels.start, channels.stop) // group_outputs * depth
        read = sliding.block(x, self.rows, self.columns, out)
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            for k, l, at, tap in sliding.taps_inside(  # noqa: E741
                read, x.shape, self.rows, self.columns, out
            ):
                for c in range(depth):
                    total[at] += tap[..., first + c] * w[channels, k, l, c]
        return self.finished(total, b, out)

    def kernel(self, site: Site) -> Kernel:
        groups = site.inputs[0].shape[3] // site.inputs[1].shape[3]
        w = site.constant(1)
        quads = in_quads(w.reshape(groups, -1, *w.shape[1:]))
        return self.plain_kernel("conv2d_f32", self.window_params(site), quads)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    if node.name == "CONV_3D":
        yield from in_shape_of_output(node, _foreign_volume_nodes(node))
        return
    x, w = node.input(0), node.input(1)
    require_rank(x.type, (4,), "input")
    require_rank(w.type, (4,), "weights")
    rows, columns = foreign_windows(node, x.shape[1:3], w.shape[1:3])
    ops = partial(Conv2D, rows, columns), partial(PlainConv2D, rows, columns)
    yield from convolution_nodes(node, *ops)


WEIGHTS_ORDER = (0, 2, 3, 1)
"""From (O, C / G, K, L), as ONNX has weights, to (O, K, L, C / G)."""


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Conv; with a group for each channel it is a depthwise convolution."""
    x, groups = node.input(0), node.integer("group", 1)
    if x.rank == volumes.RANK:
        yield from _volume_nodes(node, x, groups)
        return
    require_rank(x.type, (4,), "input")
    is_plain = is_real(node) or onnx_constants.has_real_weights(node, 1, axis=0)
    if is_plain:
        weights = onnx_constants.real_kernel(node, WEIGHTS_ORDER)
        w = Value.constant(node.input(1).name, weights)
    else:
        w = onnx_constants.kernel(node, WEIGHTS_ORDER, axis=0)
    depth = w.shape[3]
    require(
        groups > 0 and depth * groups == x.shape[3],
        f"input has {x.shape[3]} channels, weights take {depth} in each of {groups} groups",
    )
    rows, columns = onnx_windows(node, (w.shape[1], w.shape[2]))
    if is_plain:
        yield from _plain_nodes(node, w, rows, columns)
    else:
        yield from grouped_nodes(node, x, w, rows, columns)


FOREIGN_ORDER = (4, 3, 0, 1, 2)
"""From (D, H, W, C, O), as TFLite has weights of volumes, to (O, C, D, H, W)."""


def _foreign_volume_nodes(node: ForeignNode) -> Iterable[Made]:
    """TFLite CONV_3D of real numbers.

    Source: `reference/conv3d.h`."""
    weights = node.constant(1)
    require_dtype(node.input(1).type, (DType.FLOAT32,), "weights")
    require(weights.ndim == volumes.RANK, f"weights have shape {list(weights.shape)}")
    w = Value.constant(f"{node.output().name}/weights", weights.transpose(FOREIGN_ORDER))
    is_same = node.choice("padding", ("SAME", "VALID")) == "SAME"
    form = onnx_form(
        node, "Conv", node.input(0), w, node.optional(2),
        strides=tuple(node.integer(f"stride_{axis}") for axis in "dhw"),
        dilations=tuple(node.integer(f"dilation_{axis}_factor", 1) for axis in "dhw"),
        auto_pad="SAME_UPPER" if is_same else "VALID",
    )  # fmt: skip
    return _volume_nodes(form, node.input(0), 1, Limits.of(fused_activation(node)))


def _volume_nodes(
    node: OnnxNode, x: Value, groups: int, limits: Limits = UNLIMITED
) -> Iterable[Made]:
    """Nodes of a convolution of volumes, of real numbers."""
    new, weights = RealNodes(node), onnx_constants.real_numbers(node, 1)
    require(weights.ndim == volumes.RANK, f"weights have shape {list(weights.shape)}")
    outputs, depth, size, *image = weights.shape
    require(
        groups > 0 and depth * groups == x.shape[4],
        f"input has {x.shape[4]} channels, weights take {depth} in each of {groups} groups",
    )
    rows, columns = onnx_windows(volumes.of_axes(node, volumes.IMAGE, x), (image[0], image[1]))
    planes, _ = onnx_windows(volumes.of_axes(node, volumes.PLANES, x), (size, 1))
    op, zeros = PlainConv2D(rows, columns, UNLIMITED), new.constant(np.zeros(outputs), "no_bias")

    def convolved(images: Value, taps: Array) -> Value:
        w = new.constant(taps.transpose(WEIGHTS_ORDER), "weights")
        return new.apply(op, images, w, zeros)

    total = volumes.convolved(new, new.input(0), planes, weights, convolved)
    bias = new.constant(onnx_constants.real_bias(node, 2, outputs), "bias")
    yield from new.result(new.apply(PlainAdd(limits), total, bias))


def _plain_nodes(node: OnnxNode, w: Value, rows: Window, columns: Window) -> Iterable[Made]:
    """Nodes of a convolution of real numbers by weights (O, K, L, C / groups)."""
    real = RealNodes(node)
    x, (outputs, *_, depth) = real.input(0), w.shape
    channels = x.shape[3]
    bias = real.constant(onnx_constants.real_bias(node, 2, outputs), "bias")
    if channels > depth == 1 and outputs % channels == 0:
        yield from depthwise_conv2d.plain_nodes(real, x, w, bias, (rows, columns))
        return
    op = PlainConv2D(rows, columns, UNLIMITED)
    yield from real.result(real.apply(op, x, w, bias))


def grouped_nodes(
    node: OnnxNode, x: Value, w: Value, rows: Window, columns: Window
) -> Iterable[Made]:
    """Nodes of an ONNX convolution by weights (O, K, L, C / groups), and bias input 2."""
    outputs, groups = w.shape[0], x.shape[3] // w.shape[3]
    if groups == x.shape[3] > 1 and layers.centred(w) is not None:
        yield depthwise_conv2d.of_onnx_groups(node, x, w, rows, columns)
        return
    x, w, made = layers.centred_layer(node.output().name, x, w, groups)
    yield from made
    b = onnx_constants.bias(node, 2, x, w, outputs)
    op = Conv2D(rows, columns, stated=stated_multipliers(node, outputs))
    yield onnx_layer(op, node, x, w, b)
