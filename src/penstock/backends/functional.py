"""NumPy functions for functional models, which simulate the driver functions of accelerators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from penstock.backends.scratchpad_tile import TilePiece
from penstock.fixedpoint import Int64s
from penstock.ir.tensor import Array


def elements(
    content: Array, dtype: DTypeLike, *shape: int, pitches: Sequence[int] | None = None
) -> Array:
    """Return the tensor of type `dtype` and shape `shape` at the beginning of `content`.

    `content` holds the bytes of a memory from the tensor's address on.  The result is a view of
    them: writing to it writes to the memory.

    pitches: distance in bytes between consecutive elements along each dimension, as in
        `ScratchpadTile.pitches`; None if the elements are contiguous.

    >>> memory = np.zeros(8, np.uint8)
    >>> elements(memory[4:], np.int16, 1, 2)[:] = -2
    >>> memory
    array([  0,   0,   0,   0, 254, 255, 254, 255], dtype=uint8)
    >>> elements(memory[2:], np.uint8, 2, 3, pitches=(3, 1))
    array([[  0,   0, 254],
           [255, 254, 255]], dtype=uint8)

    Raises ValueError or TypeError if the tensor exceeds `content`."""
    if pitches is not None:
        return np.ndarray(shape, dtype, content, strides=tuple(pitches))
    size_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return content[:size_bytes].view(dtype).reshape(shape)


def load_piece(scratchpad: Array, piece: TilePiece[int, Array]) -> None:
    """Copy a piece of a tile to a scratchpad: the functional model of a driver function.

    scratchpad: the bytes of the scratchpad.
    piece: the piece, with numbers instead of expressions.  `piece.address` is not an address, but
        the array of the bytes that are stored in memory from this address on."""
    for k in range(piece.runs):
        source = piece.address[k * piece.pitch :][: piece.run_bytes]
        scratchpad[piece.local + k * piece.local_pitch :][: piece.run_bytes] = source


def store_piece(scratchpad: Array, piece: TilePiece[int, Array]) -> None:
    """Copy a piece of a tile to memory: the functional model of a driver function.

    scratchpad: the bytes of the scratchpad.
    piece: the piece, as in `load_piece`; the bytes are written to the array `piece.address`."""
    for k in range(piece.runs):
        target = piece.address[k * piece.pitch :][: piece.run_bytes]
        target[:] = scratchpad[piece.local + k * piece.local_pitch :][: piece.run_bytes]


def sliding_windows(
    x: Array,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    before: tuple[int, int] = (0, 0),
) -> tuple[Array, Array]:
    """Return the windows of an image, and which of their elements are inside the image.

    The windows have shape (rows, columns, kernel rows, kernel columns, channels); the second array
    is True for elements of the image, and has a last axis of length 1.  Elements of the padding
    have arbitrary values.

    x: the image, with shape (rows, columns, channels).
    size: the rows and columns of the output.
    kernel, stride, dilation: vertical, then horizontal.
    before: the padding above the image and on its left side.

    >>> x = np.arange(4).reshape(2, 2, 1)
    >>> found, inside = sliding_windows(x, (1, 1), (2, 2), before=(0, 1))
    >>> found[0, 0, :, :, 0], inside[0, 0, :, :, 0]
    (array([[0, 0],
           [2, 2]]), array([[False,  True],
           [False,  True]]))
    """
    axes = zip(size, kernel, stride, dilation, before, strict=True)
    taps = [np.arange(n)[:, None] * s + np.arange(k) * d - b for n, k, s, d, b in axes]
    pairs = list(zip(taps, x.shape, strict=False))
    inside = [(tap >= 0) & (tap < extent) for tap, extent in pairs]
    rows, columns = (tap.clip(0, extent - 1) for tap, extent in pairs)
    is_inside = inside[0][:, None, :, None] & inside[1][:, None, :]
    return x[rows[:, None, :, None], columns[:, None, :]], is_inside[..., None]


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
    kernel = weights.shape[1], weights.shape[2]
    x = x.astype(np.float64) - zero
    found, inside = sliding_windows(x, size, kernel, stride, dilation, before)
    sums = np.tensordot(found * inside, weights.astype(np.float64), ((2, 3, 4), (1, 2, 3)))
    return sums.astype(np.int64)  # below 2^53, float64 is exact
