"""Kernels for cores with the DSP extension: Cortex-M4, M7 and M33."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from penstock.backends.cortex_m import taps, tiles
from penstock.backends.cortex_m.dsp_grouped import as_one_group, group_kernel
from penstock.backends.cortex_m.dsp_pools import pool_kernel
from penstock.backends.cortex_m.dsp_products import pair_kernel
from penstock.backends.cortex_m.figures import cycles
from penstock.backends.cortex_m.forms import form_table, with_forms
from penstock.backends.cortex_m.layer import (
    Layer,
    constant_outputs,
    layer_of,
)
from penstock.backends.cortex_m.params import inner_columns
from penstock.fixedpoint import Int64s
from penstock.ir.op import Kernel, Op, Site, Table
from penstock.ir.tensor import TensorType
from penstock.ops import sliding
from penstock.ops.add import Add
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.mul import Mul
from penstock.ops.sub import Sub

FAMILY = "dsp"
"""Of these kernels, in the table of figures."""
MOST_STACK_BYTES = 192
"""Working memory of so many bytes lies on the stack."""
MOST_RUNS = 25
"""So many runs of a window has a kernel room for that reads inputs where they lie."""
_NOTHING = np.zeros(1, np.int16)
"""A table that is not read; an array has an element at least."""


def dsp_kernel(op: Op, site: Site) -> Kernel | None:
    """The special kernel of an operator; None where the portable one serves."""
    match op:
        case Conv2D() if site.inputs[0].shape[3] == site.inputs[1].shape[3]:
            return _convolution(op, site)
        case DepthwiseConv2D() if site.inputs[0].shape[3] == 1:
            return _convolution(op, site)
        case Conv2D():
            return _grouped(op, site)
        case DepthwiseConv2D() if op.multiplier > 1 or site.inputs[0].shape[3] < taps.QUAD:
            return _grouped(op, site)
        case DepthwiseConv2D():
            return _depthwise(op, site)
        case FullyConnected():
            return _fully_connected(op, site)
        case Add() | Sub() | Mul():
            return pair_kernel(op, site)
        case AveragePool2D() | MaxPool2D():
            return pool_kernel(op, site)
        case _:
            return None


def _grouped(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel:
    """The fastest of a convolution in groups, one in which all groups are one, several depthwise
    ones, and portable C."""
    one = as_one_group(op, site)
    found = (group_kernel(op, site), None if one is None else _convolution(*one))
    found += (_depthwise(op, site),) if isinstance(op, DepthwiseConv2D) else ()
    special = [kernel for kernel in found if kernel is not None]
    return min((*special, _portable(op, site)), key=lambda kernel: cycles(op, site, kernel, FAMILY))


def _convolution(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel | None:
    """A convolution of all output channels; or, where that is faster, of those alone whose output
    depends on the input."""
    is_constant, _ = constant_outputs(op, site)
    channels = np.arange(len(is_constant))
    every = _of_windows(op, site, channels)
    if every is None or not is_constant.any() or is_constant.all():
        return every
    living = _of_windows(op, site, channels[~is_constant])
    if living is None or cycles(op, site, living, FAMILY) >= cycles(op, site, every, FAMILY):
        return every
    return replace(living, classes=every.classes, skips_constant=True)


def _of_windows(op: Conv2D | DepthwiseConv2D, site: Site, channels: Int64s) -> Kernel | None:
    """Two windows with four of these output channels at a time, where each reads all input
    channels; sums that fit 24 bits.  Windows are put together in working memory, and so are the
    outputs of some channels, which are spread over a pixel of all."""
    x, outputs = site.inputs[0], len(channels)
    packed = _packed(op, site, channels, most_outside=outputs)
    if packed is None:
        return None
    layer, weights = packed
    outsiders = len(layer.outside)
    is_spread = outputs < site.output.shape[3]
    quads, quads_rest = (-(-outputs // tiles.QUAD), 0) if is_spread else divmod(outputs, tiles.QUAD)
    row_elements = op.columns.size * x.shape[3]
    pairs = -(-op.rows.size * row_elements // tiles.QUAD) * 2
    is_padded = op.columns.dilation > 1 or _padding(op) > 0
    found_at = 8 * pairs + row_elements * is_padded
    work_bytes = found_at + 2 * tiles.QUAD * quads * is_spread
    on_stack = work_bytes <= MOST_STACK_BYTES
    return Kernel(
        "conv2d_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("in_zero", x.zero_point),
            *(inner_columns(op.columns, x.shape[2]) if op.columns.dilation == 1 else _NO_COLUMNS),
            ("pairs", pairs),
            ("row_fours", row_elements // tiles.QUAD),
            ("row_rest", row_elements % tiles.QUAD),
            ("quads", quads),
            ("quads_rest", quads_rest),
            ("spread", outputs * is_spread),
            ("found_at", found_at),
            ("outsiders", outsiders),
            *layer.clamps,
        ),
        tables=(
            ("weights", weights),
            ("scales", tiles.packed_scales(layer)),
            ("places", Table.of(channels.astype(np.int16) if is_spread else _NOTHING)),
            ("constants", Table.of(_constants(op, site)[: None if is_spread else 1])),
            *(_outside(op, site, layer, channels) if outsiders else ()),
        ),
        folded=(1, 2),
        scratch_bytes=0 if on_stack else work_bytes,
        stack_bytes=work_bytes if on_stack else 0,
        by_rows=True,
        classes=layer.classes,
    )


def _outside(
    op: Conv2D | DepthwiseConv2D, site: Site, layer: Layer, channels: Int64s
) -> tuple[tuple[str, Table], ...]:
    """Tables of the channels outside: places, weights in the order of a window, biases, forms."""
    weights = layer.weights[layer.outside][:, _order(op, site)]
    padded = np.pad(weights, ((0, 0), (0, -weights.shape[1] % tiles.QUAD)))
    fours = padded.reshape(-1, 2, 2).swapaxes(1, 2)  # of each pair the first, then the second
    return (
        ("outside", Table.of(channels[layer.outside].astype(np.int16))),
        ("outside_weights", Table.of(fours.astype(np.int8).ravel())),
        ("outside_bias", Table.of(layer.bias[layer.outside].astype(np.int32))),
        ("outside_forms", form_table(layer.forms)),
    )


def _order(op: Conv2D | DepthwiseConv2D, site: Site) -> Int64s:
    """The taps of a window in the order in which it is widened."""
    return tiles.window_order(op.rows.size, op.columns.size * site.inputs[0].shape[3])


def _constants(op: Conv2D | DepthwiseConv2D, site: Site) -> NDArray[np.int8]:
    """A pixel of the output where all channels have an output that they may have."""
    return constant_outputs(op, site)[1].astype(np.int8)


def lean_kernel(op: Op, site: Site) -> Kernel | None:
    """The kernel that serves a convolution without scratch."""
    if not isinstance(op, Conv2D):
        return None
    return direct_kernel(op, site) or _portable(op, site)


def _portable(op: Conv2D | DepthwiseConv2D, site: Site) -> Kernel:
    """The kernel in portable C."""
    return with_forms(op, site, op.kernel(site))


def direct_kernel(op: Op, site: Site) -> Kernel | None:
    """The special kernel of a convolution that reads its inputs where they lie, in fours."""
    match op:
        case Conv2D() if site.inputs[0].shape[3] == site.inputs[1].shape[3]:
            return _direct(op, site)
        case _:
            return None


def _direct(op: Conv2D, site: Site) -> Kernel | None:
    """Two pixels with four output channels at a time; sums that fit 24 bits."""
    x, outputs = site.inputs[0], site.output.shape[3]
    taps_count = op.rows.size * op.columns.size
    if x.shape[3] % tiles.QUAD or taps_count > MOST_RUNS:
        return None
    packed = _packed(op, site, np.arange(outputs))
    if packed is None:
        return None
    layer, weights = packed
    columns = inner_columns(op.columns, x.shape[2]) if op.columns.dilation == 1 else _NO_COLUMNS
    return Kernel(
        "conv2d_direct_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            *columns,
            ("quads", outputs // tiles.QUAD),
            ("quads_rest", outputs % tiles.QUAD),
            *layer.clamps,
        ),
        tables=(
            ("weights", weights),
            ("scales", tiles.packed_scales(layer)),
            ("padding", _padding_pixel(op, x)),
        ),
        folded=(1, 2),
        by_rows=True,
        classes=layer.classes,
    )


def _packed(
    op: Conv2D | DepthwiseConv2D, site: Site, channels: Int64s, most_outside: int = 0
) -> tuple[Layer, Table] | None:
    """Some channels of a convolution and their weights in fours of each row of its windows, zeros
    for channels outside."""
    layer = layer_of(op, site, tiles.FRACTION_BITS, channels, most_outside)
    if layer is None:
        return None
    inside = layer.weights[:, _order(op, site)]
    inside[layer.outside] = 0
    weights = tiles.packed_weights(inside)
    return None if weights is None else (layer, weights)


def _padding_pixel(op: Conv2D | DepthwiseConv2D, x: TensorType) -> Table:
    """A pixel of padding; where there is none, as little as an array may be."""
    return Table.of(np.full(x.shape[3] if _padding(op) else 1, x.zero_point, np.int8))


def _depthwise(op: DepthwiseConv2D, site: Site) -> Kernel | None:
    """Four channels at a time; a window for each channel, of not too many taps.  Where channels
    have several windows, the first ones of all, then the second ones, and so on."""
    x, windows = site.inputs[0], op.multiplier
    count = op.rows.size * op.columns.size
    if x.shape[3] < taps.QUAD or count > taps.MOST_TAPS:
        return None
    fours = taps.fours(x.shape[3])
    order = fours.ravel() * windows + np.arange(windows)[:, None]
    layer = layer_of(op, site, taps.FRACTION_BITS, order.ravel())
    if layer is None:
        return None
    one = Kernel(
        "depthwise_conv2d_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            *inner_columns(op.columns, x.shape[2]),
            *layer.clamps,
        ),
        tables=(
            ("weights", taps.packed_weights(layer.weights)),
            ("scales", taps.packed_scales(layer)),
            ("padding", _padding_pixel(op, x)),
        ),
        folded=(1, 2),
        by_rows=True,
        classes=layer.classes,
    )
    if windows == 1:
        return one
    return replace(
        one,
        name="depthwise_multiple_s8_dsp",
        params=(*one.params, ("multiplier_d", windows), ("fours", len(fours))),
        scratch_bytes=site.output.shape[2] * x.shape[3],
    )


def _fully_connected(op: FullyConnected, site: Site) -> Kernel | None:
    """Four outputs at a time; inputs in fours."""
    x, w, _ = site.inputs
    outputs, depth = w.shape
    if depth % tiles.QUAD:
        return None
    layer = layer_of(op, site, tiles.FRACTION_BITS, np.arange(outputs))
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
        classes=layer.classes,
    )


_NO_COLUMNS = (("inner_lower", 0), ("inner_upper", 0))
"""Nowhere is a row of a window one run of bytes."""


def _padding(op: Conv2D | DepthwiseConv2D) -> int:
    """Rows and columns around the tensor."""
    windows = (op.rows, op.columns)
    return sum(window.before + window.after for window in windows)
