"""Two-dimensional convolutions: in groups of channels, and depthwise.

    x  (N, H,  W,  C)      int8    float32
    w  (O, K,  L,  C / G)  int8    float32    int8: zero point 0; one scale, or one per O;
                                              int16 if wide
    b  (O)                 int32   float32    int32: scale x.scale * w.scale
    y  (N, Ho, Wo, O)      int8    float32

    int8     y = clamp(zero_y + M[o] * (b[o] + sum (x - zero_x) * w)); padding is zero_x
    float32  y = clamp(b[o] + sum x * w); what lies in the padding is not added

The weights of depthwise convolutions are (1, K, L, O); output channel o reads channel o // D, where
D = O / C is the depth multiplier.

Source: TFLite CONV_2D, DEPTHWISE_CONV_2D; `reference/integer_ops/conv.h` and `depthwise_conv.h`,
`reference/conv.h`, `reference/depthwiseconv_float.h`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import EXPORT_FOR_INFERENCE, ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Affines, Arrays, Kernel, Params, Regions, Site, Types, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.tensor import Array, Region, TensorType
from penstock.opkit import layers, onnx_constants, sliding
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.checks import require, require_rank
from penstock.opkit.layers import (
    PlainLayer,
    WeightedOp,
    WindowedLayer,
    exact_dtype,
    in_quads,
    onnx_layer,
)
from penstock.opkit.nodes import in_shape_of_output, is_real
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers, stated_multipliers
from penstock.opkit.sliding import Sliding, Window, foreign_windows
from penstock.opkit.sliding import windows as onnx_windows
from penstock.ops import volumes
from penstock.ops.dynamic_range import convolution_nodes
from penstock.ops.plain import PlainAdd


@frozen
class _Convolution(Sliding, WeightedOp):
    """Shapes, regions and work of a convolution."""

    def group(self, site: Site) -> tuple[int, int]:
        """Numbers of input and of output channels of a group."""
        x, w, _ = site.inputs
        return w.shape[3], w.shape[0] * w.shape[3] // x.shape[3]

    def group_params(self, site: Site) -> Params:
        """Kernel parameters of the groups."""
        return (("groups", site.x.shape[3] // site.inputs[1].shape[3]),)

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, 4)
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

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        x, w, _ = site.inputs
        return (((0, 3), (1, 3)),) if x.shape[3] == w.shape[3] else ()

    def needs(self, site: Site, out: Region) -> Regions:
        group_inputs, group_outputs = self.group(site)
        lower, upper = out.intervals[3]
        groups = (lower // group_outputs, -(-upper // group_outputs))
        channels = (groups[0] * group_inputs, groups[1] * group_inputs)
        read = sliding.needs(self.rows, self.columns, site.x.shape, out)
        return read.replace(3, channels), *self.needed_constants(site, out)

    def affine(self, site: Site) -> Affines:
        spatial = sliding.affine(self.rows, self.columns)
        channels = (0, 0, 0, 0, site.x.shape[3])
        read = Affine((*spatial.matrix[:3], channels), (*spatial.offset[:3], 0))
        return read, *self.affine_constants(site)

    def work(self, site: Site, out: Region) -> Work:
        loops = out.elements * self.rows.size
        return Work(loops * self.columns.size * self.group(site)[0], out.elements, loops)

    def window_params(self, site: Site) -> Params:
        """Kernel parameters of shapes, windows and groups."""
        return (*sliding.params(site, self.rows, self.columns), *self.group_params(site))

    def first_sources(self, site: Site, channels: Int64s) -> Int64s:
        """The first input channel that each output channel reads."""
        group_inputs, group_outputs = self.group(site)
        return channels // group_outputs * group_inputs


@frozen
class _Depthwise(_Convolution):
    """Shapes and regions of a depthwise convolution."""

    multiplier: int = 1

    OUTPUT_AXIS = 3

    def group(self, site: Site) -> tuple[int, int]:
        return 1, self.multiplier

    def group_params(self, site: Site) -> Params:
        return (("multiplier_d", self.multiplier),)

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        return ()

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, 4)
        channels = x.shape[3] * self.multiplier
        expected = (1, self.rows.size, self.columns.size, channels)
        require(w.shape == expected, f"weights are {list(w.shape)}, must be {list(expected)}")
        require(b.shape == (channels,), f"bias has shape {list(b.shape)}, must be [{channels}]")
        return self.image_type(x, channels)

    def affine(self, site: Site) -> Affines:
        read = sliding.channel_fraction(sliding.affine(self.rows, self.columns), self.multiplier)
        return read, *self.affine_constants(site)


@frozen
class _QuantisedConvolution(ExchangedPair, _Convolution, WindowedLayer):
    """Kernels of a convolution with bias, requantisation and clamp."""

    KERNEL: ClassVar[str]

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        return self.requantised(site, self.sums(x, site.x.zero_point, w, out), b, out)

    def kernel(self, site: Site) -> Kernel:
        if site.inputs[1].dtype is layers.WIDE:
            return self.wide_kernel(site, np.arange(site.output.shape[3]))
        return self.layer_kernel(site, self.KERNEL, self.window_params(site))

    def wide_kernel(self, site: Site, channels: Int64s) -> Kernel:
        firsts = self.first_sources(site, channels)
        return self.wide_windows_kernel(site, channels, firsts, self.group(site)[0])


@frozen
class _PlainConvolution(_Convolution, PlainLayer):
    """Arithmetic of a convolution of real numbers with bias and clamp."""

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        channels = out.slices[3]
        weights = w.swapaxes(0, self.OUTPUT_AXIS)
        first = self.first_sources(site, np.arange(channels.start, channels.stop))
        read = sliding.block(x, self.rows, self.columns, out)
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            for k, l, at, tap in sliding.taps_inside(  # noqa: E741
                read, x.shape, self.rows, self.columns, out
            ):
                for c in range(weights.shape[3]):
                    total[at] += tap[..., first + c] * weights[channels, k, l, c]
        return self.finished(total, b, out)


def _slides_along_one_axis(op: _Convolution, site: Site) -> bool:
    """Whether rows, or columns, have extent 1 in the input and in the window."""
    _, height, width, _ = site.x.shape
    return (height, op.rows.size) == (1, 1) or (width, op.columns.size) == (1, 1)


def _scales_channels(op: _Depthwise, site: Site) -> bool:
    """Whether each channel is multiplied by a number and another one is added, as in a batch
    normalisation."""
    return site.inputs[1].shape[:3] == (1, 1, 1) and site.x.shape == site.output.shape


@frozen
class Conv2D(_QuantisedConvolution):
    """Convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    KERNEL = "conv2d_s8"
    TFLITE = ("CONV_2D", "CONV_3D")
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "Conv")
    RELAY = (
        *relay("nn.conv2d", "qnn.conv2d"),
        RelayName("nn.conv1d", condition=_slides_along_one_axis),
        RelayName("qnn.conv1d", condition=_slides_along_one_axis),
    )

    def sums(self, x: Array, zero: int, w: Array, out: Region) -> Array:
        channels, depth = out.slices[3], w.shape[3]
        width = w.shape[0] * depth // x.shape[3]
        kind = exact_dtype(depth, w)
        centred = sliding.block(x, self.rows, self.columns, out).astype(kind) - kind(zero)
        weights = w.astype(kind)
        total = np.zeros(out.shape, exact_dtype(w[0].size, w))
        for k, l, tap in sliding.taps(  # noqa: E741
            centred, x.shape, self.rows, self.columns, out
        ):
            for group in range(x.shape[3] // depth):
                lower = max(group * width, channels.start)
                upper = min((group + 1) * width, channels.stop)
                if lower < upper:
                    source = tap[..., group * depth : (group + 1) * depth].reshape(-1, depth)
                    product = source @ weights[lower:upper, k, l].T
                    inside = slice(lower - channels.start, upper - channels.start)
                    total[..., inside] += product.reshape(*out.shape[:3], upper - lower)
        return total


@frozen
class DepthwiseConv2D(_Depthwise, _QuantisedConvolution):
    """Depthwise convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    KERNEL = "depthwise_conv2d_s8"
    TFLITE = ("DEPTHWISE_CONV_2D",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "BatchNormalization")
    RELAY = (
        *relay("nn.depthwise_conv2d", "qnn.depthwise_conv2d"),
        RelayName("nn.batch_norm", condition=_scales_channels),
    )

    def sums(self, x: Array, zero: int, w: Array, out: Region) -> Array:
        channels, kind = out.slices[3], exact_dtype(w[..., 0].size, w)
        read = sliding.block(x, self.rows, self.columns, out)
        read = read.repeat(self.multiplier, axis=3)[..., channels]
        weights, total = w.astype(kind), np.zeros(out.shape, kind)
        for k, l, tap in sliding.taps(  # noqa: E741
            read.astype(kind) - kind(zero), x.shape, self.rows, self.columns, out
        ):
            total += tap * weights[0, k, l, channels]
        return total


@frozen
class PlainConv2D(_PlainConvolution):
    """Convolution of real numbers with bias and clamp."""

    limits: Limits = FINITE

    RELAY = (*relay("nn.conv2d"), RelayName("nn.conv1d", condition=_slides_along_one_axis))

    def kernel(self, site: Site) -> Kernel:
        groups = site.x.shape[3] // site.inputs[1].shape[3]
        w = site.constant(1)
        quads = in_quads(w.reshape(groups, -1, *w.shape[1:]))
        return self.plain_kernel("conv2d_f32", self.window_params(site), quads)


@frozen
class PlainDepthwiseConv2D(_Depthwise, _PlainConvolution):
    """Depthwise convolution of real numbers with bias and clamp."""

    limits: Limits = FINITE

    RELAY = (*relay("nn.depthwise_conv2d"), RelayName("nn.batch_norm", condition=_scales_channels))

    def kernel(self, site: Site) -> Kernel:
        return self.plain_kernel("depthwise_conv2d_f32", self.window_params(site), site.constant(1))


def from_foreign(node: ForeignNode) -> Nodes:
    if node.name == "CONV_3D":
        yield from in_shape_of_output(node, _foreign_volume_nodes(node))
        return
    x, w = node.x, node.input(1)
    require_rank(x.type, "input", 4)
    require_rank(w.type, "weights", 4)
    rows, columns = foreign_windows(node, x.shape[1:3], w.shape[1:3])
    ops = partial(Conv2D, rows, columns), partial(PlainConv2D, rows, columns)
    if node.name == "DEPTHWISE_CONV_2D":
        attributes = rows, columns, _foreign_multiplier(node, x, w)
        ops = partial(DepthwiseConv2D, *attributes), partial(PlainDepthwiseConv2D, *attributes)
    yield from convolution_nodes(node, *ops)


def _foreign_multiplier(node: ForeignNode, x: Value, w: Value) -> int:
    multiplier, rest = divmod(w.shape[3], max(1, x.shape[3]))
    if rest or not multiplier:
        raise node.unsupported(
            f"weights have {w.shape[3]} channels, must be a multiple of the input's {x.shape[3]}"
        )
    stated = node.integer("depth_multiplier")
    require(
        stated in (0, multiplier),  # redundant, and 0 where the converter leaves it out
        f"depth_multiplier is {stated}, the weights have {multiplier} channels for each input's",
    )
    return multiplier


WEIGHTS_ORDER = (0, 2, 3, 1)
"""From (O, C / G, K, L), as ONNX has weights, to (O, K, L, C / G)."""


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Conv, which is depthwise with a group for each channel, and BatchNormalization that no
    convolution before it could take in."""
    if node.name == "BatchNormalization":
        yield from _normalised(node)
        return
    x, groups = node.x, node.integer("group", 1)
    if x.rank == volumes.RANK:
        yield from _volume_nodes(node, x, groups)
        return
    require_rank(x.type, "input", 4)
    is_plain = is_real(node) or onnx_constants.has_real_constants(node, axis=0)
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


def _foreign_volume_nodes(node: ForeignNode) -> Nodes:
    """TFLite CONV_3D of real numbers.

    Source: `reference/conv3d.h`."""
    is_same = node.choice("padding", ("SAME", "VALID")) == "SAME"
    form = volumes.foreign_form(
        node, "Conv", node.x, FOREIGN_ORDER, node.optional(2),
        auto_pad="SAME_UPPER" if is_same else "VALID",
    )  # fmt: skip
    return _volume_nodes(form, node.x, 1, Limits.of(fused_activation(node)))


def _volume_nodes(node: OnnxNode, x: Value, groups: int, limits: Limits = UNLIMITED) -> Nodes:
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


def _plain_nodes(node: OnnxNode, w: Value, rows: Window, columns: Window) -> Nodes:
    """Nodes of a convolution of real numbers by weights (O, K, L, C / groups)."""
    real = RealNodes(node)
    x, (outputs, *_, depth) = real.input(0), w.shape
    channels = x.shape[3]
    bias = real.constant(onnx_constants.real_bias(node, 2, outputs), "bias")
    op = PlainConv2D(rows, columns, UNLIMITED)
    if channels > depth == 1 and outputs % channels == 0:
        elements = np.ascontiguousarray(w.array.transpose(3, 1, 2, 0))
        w = Value.constant(w.name, elements)
        op = PlainDepthwiseConv2D(rows, columns, outputs // channels, UNLIMITED)
    yield from real.result(real.apply(op, x, w, bias))


def grouped_nodes(node: OnnxNode, x: Value, w: Value, rows: Window, columns: Window) -> Nodes:
    """Nodes of an ONNX convolution by weights (O, K, L, C / groups), and bias input 2."""
    outputs, groups = w.shape[0], x.shape[3] // w.shape[3]
    if groups == x.shape[3] > 1 and layers.centred(w) is not None:
        multiplier, rest = divmod(outputs, groups)
        require(
            multiplier > 0 and not rest, f"weights have {outputs} channels, groups are {groups}"
        )
        w = layers.exchanged_ends(w)
        make = partial(DepthwiseConv2D, rows, columns, multiplier)
    else:
        x, w, made = layers.centred_layer(node.y.name, x, w, groups)
        yield from made
        make = partial(Conv2D, rows, columns)
    b = onnx_constants.bias(node, 2, x, w, outputs)
    yield onnx_layer(make(stated=stated_multipliers(node, outputs)), node, x, w, b)


def averaged(node: OnnxNode, x: Value, rows: Window, columns: Window, count: int) -> Made:
    """The node that computes the sum under a window, padding as zeros, divided by `count`, by equal
    weights."""
    shape = (1, rows.size, columns.size, x.shape[3])
    ones = np.full(shape, 1 / count, np.float32)
    name = node.y.name
    w = onnx_constants.of_reals(f"{name}/ones", ones, axis=3)
    b = onnx_constants.of_real_bias(node, f"{name}/no_bias", np.zeros(shape[3]), x, w)
    op = DepthwiseConv2D(rows, columns)
    return onnx_layer(op, node, x, w, b)


def _normalised(node: OnnxNode) -> Nodes:
    x = node.x
    require_rank(x.type, "input", 4, 5)
    if node.integer("training_mode", 0):
        raise node.unsupported("training_mode is 1, must be 0", help=EXPORT_FOR_INFERENCE)
    shape = x.shape
    factors, offsets = onnx_constants.normalisation(node, shape[-1])
    if is_real(node) or len(shape) > 4:
        real = RealNodes(node)
        w = real.constant(factors.reshape(1, 1, 1, -1), "factors")
        op = PlainDepthwiseConv2D(Window(1), Window(1), 1, UNLIMITED)
        image = real.reshape(real.input(0), (math.prod(shape[:-3]), *shape[-3:]))
        found = real.apply(op, image, w, real.constant(offsets, "offsets"))
        yield from real.result(real.reshape(found, shape))
        return
    name = node.y.name
    w = onnx_constants.of_reals(
        f"{name}/factors", factors.reshape(1, 1, 1, -1).astype(np.float32), axis=3
    )
    b = onnx_constants.of_real_bias(node, f"{name}/offsets", offsets, x, w)
    yield onnx_layer(DepthwiseConv2D(Window(1), Window(1)), node, x, w, b)
