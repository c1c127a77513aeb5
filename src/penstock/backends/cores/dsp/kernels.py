"""Selection of kernels for cores with the DSP extension: Cortex-M4, M7 and M33.

The extension multiplies pairs of 16-bit numbers.  Kernels therefore widen int8 inputs to 16 bits,
store two weights as one 16-bit number, and compute four output channels ("a quad") together.  The
scales of a channel are the constants of its requantisation form, including the bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from penstock.backends.cores.common.layer import (
    INT8_OPERATORS,
    CertifiedLayer,
    certified_layer,
    constant_outputs,
    for_element_types,
    form_table,
    inner_columns,
    separate_forms_kernel,
    with_forms,
)
from penstock.backends.cores.dsp.counts import DSP_CYCLES
from penstock.backends.cores.dsp.elementwise import elementwise_kernel
from penstock.backends.cores.dsp.grouped import as_one_group, group_kernel
from penstock.backends.cores.dsp.packing import (
    MOST_DEPTHWISE_TAPS,
    QUAD,
    TAP_FRACTION_BITS,
    TILE_FRACTION_BITS,
    fours,
    packed_taps,
    packed_tile,
    tap_scales,
    tile_scales,
    window_order,
)
from penstock.fixedpoint import Int64s
from penstock.ir.element_types import INT8, ElementTypes
from penstock.ir.op import Kernel, Op, Site, Table, Tables, members, row_kernel
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import sliding
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.partial_product import PartialProduct
from penstock.ops.pool import AveragePool2D, MaxPool2D

# DSP kernel of `PartialProduct`, an operator that adds a matrix product to int32 accumulators.


def partial_kernel(op: PartialProduct, site: Site) -> Kernel | None:
    """Return the DSP kernel of `op`, which computes four output channels at a time.

    Returns None if the number of input channels is not a multiple of four."""
    weights = site.constant(2)
    if weights.shape[1] % QUAD:
        return None
    portable = op.kernel(site)
    return replace(
        portable,
        name="partial_product_s8_dsp",
        tables=(*portable.tables, ("weights", packed_products(weights))),
        constants=tuple((k, name) for k, name in portable.constants if name != "weights"),
        folded=(2,),
    )


def packed_products(weights: Array) -> Table:
    """Return weights of shape (outputs, inputs) in the order of `runtime/products_dsp.h`.

    Axes of the result: group of four outputs, group of four inputs, output in group, input in
    group.  The outputs are padded with zeros to a multiple of four."""
    padded = np.pad(weights, ((0, -weights.shape[0] % QUAD), (0, 0)))
    return Table.of(padded.reshape(len(padded) // QUAD, QUAD, -1, QUAD).swapaxes(1, 2).ravel())


# DSP kernels of fully connected layers, which compute four outputs at a time.


def fully_connected_kernel(op: FullyConnected, site: Site) -> Kernel | None:
    """Return the kernel of a fully connected layer.

    Returns None if the number of inputs is not a multiple of four."""
    # All outputs share one requantisation form (arithmetic from accumulator to output) if this form
    # is proved bit-exact and the weights can be packed in pairs.  Otherwise, each output has a
    # requantisation form of its own.
    if site.inputs[1].shape[1] % QUAD:
        return None
    weights = site.constant(1)
    return _shared_form(op, site) or separate_forms_kernel(
        "fully_connected_forms_s8_dsp", op, site, packed_products(weights)
    )


def _shared_form(op: FullyConnected, site: Site) -> Kernel | None:
    """The kernel in which all outputs share one requantisation form (arithmetic from
    accumulator to output).

    Returns None if this form is not proved bit-exact, or if the weights cannot be packed in pairs
    (`packed_tile`)."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    layer = certified_layer(op, site, TILE_FRACTION_BITS, np.arange(outputs))
    if layer is None:
        return None
    weights = packed_tile(layer.weights[:, window_order(1, depth)])
    if weights is None:
        return None
    return Kernel(
        "fully_connected_s8_dsp",
        params=members(
            members(batches=x.elements // depth, in_c=depth, out_c=outputs), layer.shared_params
        ),
        tables=(("weights", weights), ("scales", tile_scales(layer))),
        folded=(1, 2),
        classes=layer.classes,
    )


# Average and maximum pooling on DSP cores.


LEAST_CHANNELS = 8
MOST_TAPS = 256  # Largest number of taps: the sum of that many int8 elements fits 16 bits.


def pool_kernel(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel:
    """Return the faster of the DSP kernel and the portable kernel."""
    # The DSP kernel computes eight channels at a time.  It does not support layers with fewer than
    # eight channels, with large windows, or with windows that are entirely in the padding.
    portable, found = op.kernel(site), _in_eights(op, site)
    if found is not None and DSP_CYCLES.cycles(op, site, found) <= DSP_CYCLES.cycles(
        op, site, portable
    ):
        return found
    return portable


def unmet_condition(op: Op, site: Site) -> str:
    """Return a condition of the DSP kernel that a pooling layer does not meet, for messages.

    Returns "" if the layer meets all conditions, and for operators other than pooling."""
    if not isinstance(op, AveragePool2D | MaxPool2D):
        return ""
    if site.x.shape[3] < LEAST_CHANNELS:
        return f"at least {LEAST_CHANNELS} channels"
    if op.rows.size * op.columns.size > MOST_TAPS:
        return f"windows of at most {MOST_TAPS} elements"
    _, height, width, _ = site.x.shape
    if not (op.rows.always_meets(height) and op.columns.always_meets(width)):
        return "windows of which none is entirely in the padding"
    return ""


def _in_eights(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel | None:
    if unmet_condition(op, site):
        return None
    return row_kernel(
        "pool2d_s8_dsp", op.kernel(site).params, averages=int(isinstance(op, AveragePool2D))
    )


MOST_STACK_BYTES = 192  # Largest working memory that a kernel keeps on the stack; more is scratch.
MOST_RUNS = 25  # Largest number of contiguous runs per window in `conv2d_direct_s8_dsp`.
# Placeholder for a table that the kernel does not read, because C has no empty arrays.
_UNUSED = np.zeros(1, np.int16)
# The element types that the kernels support, by operator.
ELEMENT_TYPES: Mapping[type[Op], ElementTypes] = {
    **INT8_OPERATORS,
    Mul: INT8,
    MaxPool2D: INT8,
    PartialProduct: ElementTypes((DType.INT32, DType.INT8), DType.INT32),
}


@for_element_types(ELEMENT_TYPES)
def dsp_kernel(op: Op, site: Site) -> Kernel | None:
    """Return the DSP kernel for an operator; None if there is none or portable C is faster."""
    match op:
        case Conv2D() if site.x.shape[3] == site.inputs[1].shape[3]:
            return _one_pixel(op, site) or _convolution(op, site)
        case DepthwiseConv2D() if site.x.shape[3] == 1:
            return _convolution(op, site)
        case Conv2D():
            return _grouped(op, site)
        case DepthwiseConv2D() if op.multiplier > 1 or site.x.shape[3] < QUAD:
            return _grouped(op, site)
        case DepthwiseConv2D():
            return _depthwise(op, site)
        case FullyConnected():
            return fully_connected_kernel(op, site)
        case Add() | Sub() | Mul():
            return elementwise_kernel(op, site)
        case AveragePool2D() | MaxPool2D():
            return pool_kernel(op, site)
        case PartialProduct():
            return partial_kernel(op, site)
        case _:
            return None


def _one_pixel(op: Conv2D, site: Site) -> Kernel | None:
    """The kernel of `direct_kernel` if the output has only one pixel and this kernel is
    faster than that of `_convolution`; otherwise None."""
    # The direct kernel is faster if the other one copies the inputs to scratch, and if negative
    # accumulators need no correction (`is_signed`).  For 128 inputs and outputs on a Cortex-M4, it
    # takes 24,774 simulated cycles, and the kernel with the copy 24,837.
    copying = _convolution(op, site) if site.output.shape[:3] == (1, 1, 1) else None
    direct = direct_kernel(op, site) if copying is not None and copying.scratch_bytes else None
    return direct if direct is not None and not dict(direct.params)["is_signed"] else None


def _grouped(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel:
    """The fastest of the kernels that can compute a grouped convolution."""
    # These are the grouped kernel, the ordinary kernel with zero weights between groups, and the
    # portable kernel.
    one = as_one_group(op, site)
    found = (group_kernel(op, site), None if one is None else _convolution(*one))
    special = [kernel for kernel in found if kernel is not None]
    return min(
        (*special, _portable(op, site)), key=lambda kernel: DSP_CYCLES.cycles(op, site, kernel)
    )


def _convolution(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel | None:
    """The faster of two ordinary convolution kernels; None if neither is possible."""
    # One computes all output channels.  The other computes only the variable channels; it copies
    # the constant ones, whose output is the same for every input, from a table.  It is used only if
    # the layer has channels of both sorts.  Either is impossible if its weights cannot be packed
    # (`_im2col`).
    is_constant, _ = constant_outputs(op, site)
    channels = np.arange(len(is_constant))
    every = _im2col(op, site, channels)
    if not is_constant.any() or is_constant.all():
        return every
    variable = _im2col(op, site, channels[~is_constant])
    cycles = partial(DSP_CYCLES.cycles, op, site)
    if variable is None or (every is not None and cycles(every) <= cycles(variable)):
        return every
    layer = certified_layer(op, site, TILE_FRACTION_BITS, channels, most_outside=len(channels))
    assert layer is not None
    return replace(variable, classes=layer.classes, skips_constant=True)


def _im2col(op: Conv2D | DepthwiseConv2D, site: Site, channels: Int64s) -> Kernel | None:
    """A convolution kernel that copies two windows at a time to working memory (im2col)."""
    # The kernel multiplies the windows by the weights of four output channels at a time.  The
    # channels in `channels` share one requantisation form.  A channel for which this form is not
    # proved bit-exact is computed separately.
    #
    # Returns None if the weights cannot be packed (`packed_tile`): the weights a and b of
    # two channels become a 16-bit number a + 256 b, which overflows if both are -128.
    x, outputs = site.x, len(channels)
    packed = _packed(op, site, channels, most_outside=outputs)
    if packed is None:
        return None
    layer, weights = packed
    outsiders = len(layer.outside)
    is_spread = outputs < site.output.shape[3]
    quads, quads_rest = (-(-outputs // QUAD), 0) if is_spread else divmod(outputs, QUAD)
    row_elements = op.columns.size * x.shape[3]
    pairs = -(-op.rows.size * row_elements // QUAD) * 2
    is_padded = op.columns.dilation > 1 or _padding(op) > 0
    found_at = 8 * pairs + row_elements * is_padded
    work_bytes = found_at + 2 * QUAD * quads * is_spread
    on_stack = work_bytes <= MOST_STACK_BYTES
    return replace(
        row_kernel(
            "conv2d_s8_dsp",
            sliding.params(site, op.rows, op.columns),
            members(in_zero=x.zero_point),
            inner_columns(op.columns, x.shape[2]) if op.columns.dilation == 1 else _NO_COLUMNS,
            members(
                pairs=pairs,
                row_fours=row_elements // QUAD,
                row_rest=row_elements % QUAD,
                quads=quads,
                quads_rest=quads_rest,
                spread=outputs * is_spread,
                found_at=found_at,
                outsiders=outsiders,
            ),
            layer.shared_params,
            (
                ("weights", weights),
                ("scales", tile_scales(layer)),
                ("places", Table.of(channels.astype(np.int16) if is_spread else _UNUSED)),
                ("constants", Table.of(_constant_pixel(op, site)[: None if is_spread else 1])),
            ),
            _outside(op, site, layer, channels) if outsiders else (),
            folded=(1, 2),
        ),
        scratch_bytes=0 if on_stack else work_bytes,
        stack_bytes=work_bytes if on_stack else 0,
        classes=layer.classes,
    )


def _outside(
    op: Conv2D | DepthwiseConv2D, site: Site, layer: CertifiedLayer, channels: Int64s
) -> Tables:
    """The tables (name, table) of channels that need requantisation forms of their own."""
    # These are the channels in `layer.outside`.  The tables contain the channels' indices in the
    # output, weights in the order of multiplication, biases, and the numbers that encode the forms.
    weights = layer.weights[layer.outside][:, _tap_order(op, site)]
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % QUAD)))
    fours = padded.reshape(-1, 2, 2).swapaxes(1, 2)  # the first of each pair, then the second
    return (
        ("outside", Table.of(channels[layer.outside].astype(np.int16))),
        ("outside_weights", Table.of(fours.astype(np.int8).ravel())),
        ("outside_bias", Table.of(layer.bias[layer.outside].astype(np.int32))),
        ("outside_forms", form_table(layer.forms)),
    )


def _tap_order(op: Conv2D | DepthwiseConv2D, site: Site) -> Int64s:
    """The indices of a window's elements in the order in which kernels multiply them."""
    # All groups of four elements of a row come first, row by row, then the remaining elements of
    # all rows.  In a group, the order is 0, 2, 1, 3: bytes 0 and 2 are widened together, then 1 and
    # 3.
    return window_order(op.rows.size, op.columns.size * site.x.shape[3])


def _constant_pixel(op: Conv2D | DepthwiseConv2D, site: Site) -> NDArray[np.int8]:
    # A constant channel has the same output for every input.  The kernel copies this pixel to each
    # output pixel, and then overwrites the values of the other channels, which are placeholders.
    return constant_outputs(op, site)[1].astype(np.int8)


@for_element_types(ELEMENT_TYPES)
def fallback_kernel(op: Op, site: Site) -> Kernel | None:
    """Return a kernel without scratch for a convolution; None for other operators."""
    if not isinstance(op, Conv2D):
        return None
    return direct_kernel(op, site) or _portable(op, site)


def _portable(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel:
    """The portable kernel, with requantisation that is proved bit-exact."""
    return with_forms(op, site, op.kernel(site))


@for_element_types(ELEMENT_TYPES)
def direct_kernel(op: Op, site: Site) -> Kernel | None:
    """Return a convolution kernel that needs no scratch, because it copies no windows of its input.

    Returns None for other operators, and for convolutions that the kernel does not support."""
    if isinstance(op, Conv2D) and site.x.shape[3] == site.inputs[1].shape[3]:
        return _direct(op, site)
    return None


def _direct(op: Conv2D, site: Site) -> Kernel | None:
    """A kernel that computes two pixels of four output channels at a time."""
    # It reads its inputs without copying them to scratch, four channels at a time.  Returns None if
    # the number of input channels is not a multiple of four, if the window has more than
    # `MOST_RUNS` taps, if the requantisation is not proved bit-exact, or if the weights cannot be
    # packed in pairs (`packed_tile`).
    x, outputs = site.x, site.output.shape[3]
    taps_count = op.rows.size * op.columns.size
    if x.shape[3] % QUAD or taps_count > MOST_RUNS:
        return None
    packed = _packed(op, site, np.arange(outputs))
    if packed is None:
        return None
    layer, weights = packed
    columns = inner_columns(op.columns, x.shape[2]) if op.columns.dilation == 1 else _NO_COLUMNS
    return replace(
        row_kernel(
            "conv2d_direct_s8_dsp",
            sliding.params(site, op.rows, op.columns),
            columns,
            members(quads=outputs // QUAD, quads_rest=outputs % QUAD),
            layer.shared_params,
            weights=weights,
            scales=tile_scales(layer),
            padding=_padding_pixel(op, x),
            folded=(1, 2),
        ),
        classes=layer.classes,
    )


def _packed(
    op: Conv2D | DepthwiseConv2D, site: Site, channels: Int64s, most_outside: int = 0
) -> tuple[CertifiedLayer, Table] | None:
    """The weights and requantisation of some output channels, and a table of packed weights.

    None if more than `most_outside` channels need a form of their own, or if two weights do not
    fit into 16 bits as w0 + 256 * w1 (`packed_tile`)."""
    # Channels outside the shared form are computed separately, so their packed weights are zero.
    layer = certified_layer(op, site, TILE_FRACTION_BITS, channels, most_outside)
    if layer is None:
        return None
    shared = layer.weights[:, _tap_order(op, site)]
    shared[layer.outside] = 0
    weights = packed_tile(shared)
    return None if weights is None else (layer, weights)


def _padding_pixel(op: Conv2D | DepthwiseConv2D, x: TensorType) -> Table:
    # Without padding, the table is a placeholder of one element, because C has no empty arrays.
    return Table.of(np.full(x.shape[3] if _padding(op) else 1, x.zero_point, np.int8))


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """The depthwise kernel without a channel multiplier, which computes four channels at a
    time.

    Returns None if the layer has fewer than four input channels or more than `MOST_DEPTHWISE_TAPS`
    taps, or if the kernel's requantisation is not proved bit-exact."""
    x = site.x
    count = op.rows.size * op.columns.size
    if x.shape[3] < QUAD or count > MOST_DEPTHWISE_TAPS:
        return None
    layer = certified_layer(op, site, TAP_FRACTION_BITS, fours(x.shape[3]).ravel())
    if layer is None:
        return None
    return replace(
        row_kernel(
            "depthwise_conv2d_s8_dsp",
            sliding.params(site, op.rows, op.columns),
            inner_columns(op.columns, x.shape[2]),
            layer.shared_params,
            weights=packed_taps(layer.weights),
            scales=tap_scales(layer),
            padding=_padding_pixel(op, x),
            folded=(1, 2),
        ),
        classes=layer.classes,
    )


# Kernel parameters: no output column has window rows that are contiguous in memory.
_NO_COLUMNS = (("inner_lower", 0), ("inner_upper", 0))


def _padding(op: Conv2D | DepthwiseConv2D) -> int:
    """How many rows and columns of padding there are in total; 0 if there is no padding."""
    windows = (op.rows, op.columns)
    return sum(window.before + window.after for window in windows)
