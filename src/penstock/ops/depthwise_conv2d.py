"""Depthwise convolution: convolves each input channel with `multiplier` windows of its own.

    x  (N, H,  W,  C)      int8    float32
    w  (1, K,  L,  C * D)  int8    float32    int8: zero point 0; one scale, or one per output;
                                              int16 if wide
    b  (C * D)             int32   float32    int32: scale x.scale * w.scale
    y  (N, Ho, Wo, C * D)  int8    float32

D is the depth multiplier; output channel o reads channel o // D.

Source: TFLite DEPTHWISE_CONV_2D; `reference/integer_ops/depthwise_conv.h`,
`reference/depthwiseconv_float.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import EXPORT_FOR_INFERENCE, ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Params, Site, Types, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import layers, onnx_constants, sliding
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits
from penstock.opkit.checks import require, require_rank
from penstock.opkit.layers import (
    PlainLayer,
    WeightedOp,
    WindowedLayer,
    onnx_layer,
)
from penstock.opkit.nodes import is_real
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers, stated_multipliers
from penstock.opkit.sliding import Sliding, Window, foreign_windows
from penstock.ops.dynamic_range import convolution_nodes


@dataclass(frozen=True, slots=True)
class _Depthwise(Sliding, WeightedOp):
    """Shapes, regions and work of a depthwise convolution."""

    multiplier: int = 1

    OUTPUT_AXIS = 3

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, "depthwise convolution", 4)
        channels = x.shape[3] * self.multiplier
        expected = (1, self.rows.size, self.columns.size, channels)
        require(w.shape == expected, f"weights are {list(w.shape)}, must be {list(expected)}")
        require(b.shape == (channels,), f"bias has shape {list(b.shape)}, must be [{channels}]")
        return self.image_type(x, channels)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        lower, upper = out.intervals[3]
        channels = (lower // self.multiplier, -(-upper // self.multiplier))
        read = sliding.needs(self.rows, self.columns, site.inputs[0].shape, out)
        return read.replace(3, channels), *self.needed_constants(site, out)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        read = sliding.channel_fraction(sliding.affine(self.rows, self.columns), self.multiplier)
        return read, *self.affine_constants(site)

    def work(self, site: Site, out: Region) -> Work:
        loops = out.elements * self.rows.size
        return Work(loops * self.columns.size, out.elements, loops)

    def window_params(self, site: Site) -> Params:
        """Kernel parameters of shapes, windows and multiplier."""
        return (
            *sliding.shape_params(site.inputs[0].shape, site.output.shape),
            *sliding.window_params(self.rows, self.columns),
            ("multiplier_d", self.multiplier),
        )


def _scales_channels(op: _Depthwise, site: Site) -> bool:
    """Whether each channel is multiplied by a number and another one is added, as in a batch
    normalisation."""
    return site.inputs[1].shape[:3] == (1, 1, 1) and site.inputs[0].shape == site.output.shape


@dataclass(frozen=True, slots=True)
class DepthwiseConv2D(ExchangedPair, _Depthwise, WindowedLayer):
    """Depthwise convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    TFLITE = ("DEPTHWISE_CONV_2D",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "BatchNormalization")
    RELAY = (
        *relay("nn.depthwise_conv2d", "qnn.depthwise_conv2d"),
        RelayName("nn.batch_norm", condition=_scales_channels),
    )

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        channels = out.slices[3]
        sources = np.arange(channels.start, channels.stop) // self.multiplier
        read = sliding.block(x, self.rows, self.columns, out)
        centred = read[..., sources].astype(np.int32) - site.inputs[0].zero_point
        # int32 is enough: `layer_node` refuses layers whose accumulators may overflow it.
        total = np.zeros(out.shape, np.int32)
        for k, l, tap in sliding.taps(  # noqa: E741
            centred, x.shape, self.rows, self.columns, out
        ):
            total += tap * w[0, k, l, channels].astype(np.int32)
        return self.requantised(site, total, b, out)

    def kernel(self, site: Site) -> Kernel:
        w = site.inputs[1]
        if w.dtype is layers.WIDE:
            return self.wide_kernel(site, np.arange(w.shape[3]))
        return self.layer_kernel(site, "depthwise_conv2d_s8", self.window_params(site))

    def wide_kernel(self, site: Site, channels: Int64s) -> Kernel:
        return self.wide_windows_kernel(site, channels, channels // self.multiplier, 1)


@dataclass(frozen=True, slots=True)
class PlainDepthwiseConv2D(_Depthwise, PlainLayer):
    """Depthwise convolution of real numbers with bias and clamp."""

    limits: Limits = FINITE

    RELAY = (*relay("nn.depthwise_conv2d"), RelayName("nn.batch_norm", condition=_scales_channels))

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        channels = out.slices[3]
        sources = np.arange(channels.start, channels.stop) // self.multiplier
        read = sliding.block(x, self.rows, self.columns, out)[..., sources]
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            for k, l, at, tap in sliding.taps_inside(  # noqa: E741
                read, x.shape, self.rows, self.columns, out
            ):
                total[at] += tap * w[0, k, l, channels]
        return self.finished(total, b, out)

    def kernel(self, site: Site) -> Kernel:
        return self.plain_kernel("depthwise_conv2d_f32", self.window_params(site), site.constant(1))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    x, w = node.input(0), node.input(1)
    require_rank(x.type, (4,), "input")
    require_rank(w.type, (4,), "weights")
    rows, columns = foreign_windows(node, x.shape[1:3], w.shape[1:3])
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
    attributes = rows, columns, multiplier
    ops = partial(DepthwiseConv2D, *attributes), partial(PlainDepthwiseConv2D, *attributes)
    yield from convolution_nodes(node, *ops)


def of_onnx_groups(node: OnnxNode, x: Value, w: Value, rows: Window, columns: Window) -> Made:
    """The node of an ONNX convolution with a group for each input channel.

    w: weights (O, K, L, 1) that int8 holds less their zero points."""
    multiplier, rest = divmod(w.shape[0], x.shape[3])
    require(
        multiplier > 0 and not rest,
        f"weights have {w.shape[0]} channels, groups are {x.shape[3]}",
    )
    w = layers.exchanged_ends(w)
    channels = w.shape[3]
    b = onnx_constants.bias(node, 2, x, w, channels)
    op = DepthwiseConv2D(rows, columns, multiplier, stated=stated_multipliers(node, channels))
    return onnx_layer(op, node, x, w, b)


def plain_nodes(
    real: RealNodes, x: Value, w: Value, b: Value, windows: tuple[Window, Window]
) -> Iterable[Made]:
    """Nodes of an ONNX convolution of real numbers with a group for each channel.

    w: weights (O, K, L, 1)."""
    elements = np.ascontiguousarray(w.array.transpose(3, 1, 2, 0))
    multiplier = w.shape[0] // x.shape[3]
    op = PlainDepthwiseConv2D(*windows, multiplier, UNLIMITED)
    yield from real.result(real.apply(op, x, Value.constant(w.name, elements), b))


def scaled_channels(node: OnnxNode, x: Value, factors: Array, offsets: Array) -> Made:
    """Nodes that compute channel c times factors[c] plus offsets[c], as a window of one tap."""
    w = onnx_constants.of_reals(
        f"{node.output().name}/factors", factors.reshape(1, 1, 1, -1).astype(np.float32), axis=3
    )
    b = onnx_constants.of_real_bias(node, f"{node.output().name}/offsets", offsets, x, w)
    op = DepthwiseConv2D(Window(1), Window(1))
    return onnx_layer(op, node, x, w, b)


def averaged(node: OnnxNode, x: Value, rows: Window, columns: Window, count: int) -> Made:
    """The node that computes the sum under a window, padding as zeros, divided by `count`, by equal
    weights."""
    shape = (1, rows.size, columns.size, x.shape[3])
    ones = np.full(shape, 1 / count, np.float32)
    name = node.output().name
    w = onnx_constants.of_reals(f"{name}/ones", ones, axis=3)
    b = onnx_constants.of_real_bias(node, f"{name}/no_bias", np.zeros(shape[3]), x, w)
    op = DepthwiseConv2D(rows, columns)
    return onnx_layer(op, node, x, w, b)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX BatchNormalization that no convolution before it could take in."""
    x = node.input(0)
    require_rank(x.type, (4, 5), "input")
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
    yield scaled_channels(node, x, factors, offsets)
