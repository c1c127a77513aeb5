"""Arithmetic of block operations (all operations except copies) on whole feature maps, in exact
integers.

`ifm` is the input as an int64 array (height, width, depth), from which the zero point has not been
subtracted. Accumulators are int64 arrays in the shape of the output; `output.py` converts them to
output elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from penstock.uma import Array
from penstock_ethos_u.interpreter.operation import BlockOperation, ScaleFactor
from penstock_ethos_u.interpreter.output import scaled

LEAST = -(1 << 48)  # Padding of maximum pooling; less than any element.


def convolution(operation: BlockOperation, ifm: Array, kernel: Array) -> Array:
    """Return the accumulators of a convolution: the sums of products, without biases.

    ifm: int64 array (height, width, input channels), from which the zero point has not been
        subtracted.
    kernel: int64 array (height, width, input channels, output channels)."""
    # float64 represents the sums of products exactly.
    centred = _padded_input(operation, ifm - operation.ifm.zero_point, 0).astype(np.float64)
    height, width, depth = operation.ofm.shape
    total = np.zeros((height * width, depth))
    for (y, x), window in _windows(operation, centred):
        total += window.reshape(height * width, -1) @ kernel[y, x].astype(np.float64)
    return total.reshape(height, width, depth).astype(np.int64)


def depthwise(operation: BlockOperation, ifm: Array, kernel: Array) -> Array:
    """Return the accumulators of a depthwise convolution: the sums of products, without biases.

    ifm: int64 array (height, width, channels), from which the zero point has not been subtracted.
    kernel: int64 array (height, width, 1, channels)."""
    centred = _padded_input(operation, ifm - operation.ifm.zero_point, 0)
    taps = _windows(operation, centred)
    return sum((window * kernel[y, x, 0] for (y, x), window in taps), np.zeros(1, np.int64))


def largest(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each window, the maximum of (element - zero point of the input). Padding is
    ignored. `ifm` is an int64 array (height, width, channels)."""
    filled = _padded_input(operation, ifm - operation.ifm.zero_point, LEAST)
    found = np.full(operation.ofm.shape, LEAST)
    for _, window in _windows(operation, filled):
        found = np.maximum(found, window)
    return found


