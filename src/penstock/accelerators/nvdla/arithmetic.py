"""arithmetic: the computations of the functional model: depthwise convolution, pooling, conversion
of accumulators to elements, and element-wise combination of two tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.accelerators.nvdla.extension import (
    ElementwiseMode,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
)
from penstock.accelerators.nvdla.layer import Conversion, ConvolutionLayer
from penstock.uma import Array, multiply, requantise, rounding_shift

Sums = NDArray[np.int64]

INT8 = Range()
TERM_BITS = 20
"""The number of bits by which the operands of an element-wise sum are shifted left."""


def converted(sums: Sums, conversion: Conversion) -> Array:
    """Convert accumulators (`sums`) to int8 elements by NVDLA's own conversion.  Layers with the
    extension's post-processing (`Post`) do not use this conversion."""
    scaled = rounding_shift((sums - conversion.offset) * conversion.scale, conversion.shift)
    return np.clip(scaled, INT8.least, INT8.most).astype(np.int8)


def combined(first: Array, second: Array, post: Post) -> Array:
    """Return the element-wise sum, difference or product of two tensors, as `post.elementwise`
    selects, requantised in TFLite's arithmetic with the scales in `post`."""
    left = first.astype(np.int64) - post.first.zero
    right = second.astype(np.int64) - post.other.zero
    if post.elementwise is ElementwiseMode.MULTIPLY:
        values = left * right
    else:
        sign = 1 if post.elementwise is ElementwiseMode.ADD else -1
        values = _scaled_term(left, post.first) + sign * _scaled_term(right, post.other)
    limits = (post.result_limits.least, post.result_limits.most)
    result = post.result
    return requantise(values, result.multiplier, result.shift, result.zero, limits)


def pooled(image: Array, layer: WindowLayer) -> Sums:
    """Return the maximum or the mean of each window, as `layer.kind` selects.  Padding does not
    count; a mean is rounded to the nearest integer, with ties away from zero.

    image: the input, of shape (rows, columns, channels)."""
    values = _padded(image, layer, 0)
    there = _padded(np.ones_like(image), layer, 0)
    out = (layer.out_height, layer.out_width, layer.channels)
    largest = np.full(out, INT8.least, np.int64)
    total, count = np.zeros(out, np.int64), np.zeros(out, np.int64)
    for (_, _, taps), (_, _, real) in zip(
        elements_by_tap(values, layer), elements_by_tap(there, layer), strict=True
    ):
        inside = real.astype(bool)
        np.maximum(largest, taps.astype(np.int64), out=largest, where=inside)
        total += taps.astype(np.int64)
        count += inside
    if layer.kind is WindowKind.LARGEST:
        return largest
    half = count // 2
    return np.where(total > 0, (total + half) // count, -((half - total) // count))


def depthwise(image: Array, weights: Array, layer: WindowLayer) -> Sums:
    """Return the accumulators of a depthwise convolution, without biases.

    image: the input, of shape (rows, columns, channels).
    weights: array of shape (rows, columns, output channels)."""
    values = np.repeat(_padded(image, layer, layer.pad_value), layer.channel_multiplier, axis=2)
    totals = np.zeros((layer.out_height, layer.out_width, layer.kernels), np.int64)
    for k, l, taps in elements_by_tap(values, layer):  # noqa: E741
        totals += taps.astype(np.int64) * weights[k, l]
    return totals


def elements_by_tap(
    padded: Array, layer: ConvolutionLayer | WindowLayer
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Yield (row, column, elements) for each tap, a position within the window.

    The elements are those at this position in each window, of shape (output rows, output columns,
    channels).

    padded: the input with its padding, of shape (rows, columns, channels)."""
    window = (
        (layer.kernel_height, layer.kernel_width)
        if isinstance(layer, ConvolutionLayer)
        else (layer.window_height, layer.window_width)
    )
    for k in range(window[0]):
        for l in range(window[1]):  # noqa: E741
            top, left = k * layer.dilation_y, l * layer.dilation_x
            yield (
                k,
                l,
                padded[
                    top : top + (layer.out_height - 1) * layer.stride_y + 1 : layer.stride_y,
                    left : left + (layer.out_width - 1) * layer.stride_x + 1 : layer.stride_x,
                ].astype(np.float64),
            )


def _padded(image: Array, layer: WindowLayer, value: int) -> Array:
    """Return an image (rows, columns, channels) with the layer's padding, filled with `value`."""
    pad = layer.padding
    border = ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
    return np.pad(image, border, constant_values=value)


def _scaled_term(values: Sums, scale: Scale) -> Sums:
    """Return an operand of an element-wise sum or difference, shifted left by `TERM_BITS` (20) bits
    and multiplied by `scale`."""
    return multiply(values << TERM_BITS, scale.multiplier, scale.shift)


def int8(value: int) -> int:
    """Return the low eight bits of `value` as a signed number."""
    return (value + 128) % 256 - 128
