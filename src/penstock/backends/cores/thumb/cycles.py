"""Cycles of the Thumb kernels on a Cortex-M0+ with zero-wait memories.

Loops in assembly are counted instruction by instruction with the timing of
`simulators/cortex_m_timing.py`; the code around them is a linear fit to layers of real networks on
the simulated core.  Convolution kernels compute two pixels at a time.
"""

from __future__ import annotations

OUTPUTS, CORRECTIONS = 48, 11
"""Requantisation of one channel of two pixels; corrections of signed forms."""
WORD, BLOCK, GROUP = 19, 13, 17
"""Dot products of two channels: per word of weights (two taps); per block of words; per pair of
channels."""
PIXELS, WINDOW_ROW, INPUT = 251, 71, 9.44
"""Gathering the windows of two pixels: per pair; per window row; per input."""
LINE_COLUMN, LINE_BYTE = 73, 3.42
"""Gathering a window row from several runs: per column; per byte."""
IDLE_PIXELS, IDLE_BYTE = 177, 8.58
"""Writing constant channels of two pixels: per pair; per byte."""
OUTPUT_ROW = 180
"""Per output row of a convolution."""
TAPS_CHANNEL, OTHER_CHANNEL, OTHER_TAP = 123, 319, 24.4
"""Depthwise channel of two pixels: with nine taps; with another number of taps; per such tap."""
TAPS_PIXELS, FOUND_TAP, TAPS_ROW = 131, 65, 150
"""Depthwise convolution: per pair of pixels; per tap address; per row."""
FOUR_INPUTS, REST_INPUT, FOUR_OUTPUTS = 77, 22, 24
"""Four outputs of a fully connected layer: per four inputs; per remaining input; constant part."""
ELEMENT, SUM_ROW = 25.6, 60
"""Sum of two tensors: per element; per row."""
POOL_ROW, POOL_TAP = 16, 4
"""Output of the portable average pooling: per window row; per tap."""


def dot_products(words: int, blocks: int, groups: int, *, signed: bool) -> int:
    """Dot products of two pixels, for the given words, blocks and pairs (`groups`) of weights."""
    outputs = GROUP + 2 * (OUTPUTS + CORRECTIONS * signed)
    return words * WORD + blocks * BLOCK + groups * outputs


def gathered_windows(rows: int, row_bytes: int, idle: int) -> float:
    """Gathering the windows of two pixels; `idle` is the number of output channels if some of them
    are constant, otherwise 0."""
    pair = PIXELS + rows * (WINDOW_ROW + INPUT * row_bytes)
    return pair + (IDLE_PIXELS + IDLE_BYTE * idle) * bool(idle)


def gathered_lines(lines: int, columns: int, row_bytes: int) -> float:
    """Gathering `lines` window rows column by column."""
    return lines * (columns * LINE_COLUMN + row_bytes * LINE_BYTE)


def depthwise(channels: int, taps: int, *, signed: bool) -> float:
    """Two pixels of a depthwise convolution."""
    channel = TAPS_CHANNEL if taps == 9 else OTHER_CHANNEL + OTHER_TAP * taps
    return TAPS_PIXELS + channels * (channel + OUTPUTS + CORRECTIONS * signed)


def fully_connected(batches: int, outputs: int, depth: int, *, signed: bool) -> int:
    """A fully connected layer."""
    fours, rest = divmod(depth, 4)
    group = FOUR_INPUTS * fours + REST_INPUT * rest + FOUR_OUTPUTS
    group += 4 * (OUTPUTS + CORRECTIONS * signed)
    return batches * (-(-outputs // 4) * group + 90)


def weighted_sum(elements: int, rows: int) -> int:
    """A weighted sum of two tensors."""
    return round(elements * ELEMENT + rows * SUM_ROW)


def average_pool(outputs: int, rows: int, columns: int) -> int:
    """Average pooling by the portable kernel; `rows` and `columns` of a window."""
    return outputs * rows * (POOL_ROW + POOL_TAP * columns)
