"""Decoder of compressed weight streams. A stream consists of slices. In a slice, each weight is
encoded as an index into a palette; runs of zero weights may be encoded by their lengths.

A slice has a header, an optional new palette, and chunks. With a palette of n entries, an index
below n stands for the entry with this index; an index of n or more stands for a value that is
computed from the index.

Indices and run lengths are encoded in a Golomb-Rice code: a number is quotient << divider, plus a
remainder of `divider` bits. A chunk encodes the quotients of several numbers as 8 or 12 symbols. A
symbol is 0, 1 or 2 for indices, and 0 or 1 for run lengths. A quotient is the sum of
consecutive symbols, the last of which is the first one below the maximum value: for indices, the
symbols 2, 2, 1, 0 encode the quotients 5 and 0. The remainders of a chunk follow the next chunk of
quotients. Indices may also be encoded in binary, i.e. as remainders without quotients.

If zeros are frequent, chunks of run lengths alternate with chunks of indices. There is one run
after every weight and, if the palette is new, one before the first weight.

Source: Arm's weight decoder, mlw_decode.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.uma import Array

# Special divider codes. For runs: end of the stream, no runs. For weights: remainders only.
END, NO_RUNS, NOT_CODED = 7, 6, 7
# Number of symbols in a chunk. The short one is used for runs with a large divider, and for weights
# with many bits.
CHUNK, SHORT_CHUNK = 12, 8
# Maximum number of weights by which chunks of weights may precede the chunks of runs.
MOST_AHEAD = 8
# Maximum number of weights of a slice; protects the host against invalid streams.
MOST_WEIGHTS = 1 << 24


class DamagedError(ValueError):
    """The bits are not a valid weight stream."""


def decoded(stream: bytes) -> Array:
    """Return the weights of a compressed stream as an int64 array, in the order of the stream.
    Raises DamagedError if the stream is invalid."""
    bits = _Bits(stream)
    found: list[Array] = []
    palette: _Palette | None = None
    while True:
        run_divider = bits.take(3)
        if run_divider == END:
            palette = None
            bits.at = -(-bits.at // 8) * 8
            if bits.at == bits.size:
                return np.concatenate([np.zeros(0, np.int64), *found])
            continue
        slice_ = _Slice(bits, run_divider, palette)
        palette = slice_.palette
        found.append(slice_.weights())


# The format of the fast decoder of Ethos-U85: 32 bytes of header, then a weight in 2 or 4 bits that
# index a palette, or in 8 bits.  Bits of the header:
RAW, SMALL = 0, 1  # Whether weights have 8 bits; if not, whether they have 2 instead of 4.
ZERO, ENTRIES, ENTRY_BITS, HEADER = 104, 112, 9, 256


def decoded_fast(stream: bytes) -> Array:
    """Return the weights of a stream for the fast decoder of Ethos-U85 as an int64 array. Those of
    the padding at its end are included. Raises DamagedError if the stream is invalid."""
    bits = _Bits(stream)
    if bits.size < HEADER:
        raise DamagedError(f"it has {bits.size} bits, less than a header")
    raw, small = (bool(bits.one_by_one[at]) for at in (RAW, SMALL))
    width = 8 if raw else 2 if small else 4
    places = np.arange(HEADER, bits.size - width + 1, width)
    values = bits.numbers(places, width)
    if raw:
        zero = int(bits.numbers(np.array([ZERO]), 8)[0])
        return (values ^ 128) - 128 - ((zero ^ 128) - 128)
    entries = bits.numbers(np.arange(ENTRIES, HEADER, ENTRY_BITS), ENTRY_BITS)
    return np.where(entries & 1, -(entries >> 1), entries >> 1)[values]


@dataclass(slots=True)
class _Bits:
    """A reader of the bits of a stream, least significant bit of each byte first.

    data: the stream.
    at: position of the next bit to read, counted from the start of the stream.
    size: number of bits in `data`.
    one_by_one: array with one element, 0 or 1, per bit of `data`."""

    data: bytes
    at: int = 0
    size: int = field(init=False)
    one_by_one: Array = field(init=False)

    def __post_init__(self) -> None:
        self.size = 8 * len(self.data)
        self.one_by_one = np.unpackbits(np.frombuffer(self.data, np.uint8), bitorder="little")

    def take(self, count: int) -> int:
        at = self.skip(count)
        raw = self.data[at >> 3 : (at + count + 7) >> 3]
        return int.from_bytes(raw, "little") >> (at & 7) & (1 << count) - 1

    def skip(self, count: int) -> int:
        """Advance by `count` bits and return the position before the advance. Raises DamagedError
        if fewer than `count` bits remain."""
        begin = self.at
        self.at += count
        if self.at > self.size:
            raise DamagedError(f"it ends at bit {self.size}, inside a slice")
        return begin

    def numbers(self, places: Array, width: int) -> Array:
        found = np.zeros(len(places), np.int64)
        for k in range(width):
            found |= self.one_by_one[places + k].astype(np.int64) << k
        return found


@dataclass(frozen=True, slots=True)
class _Palette:
    """The palette of a slice, which maps indices to weights.

    numbers: array of the palette's entries, which are encoded weights. The lowest bit of an encoded
        weight is the sign, the other bits are the magnitude: -3 is encoded as 0b111.
    offset: an index i >= n, for a palette with n entries, stands for the encoded weight i - n +
        offset.
    width: number of bits of a palette entry in the stream."""

    numbers: Array
    offset: int
    width: int

    @staticmethod
    def read(bits: _Bits) -> _Palette:
        offset, size = bits.take(5), bits.take(5)
        width = bits.take(3) + 2
        numbers = [bits.take(width) for _ in range(size + 1 if size else 0)]
        return _Palette(np.array(numbers, np.int64), offset, width)

    @property
    def index_bits(self) -> int:
        """Number of bits of an index if indices are encoded in binary instead of the Golomb-Rice
        each index is then an encoded weight minus `offset`."""
        size = len(self.numbers)
        return (size - 1).bit_length() if size else self.width

    def signed(self, indices: Array) -> Array:
        """The signed weights for an array of palette indices. Raises DamagedError if an
        index has more than 9 bits."""
        if (indices >= 512).any():
            raise DamagedError(f"weight {int(indices.max())} has more than 9 bits")
        size = len(self.numbers)
        inside = np.append(self.numbers, 0)[np.minimum(indices, size)]
        numbers = np.where(indices < size, inside, indices - size + self.offset)
        return np.where(numbers & 1, -(numbers >> 1), numbers >> 1)


@dataclass(slots=True)
class _Coded:
    """The state of decoding the values of one kind in a slice: weight indices, or lengths of zero
    runs. A value is quotient << divider, plus a remainder of `divider` bits.

    The stream contains chunks, which encode the quotients of several values as symbols 0, 1 and 2.
    The remainders of these values come one chunk later: chunk 0, chunk 1, remainders of chunk 0,
    chunk 2, remainders of chunk 1, and so on.

    count: number of values in the slice.
    divider: number of bits of a remainder.
    begun: number of values whose quotients have been read.
    located: number of values for which the position of the remainder is known.
    unlocated: number of values in the latest chunk, for which this position is not yet known.
    symbol_masks: the symbols of each chunk, as a pair of bit masks. In the first, bit i is 1 if
        symbol i is 1 or 2. The second has one bit for each of these symbols, in order: 1 if the
        symbol is 2. For example, symbols 2, 0, 1 are stored as (0b101, 0b01). For lengths of runs,
        whose symbols are 0 or 1, the second mask is 0.
    places: for each chunk, (bit position of its first remainder, number of its remainders)."""

    count: int
    divider: int
    begun: int = 0
    located: int = 0
    unlocated: int = 0
    symbol_masks: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    places: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def add_chunk(self, quotients: int) -> None:
        # The remainders of these values come later; `skip_remainders` finds them.
        self.begun += quotients
        self.unlocated = quotients

    def skip_remainders(self, bits: _Bits, has_chunk: bool) -> None:
        # The remainders of a chunk follow the next chunk in the stream.  So the caller reads the
        # next chunk (if there is one) before this call, and passes it to `add_chunk` after this
        # call.
        count = min(self.unlocated, self.count - self.located)
        self.located += count
        if count:
            self.places.append((bits.skip(count * self.divider), count))
        if not has_chunk:
            self.unlocated = 0

    def values(self, bits: _Bits, quotients: Array) -> Array:
        """The `count` values as an int64 array: quotient << divider, plus the remainder,
        which is read from `bits`. Raises DamagedError if the slice contains fewer values."""
        begins, counts = np.array(self.places or [(0, 0)], np.int64).T
        before = np.repeat(counts.cumsum() - counts, counts)
        within = np.arange(int(counts.sum())) - before
        rest = bits.numbers(np.repeat(begins, counts) + self.divider * within, self.divider)
        if len(rest) != self.count or len(quotients) < self.count:
            raise DamagedError("a slice has fewer numbers than its header states")
        return (quotients[: self.count] << self.divider) + rest


class _Slice:
    """A slice of a weight stream.

    bits: the stream, positioned at the header of the slice.
    run_divider: the 3-bit number before the header: 6 (`NO_RUNS`) if the slice contains no runs of
        zeros, otherwise the number of remainder bits in the Golomb-Rice code of run lengths.
    palette: the palette of the previous slice, which remains in use unless this slice contains a
        new palette; None for the first slice."""

    def __init__(self, bits: _Bits, run_divider: int, palette: _Palette | None) -> None:
        count, divider = bits.take(15) + 1, bits.take(3)
        self.bits, self.truncated, self.has_new_palette = (
            bits,
            bool(bits.take(1)),
            bool(bits.take(1)),
        )
        palette = _Palette.read(bits) if self.has_new_palette else palette
        if palette is None or run_divider in (4, 5) or divider == 6:
            raise DamagedError(f"the slice before bit {bits.at} has an invalid header")
        self.palette = palette
        self.plain = divider == NOT_CODED
        self.has_runs = run_divider != NO_RUNS
        self.coded = _Coded(count, palette.index_bits if self.plain else divider)
        self.runs = _Coded(count + self.has_new_palette if self.has_runs else 0, run_divider)
        self.run_symbols = CHUNK if run_divider < 3 else SHORT_CHUNK
        self.symbols = SHORT_CHUNK if self.plain and self.coded.divider > 5 else CHUNK

    def weights(self) -> Array:
        """Decode the slice. Return all of its weights as an int64 array in the order of the stream,
        including the zeros of its runs."""
        while self._read_chunks():
            pass
        quotients = np.zeros(self.coded.count, np.int64) if self.plain else self._quotients()
        weights = self.palette.signed(self.coded.values(self.bits, quotients))
        if not self.has_runs:
            return weights
        runs = self.runs.values(self.bits, self._run_quotients())
        return self._with_runs(weights, runs)

    def _read_chunks(self) -> bool:
        """Read the next chunk of weights and the next chunk of run lengths. Return False if there
        was no further chunk to read."""
        # A chunk holds the quotients of several numbers.  In the stream, the remainders of the
        # previous chunks follow; they are skipped.
        #
        # If the slice has runs, one of the two chunks may be missing: that of weights if the
        # weights read so far outnumber the run lengths by 8 (`MOST_AHEAD`) or more; that of run
        # lengths if the run lengths outnumber the weights.
        coded, runs, bits = self.coded, self.runs, self.bits
        ahead = coded.begun - runs.begun if self.has_runs else 0
        on = ahead < MOST_AHEAD and coded.begun < coded.count
        on_runs = self.has_runs and ahead >= 0 and runs.begun < runs.count
        first = bits.take(CHUNK) if on and not self.plain else 0
        run_bits = bits.take(self.run_symbols) if on_runs else 0
        second = bits.take(first.bit_count())
        coded.skip_remainders(bits, on)
        runs.skip_remainders(bits, on_runs)
        if on:
            coded.symbol_masks.append((first, second))
            coded.add_chunk(self.symbols if self.truncated else self.symbols - second.bit_count())
        if on_runs:
            runs.symbol_masks.append((run_bits, 0))
            runs.add_chunk(self.run_symbols - run_bits.bit_count())
        return on or on_runs

    def _quotients(self) -> Array:
        """The quotients of the weight indices, decoded from symbols with values 0, 1 and 2."""
        # Each quotient is the sum of consecutive symbols, the last of which is the first below 2:
        # the symbols 2, 2, 1, 0 encode the quotients 5 and 0.  If the header of the slice states
        # that quotients are truncated, each symbol is a quotient.
        first, second = np.array(self.coded.symbol_masks, np.int64).T
        ones = first[:, None] >> np.arange(CHUNK) & 1
        twos = second[:, None] >> np.maximum(ones.cumsum(axis=1) - 1, 0) & ones
        symbols = (ones + twos).ravel()
        return _sums(symbols, (symbols < 2) | self.truncated)

    def _run_quotients(self) -> Array:
        """The quotients of the lengths of zero runs: each length is its quotient, shifted
        left by `runs.divider` bits, plus a remainder of as many bits (a Golomb-Rice code). A
        quotient q is encoded in unary: q ones, followed by a zero."""
        chunks = np.array(self.runs.symbol_masks, np.int64)[:, 0]
        ones = (chunks[:, None] >> np.arange(self.run_symbols) & 1).ravel()
        return _sums(ones, ones == 0)

    def _with_runs(self, weights: Array, runs: Array) -> Array:
        """The weights with runs of zeros inserted: one run after each weight and, if the
        slice has a new palette, one before the first weight. Raises DamagedError if the result is
        too long."""
        if len(weights) + runs.sum() > MOST_WEIGHTS:
            raise DamagedError("it has more zeros than the maximum number of weights")
        before = (
            runs.cumsum()[: len(weights)]
            if self.has_new_palette
            else np.append(0, runs.cumsum())[:-1]
        )
        found = np.zeros(len(weights) + int(runs.sum()), np.int64)
        found[np.arange(len(weights)) + before] = weights
        return found


def _sums(symbols: Array, ends: Array) -> Array:
    group = np.append(0, ends.cumsum()[:-1])
    return np.bincount(group, symbols, int(ends.sum()))[: int(ends.sum())].astype(np.int64)
