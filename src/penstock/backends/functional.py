"""NumPy functions for functional models, which simulate the driver functions of accelerators."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from penstock.fixedpoint import Int64s
from penstock.ir.tensor import Array


def elements(content: Array, dtype: DTypeLike, *shape: int) -> Array:
    """Return the tensor of type `dtype` and shape `shape` at the beginning of `content`.

    `content` holds the bytes of a memory from the tensor's address on.  The result is a view of
    them: writing to it writes to the memory.

    >>> memory = np.zeros(8, np.uint8)
    >>> elements(memory[4:], np.int16, 1, 2)[:] = -2
    >>> memory
    array([  0,   0,   0,   0, 254, 255, 254, 255], dtype=uint8)
    """
    size_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return content[:size_bytes].view(dtype).reshape(shape)


def convolved(
    x: Array,
    weights: Array,
    size: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    before: tuple[int, int] = (0, 0),
    zero: int = 0,
) -> Int64s:
    """Return the accumulators of a convolution without bias, with shape (rows, columns, channels).

    x: the input, with shape (rows, columns, input channels).
    weights: with shape (output channels, kernel rows, kernel columns, input channels).
    size: the rows and columns of the output.
    stride, dilation: vertical, then horizontal.
    before: the padding above the image and on its left side; it adds 0 to an accumulator.
    zero: the zero point of the input, which is subtracted from `x`.

    >>> x, weights = np.arange(4).reshape(2, 2, 1), np.ones((1, 2, 2, 1))
    >>> convolved(x, weights, (2, 2), before=(1, 1))[..., 0]
    array([[0, 1],
           [2, 6]])
    """
    axes = zip(size, weights.shape[1:], stride, dilation, before, strict=False)
    taps = [np.arange(n)[:, None] * s + np.arange(k) * d - b for n, k, s, d, b in axes]
    inside = [(tap >= 0) & (tap < extent) for tap, extent in zip(taps, x.shape, strict=False)]
    rows, columns = (t.clip(0, extent - 1) for t, extent in zip(taps, x.shape, strict=False))
    found = (x.astype(np.float64) - zero)[rows[:, :, None, None], columns]
    found *= (inside[0][:, :, None, None] & inside[1])[..., None]
    sums = np.tensordot(found, weights.astype(np.float64), ((1, 3, 4), (1, 2, 3)))
    return sums.astype(np.int64)  # below 2^53, float64 is exact
