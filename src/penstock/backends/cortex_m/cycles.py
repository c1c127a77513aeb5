"""Cycles: what special kernels take on a Cortex-M4 whose memories never make it wait.

Loops in assembly are counted instruction by instruction, by the timing of `simulators/`; what
surrounds them is a linear fit to layers of real networks on the simulated core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BLOCK_PAIRS = 4
TILE, BLOCK, HALF_BLOCK, CORRECTIONS = 107, 68, 36, 22
"""Of a tile: its first two pairs of inputs and what surrounds them, four pairs beyond them, the two
of a block that begins in its middle, corrections."""
TWO, TWO_ROW, TWO_FOUR, TWO_SINGLE = 165, 28, 13, 25
"""Of two neighbouring windows: all of them, each row, each four bytes of it, each byte that fills
no four."""
PIXEL, ROW, FOUR, SINGLE = 148, 36, 9, 18
"""Of a window that is put together alone, likewise."""
COPIED_RUN = 65
"""Of a run of taps of a window that leaves the tensor."""
SPREAD, CONSTANT = 14.0, 1.75
"""Of a pixel of which some channels are constant: each that is not, each of all."""
OUTSIDER, OUTSIDER_PAIR = 75.0, 10.0
"""Of a window: each channel outside the form of the others, each pair of inputs of it."""
REST_OF_CHANNELS = 110
"""Of two windows where output channels fill no fours."""
RUNS_QUAD, RUN, RUNS_BLOCK, RUNS_FOUR = 76, 20, 155, 46
"""Of two pixels read where they lie and four outputs: what surrounds runs, a run, sixteen inputs of
it, four inputs beyond them."""
LONE_QUAD, LONE_BLOCK, LONE_FOUR = 64, 87, 25
"""The same of one pixel; a run takes as long."""
PIXELS_FOUND, RUN_FOUND = 270.0, 27.0
"""Of one pixel or two: what surrounds their outputs, and each run that is looked up."""
FOUR_LEFT = 140
"""Of one pixel or two: outputs that fill no four."""
PAIR_FOUND, PAIR_RUN_FOUND, GROUP, GROUP_RUN, GROUP_REST = 100.0, 26.0, 80, 10, 80
"""Of two pixels of a convolution in groups: what surrounds groups, likewise; what surrounds outputs
of a group, each of its runs, outputs that fill no four."""
PORTABLE_MAC, PORTABLE_ELEMENT = 7.0, 20.0
"""Of a convolution in portable C: each product, each element of the output."""
LEAST_MAC, LEAST_TAP, LEAST_ELEMENT = 6, 5, 25
"""Of a convolution in groups in portable C, at least: each product, each tap that may be outside,
and each element."""
PLACED = 4
"""Of an output that is put to its place."""
NINE_TAPS, OTHER_TAP, TAPS_PIXEL = 153, 24, 23.0
"""Of four channels: nine taps, or each of any other number; of a pixel."""
TAPS_FOUND, TAPS_ROW, TAPS_CALL = 530.0, 120.0, 150
"""Where taps are found; of each row; of each call."""
CALL = 90
"""Of a call of any other kernel."""
ROW_BLOCK, ROW_FOUR, ROW_QUAD = 87, 25, 62
"""Of four outputs: sixteen inputs, four inputs beyond them, what surrounds them."""
SUM_FOUR, PRODUCT_FOUR, CORRECTED_FOUR = 39, 42, 8
"""Of four elements of two tensors: a sum, a product, its corrections."""
PAIRS_RUN, PAIRS_CALL, PAIRS_ROW, CLAMPED, PORTABLE_PAIR = 11, 105, 15, 3, 19
"""Of a run, a call for runs, a row; of an element that is clamped afterwards; of an element in
portable C."""
LOOKED_UP, LOOKED_UP_ROW = 6.3, 20.0
"""Of a table of outputs: an element, a row."""
POOL_EIGHT, POOL_MEANS, POOL_ROW, POOL_TAPS, POOL_PIXEL = 29, 52, 8, 12, 35
"""Of eight outputs of a pool, where they are means, of each row of their windows, each tap; of a
pixel of the output."""
UNROLLED_TAP, UNROLLED_MEAN = 4.2, 4
"""Of a portable pool in which a compiler spells its small windows out, likewise: an element under a
window, a mean."""
POOL_OUTPUT, POOL_TAP, MAX_POOL_ROW, MAX_POOL_TAP = 40, 4, 100, 5
"""Of the portable pools: each output, each element under its window; of max pooling each row."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a convolution: how many, of which so many neighbours by twos; rows of each and the
    bytes of a row; runs of taps that are put together where windows leave the tensor."""

    pixels: int
    twos: int
    rows: int
    row_bytes: int
    copied: int

    @property
    def cycles(self) -> int:
        """What it takes to lay them out."""
        fours, singles = divmod(self.row_bytes, 4)
        two = TWO + self.rows * (TWO_ROW + TWO_FOUR * fours + TWO_SINGLE * singles)
        lone = PIXEL + self.rows * (ROW + FOUR * fours + SINGLE * singles)
        return self.twos * two + (self.pixels - 2 * self.twos) * lone + self.copied * COPIED_RUN


def of_convolution(windows: Windows, outputs: int, pairs: int, *, signed: bool) -> int:
    """Cycles of a convolution; `pairs` of inputs of a window, even."""
    both = -(-outputs // 4) * _tile(pairs, signed) + REST_OF_CHANNELS * (outputs % 4 > 0)
    return -(-windows.pixels // 2) * both + windows.cycles


def of_spreading(shape: tuple[int, ...], living: int) -> int:
    """Cycles of putting so many channels between constant ones, in every pixel."""
    channels = shape[-1]
    return math.prod(shape[:-1]) * round(SPREAD * living + CONSTANT * channels)


def of_outsider(shape: tuple[int, ...], pairs: int) -> int:
    """Cycles of a channel outside the form of the others, in every pixel."""
    return math.prod(shape[:-1]) * round(OUTSIDER + OUTSIDER_PAIR * pairs)


def of_lone_window(outputs: int, pairs: int, *, in_fours: bool, signed: bool) -> int:
    """Cycles of a last pixel beyond half those of two; `in_fours`: it is read where it lies."""
    tile = _tile(pairs, signed)
    blocks, rest = divmod(pairs // 2, BLOCK_PAIRS)
    row = ROW_QUAD + ROW_BLOCK * blocks + ROW_FOUR * rest + CORRECTIONS * signed // 2
    return -(-outputs // 4) * ((row if in_fours else tile) - tile // 2)


def _tile(pairs: int, signed: bool) -> int:
    """Cycles of two windows and four outputs."""
    blocks, rest = divmod(pairs - 2, BLOCK_PAIRS)
    return TILE + BLOCK * blocks + HALF_BLOCK * (rest > 0) + CORRECTIONS * signed


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pairs of pixels, and pixels without another, whose windows are as many runs of fours."""

    pairs: int
    lone: int
    runs: int
    fours: int


