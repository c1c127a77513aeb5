"""Packing of weights and scales (requantisation constants) in the order in which the kernels in
`runtime/thumb*.h` read them.

The scale of a channel consists of the constants of its requantisation form, including the bias
(`requantisation/clamped.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.fixedpoint import Int64s, wrap_int32
from penstock.frozen import frozen
from penstock.ir.tensor import Array
from penstock.requantisation.clamped import ClampedForm

MOST_WORDS = 8  # Largest number of words in a block, for which the kernel's code is unrolled.
_WORD = 4
_LEAST, _MOST = -(2**15), 2**15 - 1
# Branch offset into the unrolled code of a block, in bytes: constant part, and part per word.
_NO_WORD_BYTES, _WORD_BYTES = -24, -32


@frozen(eq=False)
class ThumbLayer:
    """A layer whose requantisation is proved to yield the outputs of the reference runtime.

    weights      (channels, taps); taps are the elements of a window, row by row
    bias         (channels,), corrected for the zero point of the input
    form         requantisation constants of all channels
    is_constant  whether each channel's output is the same for every input; if so, its weights are 0
    outputs      (channels,): the outputs of constant channels; placeholders for other channels
    classes      one letter per channel: its requantisation class, from A (the cheapest arithmetic)
                 to D (the arithmetic of the reference runtime)
    """

    weights: Int64s
    bias: Int64s
    form: ClampedForm
    is_constant: Sequence[bool]
    outputs: Int64s
    classes: str

    @property
    def corrects(self) -> bool:
        """Whether requantisation adds a correction for accumulators below a threshold.

        If so, the packed constants of each channel contain its threshold and its correction."""
        return self.form.corrects

    def scale(self, channel: int) -> bytes:
        """Return the bias and the requantisation constants of a channel, packed for the kernels.

        The result consists of 8 little-endian int32 words in the order in which the kernels read
        them; 10 words if there are corrections (`corrects`).  One word is the channel's index in
        the output, because the kernels may compute channels in another order.

        channel: index of the channel."""
        form = self.form
        bias = self.bias[channel] - form.origin[channel]
        correction = (form.turn[channel], form.correction[channel]) if self.corrects else ()
        words = (
            *(bias, form.highest[channel], form.low[channel], *correction, form.offset[channel]),
            *(form.bits[channel], form.high[channel], channel, form.base[channel]),
        )
        return wrap_int32(np.array(words, np.int64)).astype("<i4").tobytes()


@frozen
class PackedPairs:
    """Weights and requantisation constants of a convolution, packed in pairs of output channels.

    content: the bytes that the kernel reads.
    groups: number of pairs.
    blocks: number of blocks, summed over the pairs; a block consists of words whose products the
        kernel sums in 16 bits.
    words: number of 32-bit words of weights, summed over the pairs; each has two taps of two
        channels."""

    content: bytes
    groups: int
    blocks: int
    words: int


def by_taps(layer: ThumbLayer) -> bytes:
    """Return the packed weights and requantisation constants of a depthwise layer."""
    # The channels follow one another.  Each begins with one weight byte per tap, in row-major order
    # of the window, padded with zeros to a multiple of four bytes.  The bias and the requantisation
    # constants of the channel follow.
    taps = layer.weights.shape[1]
    weights = np.pad(layer.weights, ((0, 0), (0, -taps % _WORD))).astype(np.int8)
    return b"".join(w.tobytes() + layer.scale(channel) for channel, w in enumerate(weights))


def by_rows(layer: ThumbLayer) -> bytes:
    """Return the packed weights and requantisation constants of a fully connected layer."""
    # Each group of four output channels begins with four weight bytes for every input, one per
    # channel.  The bias and requantisation constants of each channel follow.  If 4 does not divide
    # the number of channels, the last channel is repeated.
    count = len(layer.weights)
    content = bytearray()
    for begin in range(0, count, _WORD):
        four = [min(begin + k, count - 1) for k in range(_WORD)]
        content += layer.weights[four].T.astype(np.int8).tobytes()
        content += b"".join(map(layer.scale, four))
    return bytes(content)


def by_fours(weights: Array) -> Array:
    """Return weights of shape (outputs, inputs) in the order in which the kernel reads them."""
    # The axes of the flattened result are: group of four outputs, input, output in group.  With
    # int8 weights, the four weights of an input form a 32-bit word.  The outputs are padded with
    # zeros to a multiple of four.
    padded = np.pad(weights, ((0, -len(weights) % _WORD), (0, 0)))
    return padded.reshape(-1, _WORD, padded.shape[1]).swapaxes(1, 2).ravel()


def by_pairs(layer: ThumbLayer) -> PackedPairs | None:
    """Return the weights and requantisation constants of a convolution in pairs of channels.

    Returns None if the sum of the products of two taps, the smallest block, may exceed 16 bits."""
    # Channels with similar sums of absolute weights are paired (`_pairs`).  Channels whose output
    # is the same for every input are omitted.  The taps of a pair are divided into blocks: the
    # kernel adds the products of a block in 16 bits, and the sums of all blocks in 32 bits.
    content, blocks, words = bytearray(), 0, 0
    pairs = list(_pairs(layer))
    for pair in pairs:
        weights = layer.weights[list(pair)]
        weights = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
        sizes = block_sizes(weights)
        if sizes is None:
            return None
        content += _blocks(weights, sizes)
        for channel in pair:
            content += layer.scale(channel)
        blocks, words = blocks + len(sizes), words + sum(sizes)
    return PackedPairs(bytes(content), len(pairs), blocks, words)


def _pairs(layer: ThumbLayer) -> Iterator[tuple[int, int]]:
    """Yield pairs of output channels, by index, whose weights have similar magnitudes."""
    # Both channels of a pair are computed in the same blocks of taps.  The channel with the larger
    # weights limits the length of these blocks (`block_sizes`), so it would slow down a channel
    # with much smaller weights.
    #
    # Channels are sorted by their sums of absolute weights.  Channels whose output is the same for
    # every input are omitted.  If the number of remaining channels is odd, the last one is paired
    # with itself.
    sums = np.abs(layer.weights).sum(axis=1)
    active = sorted(
        np.flatnonzero(~np.array(layer.is_constant)).tolist(), key=lambda c: int(sums[c])
    )
    for k in range(0, len(active), 2):
        yield active[k], active[min(k + 1, len(active) - 1)]


def block_sizes(weights: Int64s) -> list[int] | None:
    """Divide the weights of two channels into blocks, and return the number of words of each block.

    The kernel adds the products of a block in 16 bits, which must be enough for all int8 inputs.
    Subject to this, blocks are as long as possible, at most `MOST_WORDS` words.  Returns None if
    the sum of a single word may exceed 16 bits.

    weights: of shape (2, taps); each word has two taps of both channels.

    In the example, the sum of the first word may be 2 * 127 * -128 = -32512.  With the products of
    the second word it could exceed 16 bits, so each word is a block of its own.

    >>> block_sizes(np.array([[127, 127, 127, 1], [0, 0, 0, 0]]))
    [1, 1]
    """
    up, down = (np.maximum(s * weights, 0).reshape(2, -1, 2).sum(axis=2).T for s in (1, -1))
    most, least = 127 * up + 128 * down, -128 * up - 127 * down
    if not len(most) or most.max() > _MOST or least.min() < _LEAST:
        return [] if not len(most) else None
    sizes = [0]
    high, low = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for above, below in zip(most, least, strict=True):
        high, low = high + above, low + below
        if sizes[-1] == MOST_WORDS or high.max() > _MOST or low.min() < _LEAST:
            sizes.append(0)
            high, low = above, below
        sizes[-1] += 1
    return sizes


def _blocks(weights: Int64s, sizes: Sequence[int]) -> bytes:
    """The packed weights of two channels, divided into blocks of words."""
    # The first word of each block is followed by a branch offset.  After the first word, the kernel
    # jumps by this offset into code that is unrolled for `MOST_WORDS` - 1 words, so that it
    # executes only the code for the other words of the block.
    words = weights.reshape(2, -1, 2).transpose(1, 2, 0).astype(np.int8)
    content, begin = bytearray(), 0
    for size in sizes:
        jump = np.array([_NO_WORD_BYTES + _WORD_BYTES * size], "<i4").tobytes()
        first, *others = words[begin : begin + size]
        content += first.tobytes() + jump + b"".join(word.tobytes() for word in others)
        begin += size
    return bytes(content)