def least(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each window, the minimum, as `largest` the maximum."""
    return -largest(operation, 2 * operation.ifm.zero_point - ifm)


def unchanged(operation: BlockOperation, ifm: Array) -> Array:
    """Return (element - zero point of the input) of each element."""
    return ifm - operation.ifm.zero_point


def window_sum(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each window, the sum of (element - zero point of the input). Padding counts as 0.
    `ifm` is an int64 array (height, width, channels)."""
    filled = _padded_input(operation, ifm - operation.ifm.zero_point, 0)
    return sum((window for _, window in _windows(operation, filled)), np.zeros(1, np.int64))


def window_counts(operation: BlockOperation) -> Array:
    """Return, for each window, the number of elements that are not padding, as an array of shape
    (output height, output width, 1)."""
    ones = _padded_input(operation, np.ones((*operation.ifm.shape[:2], 1), np.int64), 0)
    return sum((window for _, window in _windows(operation, ones)), np.zeros(1, np.int64))


def place_of_largest(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each window of one row or one column, the index of its first maximum. `ifm` is an
    int64 array (height, width, channels)."""
    windows = _windows(operation, _padded_input(operation, ifm, LEAST))
    return np.argmax(np.stack([window for _, window in windows]), axis=0)


def product(operation: BlockOperation, ifm: Array, other: Array) -> Array:
    """Return the products of the pixels of the input and of a second input, each as a vector of
    channels: the second input is an int64 array (1, output channels, input channels). The zero
    points have not been subtracted."""
    assert operation.second is not None
    right = (other[0] - operation.second.zero_point).astype(np.float64)
    return ((ifm - operation.ifm.zero_point) @ right.T).astype(np.int64)


def depth_sum(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each pixel, the sum of (element - zero point of the input) over all channels.
    `ifm` is an int64 array (height, width, channels); the result has one channel."""
    return (ifm - operation.ifm.zero_point).sum(axis=2, keepdims=True)


def bilinear(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each output of a resized image, the sum of the four (element - zero point of the
    input) around it, weighted by the number of parts. `ifm` is an int64 array (height, width,
    channels)."""
    one = ifm - operation.ifm.zero_point
    for axis, (places, rest, parts) in enumerate(_samples(operation)):
        before, after = (
            one.take(np.clip(places + k, 0, one.shape[axis] - 1), axis=axis) for k in range(2)
        )
        weights = rest.reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        one = before * (parts - weights) + after * weights
    return one


def nearest(operation: BlockOperation, ifm: Array) -> Array:
    """Return, for each output of a resized image, the nearest (element - zero point of the input).
    `ifm` is an int64 array (height, width, channels)."""
    one = ifm - operation.ifm.zero_point
    for axis, (places, rest, parts) in enumerate(_samples(operation)):
        one = one.take(np.clip(places + (2 * rest >= parts), 0, one.shape[axis] - 1), axis=axis)
    return one


def _samples(operation: BlockOperation) -> Iterator[tuple[Array, Array, int]]:
    """For rows and for columns: the input at or before each output, the distance in parts, and the
    number of parts."""
    assert operation.resize is not None
    for axis, extent in zip(operation.resize, operation.ofm.shape[:2], strict=True):
        yield *axis.place(np.arange(extent, dtype=np.int64)), axis.parts


def elementwise(operation: BlockOperation, ifm: Array, other: Array | int | None) -> Array:
    """Return the result of an element-wise operation before requantisation, as an int64 array in
    the shape of the output.

    ifm: the first input, from which the zero point has not been subtracted.
    other: the second input, from which the zero point has not been subtracted: an array, a scalar,
        or None if the operation has one input."""
    one = ifm - operation.ifm.zero_point
    second = operation.second
    if second is None:
        return UNARY[operation.kind](operation, one)
    assert other is not None
    two = np.asarray(other - second.zero_point, np.int64)
    left, right = (two, one) if second.first else (one, two)
    of = operation.operand_scaling
    left, right = _scaled(left, of.left), _scaled(right, of.right)
    found = BINARY[operation.kind](operation, left, right)
    return np.broadcast_to(found, operation.ofm.shape)


def _shifted_right(operation: BlockOperation, left: Array, right: Array) -> Array:
    return scaled(left, 1, right, operation.rounding)


def _leaky(operation: BlockOperation, one: Array) -> Array:
    of = operation.operand_scaling
    return np.where(one < 0, _scaled(one, of.right), _scaled(one, of.left))


def _leading_zeros(operation: BlockOperation, one: Array) -> Array:
    """The number of leading zeros of each element of `one` in 32-bit two's complement."""
    bits = one & 0xFFFFFFFF
    used = (bits >> k != 0 for k in range(32))
    return 32 - sum((each.astype(np.int64) for each in used), np.zeros(1, np.int64))


BINARY: dict[str, Callable[[BlockOperation, Array, Array], Array]] = {
    "mul": lambda _, left, right: left * right,
    "add": lambda _, left, right: left + right,
    "sub": lambda _, left, right: left - right,
    "min": lambda _, left, right: np.minimum(left, right),
    "max": lambda _, left, right: np.maximum(left, right),
    "equal": lambda _, left, right: -(left == right).astype(np.int64),
    "not_equal": lambda _, left, right: -(left != right).astype(np.int64),
    "greater": lambda _, left, right: -(left > right).astype(np.int64),
    "greater_equal": lambda _, left, right: -(left >= right).astype(np.int64),
    "and": lambda _, left, right: left & right,
    "or": lambda _, left, right: left | right,
    "xor": lambda _, left, right: left ^ right,
    "and_not": lambda _, left, right: left & ~right,
    "shr": _shifted_right,
    "shl": lambda _, left, right: left << right,
}
UNARY: dict[str, Callable[[BlockOperation, Array], Array]] = {
    "lrelu": _leaky,
    "abs": lambda operation, one: abs(_scaled(one, operation.operand_scaling.left)),
    "clz": _leading_zeros,
    "not": lambda _, one: ~one,
}


def _scaled(values: Array, of: ScaleFactor) -> Array:
    return scaled(values << of.left, of.scale, of.shift + of.left, of.rounding)


def _padded_input(operation: BlockOperation, values: Array, fill: int) -> Array:
    """Return `values` as the windows read them: upscaled by a factor of two if the operation
    requires it, then padded with `fill`."""
    # The upscale mode "zeros" inserts zeros between elements; "nearest" repeats each element.
    height, width = operation.height, operation.width
    if operation.upscale != "none":
        values = values.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
        if operation.upscale == "zeros":
            values[1::2] = 0
            values[:, 1::2] = 0
    pad = operation.padding
    around = ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
    return np.pad(values, around, constant_values=fill)


def _windows(operation: BlockOperation, padded: Array) -> Iterator[tuple[tuple[int, int], Array]]:
    """((row, column), elements) for each tap of the kernel: its position, and the input
    elements that it reads."""
    # `elements` is an array (output height, output width, depth).  At [y, x], it contains the input
    # pixel that the tap reads for the output pixel (y, x).
    kernel = operation.kernel
    height, width, _ = operation.ofm.shape
    for y in range(kernel.height):
        for x in range(kernel.width):
            top, left = y * kernel.dilation_y, x * kernel.dilation_x
            yield (
                (y, x),
                padded[
                    top : top + (height - 1) * kernel.stride_y + 1 : kernel.stride_y,
                    left : left + (width - 1) * kernel.stride_x + 1 : kernel.stride_x,
                ],
            )
