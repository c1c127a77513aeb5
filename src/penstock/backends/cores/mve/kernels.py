"""Selection of kernels for cores with MVE (Cortex-M55).

A vector has 16 int8 lanes.  Operators without an MVE kernel use the DSP kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from penstock.backends.cores.common.layer import (
    INT8_OPERATORS,
    CertifiedLayer,
    LayerOp,
    certified_layer,
    for_element_types,
    separate_forms_kernel,
    sum_params,
    weight_matrix,
)
from penstock.backends.cores.dsp.kernels import dsp_kernel
from penstock.backends.cores.mve import instructions
from penstock.fixedpoint import Int64s
from penstock.ir.op import Kernel, Op, Site, Table, members, row_kernel
from penstock.ir.tensor import row_count
from penstock.opkit import sliding
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.partial_product import PartialProduct
from penstock.ops.pool import AveragePool2D
from penstock.requantisation.form import reachable

# Packing of weights and scales (requantisation constants) in the order in which the MVE kernels
# read them.
#
# A vector has 16 int8 lanes.  The scales of a channel are the constants of its requantisation form,
# including the bias (`requantisation/form.py`).


VECTOR, QUAD, EIGHT, NINE = 16, 4, 8, 9
# The channels of a block of sixteen in the order that results from widening bytes to words.
LANES = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])


def packed_weights(weights: Int64s, together: int) -> Table:
    """Return weights of shape (channels, taps) in the order in which the kernel reads them.

    Axes of the result: group of `together` channels, vector of 16 taps, channel in group, tap in
    vector.  Channels and taps are padded with zeros to whole groups and vectors."""
    channels, taps = weights.shape
    padded = np.zeros((-(-channels // together) * together, -(-taps // VECTOR) * VECTOR), np.int8)
    padded[:channels, :taps] = weights
    return Table.of(padded.reshape(-1, together, padded.shape[1] // VECTOR, VECTOR)
                    .swapaxes(1, 2).ravel())  # fmt: skip


def packed_scales(layer: CertifiedLayer, together: int) -> Table:
    """Return the requantisation constants of each group of `together` channels as int32 words."""
    # The kernel requantises a sum of products with these constants (`requantisation/form.py`):
    #
    #   t = (sum << fraction_bits) + offset; if negative, t = t - correction
    #   output = (base + (t * factor >> 32)) >> shift
    #
    # The words of a group are, in this order: one base per four channels, the offset of each
    # channel (with the bias), the correction of each channel (omitted if the layer needs none), and
    # the factor of each channel.
    columns = _form_rows(layer)
    padded = np.zeros((len(columns), -(-columns.shape[1] // together) * together), np.int64)
    padded[:, : columns.shape[1]] = columns
    groups = padded.reshape(len(columns), -1, together).swapaxes(0, 1)
    bases = groups[:, 0, ::QUAD]
    words = np.hstack([bases, groups[:, 1:].reshape(len(groups), -1)])
    return Table.of(words.astype(np.int32).ravel())


def packed_blocks(layer: CertifiedLayer) -> np.typing.NDArray[np.int8]:
    """Return the weights and requantisation constants of a depthwise layer with 3x3 windows.

    The result has shape (blocks, bytes).  A block holds sixteen consecutive channels of `layer`."""
    # A block begins with sixteen bytes for each of the nine taps, in row-major order of the window:
    # the weights of the sixteen channels, permuted by the constant `LANES`.  Byte `LANES[k]` is the
    # weight of the block's channel k; for example, byte 4 is the weight of channel 1.
    #
    # Little-endian int32 words follow: the constants in the formulas of `packed_scales`.  They are
    # the offset of each channel (with the bias), the correction of each channel (omitted if the
    # layer needs none), the factor of each channel, and one base per four channels.
    weights = np.zeros((len(layer.weights) // VECTOR, NINE, VECTOR), np.int8)
    lanes = layer.weights.reshape(-1, VECTOR, NINE)
    weights[:, :, LANES] = lanes.swapaxes(1, 2)
    base, *others = _form_rows(layer).reshape(-1, len(weights), VECTOR)
    words = np.hstack([*others, base[:, ::QUAD]]).astype("<i4")
    return np.hstack([weights.reshape(len(weights), -1), words.view(np.int8)])


def _form_rows(layer: CertifiedLayer) -> Int64s:
    # The rows are base, offset (with the bias), correction (omitted if the layer needs none) and
    # factor.
    form = layer.form
    corrections = (form.correction,) if form.corrects else ()
    return np.stack([form.base, layer.offset, *corrections, form.factor])


# MVE kernel of fully connected layers, with a requantisation form for each output.


def separate_forms(op: FullyConnected, site: Site) -> Kernel:
    """Return the kernel `fully_connected_forms_s8_mve`, with its estimated cycles."""
    # It computes the accumulators of four outputs at a time, and then requantises each of them in
    # the requantisation form of its output.
    x, w, _ = site.inputs
    outputs, depth = w.shape
    steps = -(-depth // VECTOR)
    weights = packed_weights(weight_matrix(op, site), QUAD)
    kernel = separate_forms_kernel("fully_connected_forms_s8_mve", op, site, weights)
    return replace(
        kernel, work_cycles=instructions.separate_forms(x.elements // depth, outputs, steps)
    )


# Numbers of fraction bits of a requantisation form, in the order in which they are tried.
FRACTION_BITS = (9, 8)
MOST_STRIP_BYTES = 4096  # Largest scratch for the windows of an output row.
# Window sizes, in elements, of the pooling kernel.
#
# Smaller windows are faster in portable C; sums of larger windows may exceed 16 bits.
LEAST_POOLED, MOST_POOLED = 16, 255


def mve_kernel(op: Op, site: Site) -> Kernel | None:
    """Return the MVE kernel for an operator, or else its DSP kernel; None if there is neither.

    None stands for the portable kernel.  The result for the operator PartialProduct is None,
    although it has a DSP kernel: compilers vectorise the inner loop of the portable kernel, which
    then takes 0.2 cycles per product on a Cortex-M55, against 1.7 for the DSP kernel."""
    if isinstance(op, PartialProduct):
        return None
    return _with_vectors(op, site) or dsp_kernel(op, site)


@for_element_types(INT8_OPERATORS)
def _with_vectors(op: Op, site: Site) -> Kernel | None:
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
            return _average_pool(op, site)
        case _:
            return None


def _layer(op: LayerOp, site: Site, order: Int64s) -> tuple[CertifiedLayer, int] | None:
    """An operator's weights and bit-exact requantisation as (layer, bits).

    Returns None if no number of bits yields requantisation that is proved bit-exact for all
    channels."""
    found = ((certified_layer(op, site, bits, order), bits) for bits in FRACTION_BITS)
    return next(((layer, bits) for layer, bits in found if layer is not None), None)


def _scaling(layer: CertifiedLayer, bits: int) -> tuple[tuple[str, int], ...]:
    """The requantisation parameters that all channels share, as (name, value) pairs."""
    form = layer.form
    return members(
        least=layer.least,
        most=layer.most,
        multiplier=1 << bits,
        left=24 - form.shift,
        is_signed=form.corrects,
    )


def _convolution(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel | None:
    """The convolution kernel, which computes two pixels of four output channels at a time."""
    # The output pixels of a call are paired in row-major order, so the last pixel of a row of odd
    # length is paired with the first one of the next row.  If the kernel copies the input of a
    # whole output row to scratch (`_strip_columns`), only pixels of the same row are paired.  A
    # pixel without a partner takes as long as a pair.
    #
    # Requires that each output channel reads all input channels: an ordinary convolution, or a
    # depthwise one of a single input channel.  Returns None if the kernel's requantisation is not
    # proved bit-exact.
    x, outputs = site.x, site.output.shape[3]
    found = _layer(op, site, np.arange(outputs))
    if found is None:
        return None
    layer, bits = found
    weights = layer.weights
    steps = -(-weights.shape[1] // VECTOR)
    strips = _strip_columns(op, site)
    if strips:
        by_taps = weights.reshape(outputs, op.rows.size, op.columns.size, x.shape[3])
        weights = by_taps.swapaxes(1, 2).reshape(weights.shape)
    lower, upper = _inner_range(op.columns, x.shape[2])
    lower, upper = (lower, upper) if op.columns.dilation == 1 else (0, 0)
    in_place = min(upper, _in_place_columns(op, x.shape, steps))
    gather = 0 if in_place > lower else _gather_instructions(op, site, strips, steps)
    pair = instructions.convolution_pair(outputs, steps, signed=layer.form.corrects)
    images, height, width, _ = site.output.shape
    pairs = images * height * (-(-width // 2) if strips else width / 2)
    return replace(
        row_kernel(
            "conv2d_s8_mve",
            sliding.params(site, op.rows, op.columns),
            members(
                in_zero=x.zero_point,
                inner_lower=lower,
                inner_upper=upper,
                there_upper=in_place,
                strips=strips,
                steps=steps,
                quads=outputs // QUAD,
                quads_rest=outputs % QUAD,
                quad_words=13 if layer.form.corrects else 9,
            ),
            _scaling(layer, bits),
            weights=packed_weights(weights, QUAD),
            scales=packed_scales(layer, QUAD),
            folded=(1, 2),
        ),
        scratch_bytes=strips * op.rows.size * x.shape[3] + VECTOR if strips else 2 * steps * VECTOR,
        classes=layer.classes,
        work_cycles=round(pairs * pair) + gather,
        odd_cycles=0 if strips else width % 2 * (pair // 2),
    )


def _gather_instructions(
    op: Conv2D | DepthwiseConv2D, site: Site, strip_columns: int, steps: int
) -> int:
    # The kernel copies each window separately, or one strip for all windows of an output row.  A
    # strip is a copy, with padding, of the input that these windows read.
    images, height, width, _ = site.output.shape
    if strip_columns:
        copies = images * height * op.rows.size * strip_columns
        return instructions.gathered_strips(copies, site.x.shape[3])
    return instructions.gathered_windows(images * height * width, op.rows.size, steps)


def _strip_columns(op: Conv2D | DepthwiseConv2D, site: Site) -> int:
    """The number of input columns in a strip; 0 if the kernel uses no strips."""
    # A strip is a copy, with padding, of the input that the windows of one output row read.  The
    # kernel uses strips if neighbouring windows overlap, columns are not dilated, a pixel fills at
    # least a vector of 16 bytes, and a strip has at most `MOST_STRIP_BYTES` bytes.
    channels = site.x.shape[3]
    columns = (site.output.shape[2] - 1) * op.columns.stride + op.columns.size
    shared = op.columns.dilation == 1 and op.columns.size > op.columns.stride
    small = columns * op.rows.size * channels <= MOST_STRIP_BYTES
    return columns if shared and small and channels >= VECTOR else 0


def _in_place_columns(op: Conv2D | DepthwiseConv2D, shape: tuple[int, ...], steps: int) -> int:
    """The output column from which on the kernel copies windows to scratch to read them."""
    # The kernel reads a window in whole vectors, and copies it if they would extend beyond the
    # input row.  For example, if input rows have 10 pixels of 8 bytes, a 1x3 window has 24 bytes
    # and takes 2 vectors, which cover 4 pixels.  With stride 1 and no padding, the vectors of
    # columns 0 to 6 end within the row, so the result is 7.  The result is 0 for windows of several
    # rows.
    #
    # The caller excludes dilated windows and windows that begin in the padding.
    if op.rows.size > 1:
        return 0
    last = shape[2] - -(-steps * VECTOR // shape[3])
    return max(0, (last + op.columns.before) // op.columns.stride + 1) if last >= 0 else 0


def _inner_range(window: Window, extent: int) -> tuple[int, int]:
    """The half-open range of output indices, along an axis, whose windows cover no padding."""
    # The input has `extent` elements along this axis.
    lower = -(-window.before // window.stride)
    return lower, max(0, (extent - window.extent + window.before) // window.stride + 1)


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """The depthwise kernel for 3x3 windows; None if it does not support the layer."""
    # The kernel computes sixteen channels of a pixel, or eight channels of two pixels, at a time.
    x = site.x
    channels, together = x.shape[3], _pixels_together(op, site)
    if not together:
        return None
    found = _layer(op, site, _blocks(channels)[:, LANES].ravel())
    if found is None or not _pairs_fit(found[0].weights):
        return None
    layer, bits = found
    blocks = packed_blocks(layer)
    lower, upper = _inner_range(op.columns, x.shape[2])
    return replace(
        row_kernel(
            "depthwise_conv2d_s8_mve",
            sliding.shape_params(x.shape, site.output.shape),
            sliding.tap_params(op.rows, op.columns),
            members(
                in_zero=x.zero_point,
                inner_lower=lower,
                inner_upper=upper,
                together=together,
                block_bytes=blocks.shape[1],
            ),
            _scaling(layer, bits),
            weights=Table.of(blocks.ravel()),
            folded=(1, 2),
        ),
        scratch_bytes=channels if together == 1 else (1 + NINE) * VECTOR,
        classes=layer.classes,
        work_cycles=instructions.depthwise(
            math.prod(site.output.shape[:3]) // together,
            len(blocks),
            _runs(op, site),
            signed=layer.form.corrects,
        ),
    )


def _pixels_together(op: DepthwiseConv2D, site: Site) -> int:
    """The number of pixels that the depthwise kernel computes together."""
    # It is 2 for eight channels, 1 for sixteen or more, and 0 for layers that are not supported.
    channels = site.x.shape[3]
    if op.multiplier != 1 or op.rows.size != 3 or op.columns.size != 3:
        return 0
    if channels == EIGHT and op.columns.stride == 1:
        return VECTOR // EIGHT
    return int(channels >= VECTOR)


def _blocks(channels: int) -> Int64s:
    """Return the indices of the channels of each block of sixteen, with shape (blocks, 16).

    If 16 does not divide `channels`, the last block overlaps the one before.  If there are only
    eight channels, the only block contains each channel twice.

    >>> _blocks(20)[:, 0].tolist(), _blocks(8).tolist()[0][7:9]
    ([0, 4], [7, 0])
    """
    starts = [*range(0, channels - VECTOR + 1, VECTOR)] or [0]
    tail = [channels - VECTOR] if channels > VECTOR and channels % VECTOR else []
    return (np.array([*starts, *tail])[:, None] + np.arange(VECTOR)) % channels


def _pairs_fit(weights: Int64s) -> bool:
    """Whether w0 * x0 + w1 * x1 fits 16 bits for all weight pairs and int8 inputs x0, x1."""
    # Weights 0 to 7 of a channel form four pairs (w0, w1); the product of weight 8 always fits.
    pairs = weights[:, : NINE - 1].reshape(-1, 2)
    lower, upper = reachable(pairs, np.zeros(len(pairs), np.int64), -128, 128)
    return bool(lower.min() >= -(2**15) and upper.max() <= 2**15)


def _runs(op: DepthwiseConv2D, site: Site) -> int:
    """Return how often the depthwise kernel computes the addresses of taps.

    The kernel computes the addresses for the first of several neighbouring output pixels whose
    windows are all inside the input, and only increments them for the others.  For a pixel whose
    window reaches into the padding, it computes them anew."""
    images, height, width, _ = site.output.shape
    _, rows, columns, _ = site.x.shape
    top, bottom = _inner_range(op.rows, rows)
    left, right = _inner_range(op.columns, columns)
    inner_rows = max(0, min(height, bottom) - top)
    return images * (height * width - inner_rows * max(0, min(width, right) - left - 1))


def _fully_connected(op: FullyConnected, site: Site) -> Kernel:
    """The fully connected kernel, which computes eight outputs at a time."""
    # All outputs share one requantisation form (arithmetic from accumulator to output) if this form
    # is proved bit-exact.  Otherwise, each output has a requantisation form of its own.
    x, w, _ = site.inputs
    outputs, depth = w.shape
    found = _layer(op, site, np.arange(outputs))
    if found is None:
        return separate_forms(op, site)
    layer, bits = found
    steps, batches = -(-depth // VECTOR), x.elements // depth
    return Kernel(
        "fully_connected_s8_mve",
        params=members(
            members(
                batches=batches,
                in_c=depth,
                out_c=outputs,
                steps=steps,
                eight_words=26 if layer.form.corrects else 18,
            ),
            _scaling(layer, bits),
        ),
        tables=(
            ("weights", packed_weights(layer.weights, EIGHT)),
            ("scales", packed_scales(layer, EIGHT)),
        ),
        folded=(1, 2),
        scratch_bytes=steps * VECTOR,
        classes=layer.classes,
        work_cycles=instructions.fully_connected(
            batches, outputs, steps, signed=layer.form.corrects
        ),
    )


def _sum(op: Add | Sub, site: Site) -> Kernel | None:
    """A kernel that adds or subtracts two tensors of the same shape."""
    # The kernel computes (a * left + b * right + offset) >> shift for elements a and b of the
    # inputs.  Returns None if the shapes differ, or if no constants yield the operator's outputs
    # for all inputs.
    found = sum_params(op, site)
    if found is None:
        return None
    shape = site.output.shape
    return replace(
        row_kernel("add_s8_mve", found),
        work_cycles=instructions.weighted_sum(math.prod(shape), row_count(shape)),
    )


def _average_pool(op: AveragePool2D, site: Site) -> Kernel | None:
    """The average pooling kernel, which computes eight channels at a time.

    Returns None if 8 does not divide the number of channels, or if the window has fewer than
    `LEAST_POOLED` or more than `MOST_POOLED` elements."""
    elements = op.rows.size * op.columns.size
    if site.output.shape[3] % EIGHT or not LEAST_POOLED <= elements <= MOST_POOLED:
        return None
    return replace(
        op.kernel(site),
        name="average_pool2d_s8_mve",
        work_cycles=instructions.average_pool(
            site.output.elements // EIGHT, op.rows.size, op.columns.size
        ),
    )
