"""Weights and scales in the order of the kernels of `thumb.py`, as `runtime/thumb*.h` say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s, wrap_int32
from penstock.requantisation.clamped import ClampedForm

MOST_WORDS = 8
"""Of a block: so many the kernel has code for."""
_WORD = 4
_LEAST, _MOST = -(2**15), 2**15 - 1
_NO_WORD_BYTES, _WORD_BYTES = -24, -32
"""How far a block's code lies back: for none of its words, and for each."""


@dataclass(frozen=True, slots=True, eq=False)
class ThumbLayer:
    """Weights (channels, taps), biases with the input's zero point in them, and requantisation;
    channels whose output is the same for every input are `idle`; `classes`: a letter each."""

    weights: Int64s
    bias: Int64s
    form: ClampedForm
    idle: Sequence[bool]
    outputs: Int64s
    classes: str

    @property
    def is_signed(self) -> bool:
        """Whether scales have corrections."""
        return self.form.corrects

    def scale(self, channel: int) -> bytes:
        """The words of a channel's scale."""
        form = self.form
        bias = self.bias[channel] - form.origin[channel]
        turn = (form.turn[channel], form.correction[channel]) if self.is_signed else ()
        words = (
            *(bias, form.highest[channel], form.low[channel], *turn, form.offset[channel]),
            *(form.bits[channel], form.high[channel], channel, form.base[channel]),
        )
        return wrap_int32(np.array(words, np.int64)).astype("<i4").tobytes()


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes of weights and scales; of how many groups, blocks, and words of weights."""

    content: bytes
    groups: int
    blocks: int
    words: int


def by_taps(layer: ThumbLayer) -> bytes:
    """For each channel its weights, filled up with zeros to words, and its scale."""
    taps = layer.weights.shape[1]
    weights = np.pad(layer.weights, ((0, 0), (0, -taps % _WORD))).astype(np.int8)
    return b"".join(w.tobytes() + layer.scale(channel) for channel, w in enumerate(weights))


def by_rows(layer: ThumbLayer) -> bytes:
    """For each four channels their weights, input by input, and their scales; the last channel
    again where they fill no four."""
    count = len(layer.weights)
    content = bytearray()
    for begin in range(0, count, _WORD):
        four = [min(begin + k, count - 1) for k in range(_WORD)]
        content += layer.weights[four].T.astype(np.int8).tobytes()
        content += b"".join(map(layer.scale, four))
    return bytes(content)


def by_pairs(layer: ThumbLayer) -> Packed | None:
    """The layer's channels in pairs, those of like weights together; None where two taps do not fit
    a block."""
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
    return Packed(bytes(content), len(pairs), blocks, words)


def _pairs(layer: ThumbLayer) -> Iterator[tuple[int, int]]:
    """Channels that are not idle, two by two; the last one twice where they are odd."""
    sums = np.abs(layer.weights).sum(axis=1)
    living = sorted(np.flatnonzero(~np.array(layer.idle)).tolist(), key=lambda c: int(sums[c]))
    for k in range(0, len(living), 2):
        yield living[k], living[min(k + 1, len(living) - 1)]


def block_sizes(weights: Int64s) -> list[int] | None:
    """How many words of two taps each block of a pair (2, taps) has, as many as fit: whatever the
    inputs in int8 are, no sum of a block leaves 16 bits.  None where a word does not fit.

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
    """The words of each block; behind the first, how far to jump."""
    words = weights.reshape(2, -1, 2).transpose(1, 2, 0).astype(np.int8)
    content, begin = bytearray(), 0
    for size in sizes:
        jump = np.array([_NO_WORD_BYTES + _WORD_BYTES * size], "<i4").tobytes()
        first, *others = words[begin : begin + size]
        content += first.tobytes() + jump + b"".join(word.tobytes() for word in others)
        begin += size
    return bytes(content)
