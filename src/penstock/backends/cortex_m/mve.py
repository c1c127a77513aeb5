"""Kernels for cores with MVE: Cortex-M55."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from penstock.backends.cortex_m import instructions
from penstock.backends.cortex_m.dsp import dsp_kernel
from penstock.backends.cortex_m.layer import Layer, LayerOp, layer_of
from penstock.backends.cortex_m.params import sum_params
from penstock.fixedpoint import Int64s
from penstock.ir.op import Kernel, Op, Site, Table, row_count
from penstock.ops import sliding
from penstock.ops.add import Add
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.sub import Sub
from penstock.ops.window import Window
from penstock.requantisation.channels import reachable

FRACTION_BITS = (9, 8)
"""Those that are tried: more of them, where sums leave room."""
MOST_STRIP_BYTES = 4096
"""Of scratch for the windows of a row."""
LEAST_POOLED, MOST_POOLED = 16, 255
"""Elements under a window: fewer are not worth it, more might not add up in 16 bits."""
VECTOR, QUAD, EIGHT, NINE = 16, 4, 8, 9
LANES = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])
"""Channels of a block, in the order in which widening leaves them."""


def mve_kernel(op: Op, site: Site) -> Kernel | None:
    """The special kernel of an operator, one for cores with DSP extension where there is none with
    vectors; None where the portable one serves."""
    return _with_vectors(op, site) or dsp_kernel(op, site)


def _with_vectors(op: Op, site: Site) -> Kernel | None:
    match op:
        case Conv2D() if site.inputs[0].shape[3] == site.inputs[1].shape[3]:
            return _convolution(op, site)
        case DepthwiseConv2D() if site.inputs[0].shape[3] == 1:
            return _convolution(op, site)
        case DepthwiseConv2D():
            return _depthwise(op, site)
        case FullyConnected():
            return _fully_connected(op, site)
        case Add() | Sub():
            return _sum(op, site)
        case AveragePool2D():
            return _average_pool(op, site)
        case _:
            return None


def _layer(op: LayerOp, site: Site, order: Int64s) -> tuple[Layer, int] | None:
    """A layer with certified requantisation, and its bits of fraction."""
    found = ((layer_of(op, site, bits, order), bits) for bits in FRACTION_BITS)
    return next(((layer, bits) for layer, bits in found if layer is not None), None)


def _scaling(layer: Layer, bits: int) -> tuple[tuple[str, int], ...]:
    """Members of a kernel's parameters that say how outputs are made of sums."""
    form = layer.form
    return (
        ("least", layer.least),
        ("most", layer.most),
        ("multiplier", 1 << bits),
        ("left", 24 - form.shift),
        ("is_signed", int(form.corrects)),
    )


