"""The one place that decides which kernel serves a node on a core with DSP extension."""

from __future__ import annotations

import math

import numpy as np

from penstock.backends.cortex_m import taps, tiles
from penstock.backends.cortex_m.layer import layer_of
from penstock.fixedpoint import Int64s
from penstock.ir.graph import Node
from penstock.ir.op import Kernel, Site, row_count
from penstock.ir.region import Region
from penstock.ops import sliding
from penstock.ops.add import Add
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.sub import Sub
from penstock.ops.window import Window
from penstock.requantisation.pairs import INPUTS, weighted_sum


def dsp_kernel(node: Node) -> Kernel | None:
    """The special kernel of a node; None where the portable one serves."""
    match node.op:
        case Conv2D() as op:
            return _convolution(op, node.site)
        case DepthwiseConv2D() as op:
            return _depthwise(op, node.site)
        case FullyConnected() as op:
            return _fully_connected(op, node.site)
        case Add() | Sub() as op:
            return _sum(op, node.site)
        case _:
            return None


def _convolution(op: Conv2D, site: Site) -> Kernel | None:
    """Two windows with four output channels at a time; one group, and sums that fit 24 bits."""
    x, w, _ = site.inputs
    if w.shape[3] != x.shape[3]:
        return None
    layer = layer_of(op, site, tiles.FRACTION_BITS)
    if layer is None:
        return None
    row_elements = op.columns.size * x.shape[3]
    weights = tiles.packed_weights(layer.weights[:, tiles.window_order(op.rows.size, row_elements)])
    if weights is None:
        return None
    pairs = -(-op.rows.size * row_elements // 2)
    is_padded = op.columns.dilation > 1 or _padding(op) > 0
    return Kernel(
        "conv2d_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("in_zero", x.zero_point),
            ("pairs", pairs),
            *layer.clamps,
        ),
        tables=(("weights", weights), ("scales", tiles.packed_scales(layer))),
        folded=(1, 2),
        scratch_bytes=8 * pairs + row_elements * is_padded,
        by_rows=True,
    )


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """Four channels at a time; a window for each channel, of not too many taps."""
    x = site.inputs[0]
    count = op.rows.size * op.columns.size
    if op.multiplier != 1 or x.shape[3] < taps.QUAD or count > taps.MOST_TAPS:
        return None
    layer = layer_of(op, site, taps.FRACTION_BITS)
    if layer is None:
        return None
    return Kernel(
        "depthwise_conv2d_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("in_zero", x.zero_point),
            ("inner_lower", -(-op.columns.before // op.columns.stride)),
            ("inner_upper", _inner_upper(op.columns, x.shape[2])),
            *layer.clamps,
        ),
        tables=(
            ("weights", taps.packed_weights(layer.weights)),
            ("scales", taps.packed_scales(layer)),
        ),
        folded=(1, 2),
        scratch_bytes=x.shape[3],
        by_rows=True,
    )


def _fully_connected(op: FullyConnected, site: Site) -> Kernel | None:
    """Four outputs at a time; inputs in fours."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    if depth % tiles.QUAD:
        return None
    layer = layer_of(op, site, tiles.FRACTION_BITS)
    if layer is None:
        return None
    weights = tiles.packed_weights(layer.weights[:, tiles.window_order(1, depth)])
    if weights is None:
        return None
    return Kernel(
        "fully_connected_s8_dsp",
        params=(
            ("batches", x.elements // depth),
            ("in_c", depth),
            ("out_c", outputs),
            *layer.clamps,
        ),
        tables=(("weights", weights), ("scales", tiles.packed_scales(layer))),
        folded=(1, 2),
    )


def _sum(op: Add | Sub, site: Site) -> Kernel | None:
    """A weighted sum and a shift, for tensors of one shape."""
    shape = site.output.shape
    if any(x.shape != shape for x in site.inputs):
        return None
    least, most = op.activation.bounds(site.output)
    scales = [x.scale / site.output.scale for x in site.inputs]
    outputs = _every_pair(op, site)
    found = weighted_sum(outputs, scales[0], op.SIGN * scales[1], least, most)
    if found is None:
        return None
    return Kernel(
        "add_s8_dsp",
        params=(
            ("row_elements", math.prod(shape) // row_count(shape)),
            ("left", found.left),
            ("right", found.right),
            ("offset", found.offset),
            ("shift", found.shift),
            ("least", least),
            ("most", most),
        ),
        by_rows=True,
    )


def _every_pair(op: Add | Sub, site: Site) -> Int64s:
    """Outputs (256, 256) of all pairs of inputs, by the operator's own arithmetic."""
    shape = (256, 256)
    left, right, output = (type.with_shape(shape) for type in (*site.inputs, site.output))
    a, b = np.broadcast_arrays(INPUTS[:, None], INPUTS)
    inputs = (a.astype(np.int8), b.astype(np.int8))
    pairs = Site((left, right), output, (None, None))
    return op.evaluate(pairs, inputs, Region.whole(shape)).astype(np.int64)


def _inner_upper(window: Window, extent: int) -> int:
    """The output index from which on windows leave an axis of `extent` at its upper end."""
    return max(0, (extent - window.extent + window.before) // window.stride + 1)


def _padding(op: Conv2D) -> int:
    """Rows and columns around the tensor."""
    windows = (op.rows, op.columns)
    return sum(window.before + window.after for window in windows)
