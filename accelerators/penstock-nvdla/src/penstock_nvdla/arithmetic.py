"""arithmetic: the computations of the functional model: pooling, the units of SDP, and conversion
of accumulators to elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from penstock.uma import Array, rounding_shift
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import Conversion, ConvolutionLayer
from penstock_nvdla.pdp import FRACTION_BITS, PRODUCT_BITS, PoolingLayer, PoolingMethod
from penstock_nvdla.sdp import Algorithm, SdpUnit, SdpUnitY

Sums = NDArray[np.int64]

LOWEST, HIGHEST = -128, 127
# The bits of PDP's constants for 0 to 7 elements of padding that int8 uses.
SUM_BITS = (8, 8, 9, 10, 10, 11, 11, 11)
ELEMENT_BITS = 8


def converted(sums: Sums, conversion: Conversion) -> Array:
    """Convert accumulators (`sums`) to int8 elements by SDP's converter."""
    scaled = rounding_shift((sums - conversion.offset) * conversion.scale, conversion.shift)
    return np.clip(scaled, LOWEST, HIGHEST).astype(np.int8)


def whole_packs(channels: int, hardware: NvdlaConfiguration) -> int:
    """Return a number of channels, rounded up to whole packs."""
    atom = hardware.memory_atom_bytes
    return -(-channels // atom) * atom


def with_unused_channels(sums: Sums, hardware: NvdlaConfiguration) -> Sums:
    """Return accumulators with zeros appended for the unused channels of the last pack.

    sums: the accumulators, of shape (rows, columns, channels)."""
    beyond = whole_packs(sums.shape[2], hardware) - sums.shape[2]
    return np.pad(sums, ((0, 0), (0, 0), (0, beyond)))


def processed(values: Sums, unit: SdpUnit, addends: Sums, factors: Sums) -> Sums:
    """Return the result of unit X1 or X2 of SDP: it adds to `values` or takes a maximum or minimum,
    multiplies, shifts right, and clamps negative values to 0, as the fields of `unit` state.

    values: the input, of shape (rows, columns, channels).
    addends, factors: the operands, in shapes that broadcast to that of `values`."""
    if unit.bypass:
        return values
    if not unit.skip_addition:
        operands = saturated(addends << unit.left_shift)
        if unit.algorithm is Algorithm.SUM:
            values = values + operands
        elif unit.algorithm is Algorithm.LARGEST:
            values = np.maximum(values, operands)
        else:
            values = np.minimum(values, operands)
    if unit.skip_multiplication:
        scaled = rounding_shift(values, unit.right_shift)
    else:
        scaled = rounding_shift(values * factors, unit.right_shift)
        if unit.prelu:
            scaled = np.where(values < 0, scaled, values)
    values = saturated(scaled)
    return values if unit.skip_clamp else np.maximum(values, 0)


def weighted_sum(values: Sums, unit: SdpUnitY, addends: Sums, factors: Sums) -> Sums:
    """Return the result of unit Y of SDP: the sum of its scaled input and scaled addends.

    values: the input, of shape (rows, columns, channels).
    addends, factors: the operands, in shapes that broadcast to that of `values`."""
    product = saturated(rounding_shift(values * factors, unit.right_shift))
    scaled = rounding_shift((addends - unit.offset) * unit.scale, unit.shift)
    return saturated(product + saturated(scaled))


def saturated(values: Sums) -> Sums:
    """Return values saturated to 32 bits."""
    return np.clip(values, -(1 << 31), (1 << 31) - 1)


def pooled_by_pdp(image: Array, layer: PoolingLayer) -> Sums:
    """Return what unit PDP computes of each window: the largest or smallest element, or an average.

    image: the input, of shape (rows, columns, channels)."""
    # An average scales the sum of the window by the factors of the layer, and rounds after each.
    # The hardware keeps 11 bits of the first product, and 8 bits of the second.
    pad = layer.padding
    border = ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
    neutral = {PoolingMethod.AVERAGE: 0, PoolingMethod.LARGEST: -128, PoolingMethod.SMALLEST: 127}
    padded = np.pad(image.astype(np.int64), border, constant_values=neutral[layer.method])
    windows = sliding_window_view(padded, (layer.window_height, layer.window_width), axis=(0, 1))
    windows = windows[:: layer.stride_y, :: layer.stride_x]
    if layer.method is PoolingMethod.LARGEST:
        return windows.max(axis=(3, 4))
    if layer.method is PoolingMethod.SMALLEST:
        return windows.min(axis=(3, 4))
    sums = windows.sum(axis=(3, 4)) + _padding_sums(layer)[:, :, None]
    product = _scaled_by_pdp(sums, layer.factor_x, PRODUCT_BITS)
    return _scaled_by_pdp(product, layer.factor_y, ELEMENT_BITS)


def _scaled_by_pdp(values: Sums, factor: int, bits: int) -> Sums:
    """The products with a factor of PDP, rounded, of which the hardware keeps `bits` bits."""
    products = values * factor
    whole, fraction = products >> FRACTION_BITS, products & ((1 << FRACTION_BITS) - 1)
    half = 1 << (FRACTION_BITS - 1)
    above = whole % (1 << (bits - 1)) + (fraction >= half)
    below = whole + (fraction > half)
    return signed(np.where(products < 0, below, above), bits)


@overload
def signed(value: int, bits: int) -> int: ...
@overload
def signed(value: Sums, bits: int) -> Sums: ...
def signed(value: int | Sums, bits: int) -> int | Sums:
    """Return the low `bits` bits of a number, or of each number, as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _padding_sums(layer: PoolingLayer) -> Sums:
    """The amount that PDP adds to the sum of each window to account for padding."""
    # The result has one amount for each window: its shape is (output rows, output columns).
    #
    # `layer.sums` contains constants c(1) to c(7): PDP adds c(n) in place of n elements of padding
    # in the same row or column of a window.  c(0) is 0.  Let m rows of a window lie above or below
    # the input, and n of its columns to the left or right.  Each of the other rows contains n
    # elements of padding, for which PDP adds c(n).  In the m rows, all elements are padding; PDP
    # adds c(m) for each column of the window.  So each element of padding counts once.
    words = [0, *layer.sums]
    constants = np.array(
        [signed(word, bits) for word, bits in zip(words, SUM_BITS, strict=True)], np.int64
    )
    there = np.ones((layer.height, layer.width), np.int64)
    pad = layer.padding
    padded = np.pad(there, ((pad.top, pad.bottom), (pad.left, pad.right)))
    windows = sliding_window_view(padded, (layer.window_height, layer.window_width))
    windows = windows[:: layer.stride_y, :: layer.stride_x]
    columns, rows = windows.max(axis=2).sum(axis=2), windows.max(axis=3).sum(axis=2)
    beside = constants[layer.window_width - columns] * rows
    return beside + constants[layer.window_height - rows] * layer.window_width


def elements_by_tap(
    padded: Array, layer: ConvolutionLayer
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Yield (row, column, elements) for each tap, a position within the window.

    The elements are those at this position in each window, of shape (output rows, output columns,
    channels).

    padded: the input with its padding, of shape (rows, columns, channels)."""
    for k in range(layer.kernel_height):
        for l in range(layer.kernel_width):  # noqa: E741
            top, left = k * layer.dilation_y, l * layer.dilation_x
            yield (
                k,
                l,
                padded[
                    top : top + (layer.out_height - 1) * layer.stride_y + 1 : layer.stride_y,
                    left : left + (layer.out_width - 1) * layer.stride_x + 1 : layer.stride_x,
                ].astype(np.float64),
            )


def int8(value: int) -> int:
    """Return the low eight bits of `value` as a signed number."""
    return signed(value, ELEMENT_BITS)