def _convolution(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel | None:
    """Two windows with four output channels at a time, where each reads all input channels."""
    x, outputs = site.inputs[0], site.output.shape[3]
    found = _layer(op, site, np.arange(outputs))
    if found is None:
        return None
    layer, bits = found
    weights = layer.weights
    steps = -(-weights.shape[1] // VECTOR)
    strips = _strips(op, site)
    if strips:
        by_taps = weights.reshape(outputs, op.rows.size, op.columns.size, x.shape[3])
        weights = by_taps.swapaxes(1, 2).reshape(weights.shape)
    lower, upper = _inside(op.columns, x.shape[2])
    lower, upper = (lower, upper) if op.columns.dilation == 1 else (0, 0)
    there = min(upper, _there(op, x.shape, steps))
    return Kernel(
        "conv2d_s8_mve",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("in_zero", x.zero_point),
            ("inner_lower", lower),
            ("inner_upper", upper),
            ("there_upper", there),
            ("strips", strips),
            ("steps", steps),
            ("quads", outputs // QUAD),
            ("quads_rest", outputs % QUAD),
            ("quad_words", 13 if layer.form.corrects else 9),
            *_scaling(layer, bits),
        ),
        tables=(
            ("weights", _packed_weights(weights, QUAD)),
            ("scales", _packed_scales(layer, QUAD)),
        ),
        folded=(1, 2),
        scratch_bytes=strips * op.rows.size * x.shape[3] + VECTOR if strips else 2 * steps * VECTOR,
        by_rows=True,
        classes=layer.classes,
        work_cycles=instructions.of_convolution(
            math.prod(site.output.shape[:3]),
            outputs,
            steps,
            0 if there > lower else _gather(op, site, strips, steps),
            signed=layer.form.corrects,
        ),
    )


def _gather(op: Conv2D | DepthwiseConv2D, site: Site, strips: int, steps: int) -> int:
    """Instructions that put windows together."""
    images, height, width, _ = site.output.shape
    if strips:
        copies = images * height * op.rows.size * strips
        return instructions.of_strips(copies, site.inputs[0].shape[3])
    return instructions.of_windows(images * height * width, op.rows.size, steps)


def _strips(op: Conv2D | DepthwiseConv2D, site: Site) -> int:
    """Columns of all windows of a row, where it is worth it to put them together side by side: a
    column of theirs fills vectors, windows share it, and scratch is small; else 0."""
    channels = site.inputs[0].shape[3]
    strips = (site.output.shape[2] - 1) * op.columns.stride + op.columns.size
    shared = op.columns.dilation == 1 and op.columns.size > op.columns.stride
    small = strips * op.rows.size * channels <= MOST_STRIP_BYTES
    return strips if shared and small and channels >= VECTOR else 0


def _there(op: Conv2D | DepthwiseConv2D, shape: tuple[int, ...], steps: int) -> int:
    """Output columns below it have windows that are one run of bytes, vectors of which end inside
    the row."""
    if op.rows.size > 1:
        return 0
    last = shape[2] - -(-steps * VECTOR // shape[3])
    return max(0, (last + op.columns.before) // op.columns.stride + 1) if last >= 0 else 0


def _inside(window: Window, extent: int) -> tuple[int, int]:
    """Outputs [lower, upper) whose windows lie inside an axis of `extent`."""
    lower = -(-window.before // window.stride)
    return lower, max(0, (extent - window.extent + window.before) // window.stride + 1)


def _packed_weights(weights: Int64s, together: int) -> Table:
    """Weights (channels, taps): for so many channels together, vector by vector."""
    channels, taps = weights.shape
    padded = np.zeros((-(-channels // together) * together, -(-taps // VECTOR) * VECTOR), np.int8)
    padded[:channels, :taps] = weights
    return Table.of(padded.reshape(-1, together, padded.shape[1] // VECTOR, VECTOR)
                    .swapaxes(1, 2).ravel())  # fmt: skip


def _packed_scales(layer: Layer, together: int) -> Table:
    """For so many channels together: the base of each four; offsets, corrections if there are any,
    factors."""
    columns = _columns(layer)
    padded = np.zeros((len(columns), -(-columns.shape[1] // together) * together), np.int64)
    padded[:, : columns.shape[1]] = columns
    groups = padded.reshape(len(columns), -1, together).swapaxes(0, 1)
    bases = groups[:, 0, ::QUAD]
    words = np.hstack([bases, groups[:, 1:].reshape(len(groups), -1)])
    return Table.of(words.astype(np.int32).ravel())


def _columns(layer: Layer) -> Int64s:
    """(3 or 4, channels): base, offset, correction if there is any, factor."""
    form = layer.form
    corrections = (form.correction,) if form.corrects else ()
    return np.stack([form.base, layer.offset, *corrections, form.factor])


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """Sixteen channels, or two pixels of eight, at a time; a window of nine taps for each."""
    x = site.inputs[0]
    channels, together = x.shape[3], _together(op, site)
    if not together:
        return None
    found = _layer(op, site, _blocks(channels)[:, LANES].ravel())
    if found is None or not _pairs_fit(found[0].weights):
        return None
    layer, bits = found
    blocks = _packed_blocks(layer)
    lower, upper = _inside(op.columns, x.shape[2])
    return Kernel(
        "depthwise_conv2d_s8_mve",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("in_zero", x.zero_point),
            ("inner_lower", lower),
            ("inner_upper", upper),
            ("together", together),
            ("block_bytes", blocks.shape[1]),
            *_scaling(layer, bits),
        ),
        tables=(("weights", Table.of(blocks.ravel())),),
        folded=(1, 2),
        scratch_bytes=channels if together == 1 else (1 + NINE) * VECTOR,
        by_rows=True,
        classes=layer.classes,
        work_cycles=instructions.of_depthwise(
            math.prod(site.output.shape[:3]) // together,
            len(blocks),
            _runs(op, site),
            signed=layer.form.corrects,
        ),
    )


def _together(op: DepthwiseConv2D, site: Site) -> int:
    """Pixels of a block; 0 where vectors do not serve the layer."""
    channels = site.inputs[0].shape[3]
    if op.multiplier != 1 or op.rows.size != 3 or op.columns.size != 3:
        return 0
    if channels == EIGHT and op.columns.stride == 1:
        return VECTOR // EIGHT
    return int(channels >= VECTOR)


def _blocks(channels: int) -> Int64s:
    """(blocks, 16): the channels of each block; the last overlaps that before where they fill none;
    eight channels twice.

    >>> _blocks(20)[:, 0].tolist(), _blocks(8).tolist()[0][7:9]
    ([0, 4], [7, 0])
    """
    starts = [*range(0, channels - VECTOR + 1, VECTOR)] or [0]
    tail = [channels - VECTOR] if channels > VECTOR and channels % VECTOR else []
    return (np.array([*starts, *tail])[:, None] + np.arange(VECTOR)) % channels


def _pairs_fit(weights: Int64s) -> bool:
    """Whether the products of two neighbouring taps fit 16 bits, whatever the inputs are."""
    pairs = weights[:, : NINE - 1].reshape(-1, 2)
    lower, upper = reachable(pairs, np.zeros(len(pairs), np.int64), -128, 128)
    return bool(lower.min() >= -(2**15) and upper.max() <= 2**15)


def _packed_blocks(layer: Layer) -> np.typing.NDArray[np.int8]:
    """(blocks, bytes): weights tap by tap; offsets, corrections if any, factors; the
    base of each four."""
    weights = np.zeros((len(layer.weights) // VECTOR, NINE, VECTOR), np.int8)
    lanes = layer.weights.reshape(-1, VECTOR, NINE)
    weights[:, :, LANES] = lanes.swapaxes(1, 2)
    base, *others = _columns(layer).reshape(-1, len(weights), VECTOR)
    words = np.hstack([*others, base[:, ::QUAD]]).astype("<i4")
    return np.hstack([weights.reshape(len(weights), -1), words.view(np.int8)])


def _runs(op: DepthwiseConv2D, site: Site) -> int:
    """How often taps are found: once for the inner columns of inner rows, else pixel by pixel."""
    images, height, width, _ = site.output.shape
    _, rows, columns, _ = site.inputs[0].shape
    top, bottom = _inside(op.rows, rows)
    left, right = _inside(op.columns, columns)
    inner_rows = max(0, min(height, bottom) - top)
    return images * (height * width - inner_rows * max(0, min(width, right) - left - 1))


def _fully_connected(op: FullyConnected, site: Site) -> Kernel | None:
    """Eight outputs at a time."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    found = _layer(op, site, np.arange(outputs))
    if found is None:
        return None
    layer, bits = found
    steps, batches = -(-depth // VECTOR), x.elements // depth
    return Kernel(
        "fully_connected_s8_mve",
        params=(
            ("batches", batches),
            ("in_c", depth),
            ("out_c", outputs),
            ("steps", steps),
            ("eight_words", 26 if layer.form.corrects else 18),
            *_scaling(layer, bits),
        ),
        tables=(
            ("weights", _packed_weights(layer.weights, EIGHT)),
            ("scales", _packed_scales(layer, EIGHT)),
        ),
        folded=(1, 2),
        scratch_bytes=steps * VECTOR,
        classes=layer.classes,
        work_cycles=instructions.of_fully_connected(
            batches, outputs, steps, signed=layer.form.corrects
        ),
    )


def _sum(op: Add | Sub, site: Site) -> Kernel | None:
    """A weighted sum and a shift, for tensors of one shape."""
    found = sum_params(op, site)
    if found is None:
        return None
    shape = site.output.shape
    return Kernel(
        "add_s8_mve",
        params=found,
        by_rows=True,
        work_cycles=instructions.of_sum(math.prod(shape), row_count(shape)),
    )


def _average_pool(op: AveragePool2D, site: Site) -> Kernel | None:
    """Eight channels at a time; windows large enough to be worth it, and not too large."""
    elements = op.rows.size * op.columns.size
    if site.output.shape[3] % EIGHT or not LEAST_POOLED <= elements <= MOST_POOLED:
        return None
    return replace(
        op.kernel(site),
        name="average_pool2d_s8_mve",
        work_cycles=instructions.of_average_pool(
            site.output.elements // EIGHT, op.rows.size, op.columns.size
        ),
    )