def of_direct_convolution(pixels: Sequence[Pixels], outputs: int, *, signed: bool) -> int:
    """Cycles of a convolution that reads inputs where they lie."""
    quads = -(-outputs // 4)
    found = 0.0
    for some in pixels:
        blocks, rest = divmod(some.fours, 4)
        two = RUNS_QUAD + some.runs * (RUN + RUNS_BLOCK * blocks + RUNS_FOUR * rest)
        one = LONE_QUAD + some.runs * (RUN + LONE_BLOCK * blocks + LONE_FOUR * rest)
        around = PIXELS_FOUND + FOUR_LEFT * (outputs % 4 > 0)
        found += some.pairs * (quads * (two + CORRECTIONS * signed) + around)
        found += some.lone * (quads * (one + CORRECTIONS * signed // 2) + around)
        found += (2 * some.pairs + some.lone) * some.runs * RUN_FOUND
    return round(found)


def of_groups(pairs: int, groups: int, outputs: int, window: Pixels, *, signed: bool) -> int:
    """Cycles of a convolution of so many pairs of pixels, in groups of `outputs` each."""
    blocks, rest = divmod(window.fours, 4)
    quad = RUNS_QUAD + window.runs * (RUN + RUNS_BLOCK * blocks + RUNS_FOUR * rest)
    group = -(-outputs // 4) * (quad + CORRECTIONS * signed) + GROUP + GROUP_RUN * window.runs
    found = PAIR_FOUND + PAIR_RUN_FOUND * window.runs
    return round(pairs * (found + groups * (group + GROUP_REST * (outputs % 4 > 0))))


def of_portable_groups(macs: int, elements: int, outside: int) -> int:
    """The least cycles of a convolution in groups in portable C; `outside`: taps that may be."""
    return LEAST_MAC * macs + (LEAST_ELEMENT + LEAST_TAP * outside) * elements


def of_portable_convolution(macs: int, elements: int) -> int:
    """Cycles of a convolution that is the only one in portable C: the compiler specialises it."""
    return round(PORTABLE_MAC * macs + PORTABLE_ELEMENT * elements)


def of_depthwise(rows: int, pixels: int, runs: int, channels: int, taps: int) -> int:
    """Cycles of a depthwise convolution; `runs`: how often its taps are found anew."""
    four = NINE_TAPS if taps == 9 else OTHER_TAP * taps + 60
    each = TAPS_PIXEL + -(-channels // 4) * four
    return round(pixels * each + runs * TAPS_FOUND + rows * TAPS_ROW)


def of_placing(elements: int) -> int:
    """Cycles of putting elements of rows to their places, one by one."""
    return PLACED * elements


def of_fully_connected(batches: int, outputs: int, depth: int, *, signed: bool) -> int:
    """Cycles of a fully connected layer."""
    blocks, rest = divmod(depth // 4, BLOCK_PAIRS)
    quad = ROW_QUAD + ROW_BLOCK * blocks + ROW_FOUR * rest + CORRECTIONS * signed // 2
    return batches * (-(-outputs // 4) * quad + 120)


def of_pool(shape: tuple[int, ...], rows: int, columns: int, *, averages: bool) -> int:
    """Cycles of pooling; `rows`, `columns`: taps inside, summed over the rows or columns of y."""
    images, height, width, channels = shape
    eights = -(-channels // 8)
    taps = rows * (POOL_ROW * width + POOL_TAPS * columns)
    pixel = POOL_PIXEL + eights * (POOL_EIGHT + POOL_MEANS * averages)
    return images * (height * width * pixel + eights * taps)


def of_unrolled_pool(outputs: int, taps: int, *, averages: bool) -> int:
    """The least cycles of pooling by the portable kernel."""
    return round(outputs * (UNROLLED_TAP * taps + UNROLLED_MEAN * averages))


def of_portable_average(outputs: int, window: tuple[int, int]) -> int:
    """Cycles of average pooling, by the portable kernel."""
    return outputs * (POOL_OUTPUT + POOL_TAP * math.prod(window))


def of_portable_max(outputs: int, window: tuple[int, int]) -> int:
    """Cycles of max pooling, by the portable kernel."""
    return outputs * (MAX_POOL_ROW * window[0] + MAX_POOL_TAP * math.prod(window))


def of_pairs(row: Mapping[str, int], rows: int, four: int) -> int:
    """Cycles of an element-wise kernel of two inputs that takes so many of four elements; `row`:
    parameters of the kernel."""
    calls, runs, length = (row[name] for name in ("calls", "runs", "length"))
    call = runs * (PAIRS_RUN + length // 4 * four) + (PAIRS_CALL // 2 + four) * (length % 4 > 0)
    clamped = CLAMPED * runs * length * (row["least"] > -128 or row["most"] < 127)
    return rows * (PAIRS_ROW + calls * (PAIRS_CALL + call + clamped))


def of_portable_pairs(elements: int) -> int:
    """The least cycles of a portable element-wise kernel of two inputs."""
    return PORTABLE_PAIR * elements


def of_lookup(elements: int, rows: int) -> int:
    """Cycles of looking every element up in a table."""
    return round(elements * LOOKED_UP + rows * LOOKED_UP_ROW)
