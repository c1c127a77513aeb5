"""Selection of kernels for Cortex-M0 and M0+.  Their multiplier yields only the low 32 bits of a
product, so requantisation must avoid 64-bit products."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from penstock.backends.cores.common.layer import (
    INT8_OPERATORS,
    LayerOp,
    for_element_types,
    inner_columns,
    separate_forms_kernel,
    sum_params,
    variable_channels,
    variable_weights,
)
from penstock.backends.cores.thumb import cycles
from penstock.backends.cores.thumb.tables import ThumbLayer, by_fours, by_pairs, by_rows, by_taps
from penstock.ir.op import Kernel, Op, Site, Table, members, row_kernel
from penstock.ir.tensor import row_count
from penstock.opkit import sliding
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D
from penstock.requantisation.clamped import ClampedCertificate, certify_clamped

MOST_TAPS = 25  # Largest number of taps of the depthwise kernel, the size of its array of pointers.
# Exclusive upper bound of a channel's sum of absolute weights, so that dot products fit int32.
MOST_WEIGHT_SUM = 2**24


@for_element_types(INT8_OPERATORS)
def thumb_kernel(op: Op, site: Site) -> Kernel | None:
    """Return the Thumb kernel for an operator; None if there is none."""
    match op:
        case Conv2D() if site.x.shape[3] == site.inputs[1].shape[3]:
            return _convolution(op, site)
        case DepthwiseConv2D() if site.x.shape[3] == 1:
            return _convolution(op, site)
        case DepthwiseConv2D():
            return _depthwise(op, site)
        case FullyConnected():
            return _fully_connected(op, site)
        case Add() | Sub():
            return _sum(op, site)
        case AveragePool2D():
            estimate = cycles.average_pool(site.output.elements, op.rows.size, op.columns.size)
            return replace(op.kernel(site), work_cycles=estimate)
        case _:
            return None


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site) -> ClampedCertificate:
    """Return constants with which a layer is requantised without 64-bit products."""
    # The constants are proved to yield the outputs of the reference runtime for every accumulator
    # that can occur.  The `form` of the certificate is None if some channel has no such constants.
    return certify_clamped(variable_channels(op, site))


def _layer(op: LayerOp, site: Site) -> ThumbLayer | None:
    """Returns None if the requantisation is not proved bit-exact for all channels, or if dot
    products may exceed int32 because a channel's absolute weights add up to `MOST_WEIGHT_SUM` or
    more."""
    found = certificate(op, site)
    if (form := found.form) is None:
        return None
    weights, channels = variable_weights(op, site), variable_channels(op, site)
    if np.abs(weights).sum(axis=1).max() >= MOST_WEIGHT_SUM:
        return None
    bias = site.constant(2).astype(np.int64) - site.x.zero_point * weights.sum(axis=1)
    outputs = channels.outputs(channels.lower[:, None])[:, 0]
    classes = "".join(each.value for each in found.classes)
    return ThumbLayer(weights, bias, form, [not row.any() for row in weights], outputs, classes)


def _convolution(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel | None:
    """The convolution kernel, which computes two pixels of two output channels at a time."""
    # Each output channel must read all input channels, so a depthwise convolution must have a
    # single input channel.  Returns None if the kernel's requantisation is not proved bit-exact, if
    # a channel's weights are too large (`_layer`), or if the sum of the products of two taps may
    # exceed 16 bits.
    x = site.x
    layer = _layer(op, site)
    if layer is None:
        return None
    found = by_pairs(layer)
    if found is None:
        return None
    row_elements = op.columns.size * x.shape[3]
    words = -(-op.rows.size * row_elements // 2) * 2
    pair = cycles.dot_products(
        found.words, found.blocks, found.groups, signed=layer.corrects
    ) + cycles.gathered_windows(
        op.rows.size, row_elements, site.output.shape[3] * any(layer.is_constant)
    )
    return replace(
        row_kernel(
            "conv2d_s8_thumb",
            sliding.params(site, op.rows, op.columns),
            members(in_zero=x.zero_point),
            _contiguous_columns(op.columns, x.shape[2]),
            words=words,
            groups=found.groups,
            is_signed=layer.corrects,
            has_idle=int(any(layer.is_constant)),
            weights=_table(found.content or bytes(4)),
            idle=Table.of(layer.outputs.astype(np.int8)),
            folded=(1, 2),
        ),
        scratch_bytes=4 * words + 2 * row_elements,
        classes=layer.classes,
        skips_constant=any(layer.is_constant),
        work_cycles=round(_pixel_pairs(site) * pair + _row_and_gather_cycles(op, site)),
        odd_cycles=_odd_cycles(site, pair),
    )


def _pixel_pairs(site: Site) -> float:
    """The number of pairs of output pixels; a remaining pixel counts as half a pair."""
    return math.prod(site.output.shape[:3]) / 2


def _odd_cycles(site: Site, pair: float) -> int:
    # The kernel computes pixels in pairs, and `Kernel.work_cycles` includes half the cycles of a
    # pair for each pixel.  An odd number of rows of odd length has an odd number of pixels: the
    # last one takes as long as a pair, so the result is half the cycles of a pair.  If the length
    # of a row is even, the result is 0.
    return round(site.output.shape[2] % 2 * pair / 2)


def _row_and_gather_cycles(op: Conv2D | DepthwiseConv2D, site: Site) -> float:
    """The cycles of a convolution that are not counted per pair of pixels."""
    # They are a constant per output row, plus the cycles of gathering window rows column by column.
    # The kernel gathers rows that extend into the padding, and rows of dilated windows.
    x, (images, height, width, _) = site.x.shape, site.output.shape
    (_, lower), (_, upper) = _contiguous_columns(op.columns, x[2])
    inner = max(0, min(width, upper) - lower)
    inside = sum(
        0 <= row * op.rows.stride - op.rows.before + k * op.rows.dilation < x[1]
        for row in range(height)
        for k in range(op.rows.size)
    )
    every = height * op.rows.size
    lines = images * ((width - inner) * every + inner * (every - inside))
    lined = cycles.gathered_lines(lines, op.columns.size, op.columns.size * x[3])
    return lined + images * height * cycles.OUTPUT_ROW


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """The depthwise kernel, which computes two pixels of a channel at a time.

    Returns None if the channel multiplier is not 1, if there are more than `MOST_TAPS` taps, if the
    kernel's requantisation is not proved bit-exact, or if dot products may exceed int32 (`_layer`).
    """
    x = site.x
    count = op.rows.size * op.columns.size
    if op.multiplier != 1 or count > MOST_TAPS:
        return None
    layer = _layer(op, site)
    if layer is None:
        return None
    pair = cycles.depthwise(x.shape[3], count, signed=layer.corrects)
    found = _address_computations(op, site) * count * cycles.FOUND_TAP
    rows = row_count(site.output.shape) * cycles.TAPS_ROW
    return replace(
        row_kernel(
            "depthwise_conv2d_s8_thumb",
            sliding.params(site, op.rows, op.columns),
            members(in_zero=x.zero_point),
            inner_columns(op.columns, x.shape[2]),
            is_signed=layer.corrects,
            weights=_table(by_taps(layer)),
            folded=(1, 2),
        ),
        scratch_bytes=x.shape[3],
        classes=layer.classes,
        work_cycles=round(_pixel_pairs(site) * pair) + found + rows,
        odd_cycles=_odd_cycles(site, pair),
    )


def _address_computations(op: DepthwiseConv2D, site: Site) -> int:
    """For how many output pixels the depthwise kernel computes the addresses of taps anew,
    instead of incrementing those of the previous pixel."""
    # In a row of output pixels, it increments them within one run: the pixels whose windows are
    # entirely inside the input, or all but the last of them if their number is odd.  For example,
    # if 5 of 7 windows are inside, the run has 4 pixels.  The kernel computes the addresses for 4
    # of the 7 pixels: the first one of the run, and the three that are not in the run.
    (_, left), (_, right) = inner_columns(op.columns, site.x.shape[2])
    (_, top), (_, bottom) = inner_columns(op.rows, site.x.shape[1])
    images, height, width, _ = site.output.shape
    run = max(0, min(right, width) - left) // 2 * 2
    return images * (height * width - max(0, run - 1) * max(0, min(bottom, height) - top))


def _fully_connected(op: FullyConnected, site: Site) -> Kernel | None:
    """The fully connected kernel, which computes four outputs at a time."""
    # If requantisation without 64-bit products is proved bit-exact for all outputs, the kernel uses
    # it.  Otherwise, each output has a requantisation form of its own.  Returns None if dot
    # products may exceed int32 because an output's absolute weights add up to `MOST_WEIGHT_SUM` or
    # more.
    x, w, _ = site.inputs
    weights = site.constant(1)
    outputs, depth = w.shape
    batches = x.elements // depth
    layer = _layer(op, site)
    if layer is None:
        if np.abs(weights.astype(np.int64)).sum(axis=1).max() >= MOST_WEIGHT_SUM:
            return None
        packed = Table.of(by_fours(weights))
        kernel = separate_forms_kernel("fully_connected_forms_s8_thumb", op, site, packed)
        return replace(kernel, work_cycles=cycles.separate_forms(batches, outputs, depth))
    groups = -(-outputs // 4)
    return Kernel(
        "fully_connected_s8_thumb",
        params=members(
            batches=batches, in_c=depth, out_c=outputs, groups=groups, is_signed=layer.corrects
        ),
        tables=(("weights", _table(by_rows(layer))),),
        folded=(1, 2),
        classes=layer.classes,
        work_cycles=cycles.fully_connected(batches, outputs, depth, signed=layer.corrects),
    )


def _sum(op: Add | Sub, site: Site) -> Kernel | None:
    """A kernel that adds or subtracts two tensors of the same shape."""
    # The kernel computes (a * left + b * right + offset) >> shift for elements a and b of the
    # inputs.  Returns None if the shapes differ, or if no constants yield the operator's outputs
    # for all inputs.
    found = sum_params(op, site)
    if found is None:
        return None
    estimate = cycles.weighted_sum(site.output.elements, row_count(site.output.shape))
    return replace(row_kernel("add_s8_thumb", found), work_cycles=estimate)


def _contiguous_columns(columns: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """The kernel parameters (name, value) `inner_lower` and `inner_upper`."""
    # They are the half-open range of output columns whose window rows are contiguous in memory and
    # entirely inside the input.  For all other columns, the kernel gathers window rows column by
    # column.  With dilation, the range is empty: both are 0.
    if columns.dilation > 1:
        return ("inner_lower", 0), ("inner_upper", 0)
    return inner_columns(columns, extent)


def _table(content: bytes) -> Table:
    return Table.of(np.frombuffer(content, np.int8))
