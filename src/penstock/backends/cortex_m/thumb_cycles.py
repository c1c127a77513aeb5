"""Cycles: what the kernels for Armv6-M take on a Cortex-M0+ whose memories never make it wait.

Loops in assembly are counted instruction by instruction, by the timing of `simulators/`; what
surrounds them is a linear fit to layers of real networks on the simulated core.
"""

from __future__ import annotations

OUTPUTS, CORRECTIONS = 48, 11
"""Of two pixels' outputs of a channel: requantisation; its corrections."""
WORD, BLOCK, GROUP = 19, 13, 17
"""Of two channels: two taps, what surrounds a block of them, what surrounds all of them."""
PIXELS, WINDOW_ROW, INPUT = 251, 71, 9.44
"""Of two pixels: all of it; each row of their windows, and each input in it."""
LINE_COLUMN, LINE_BYTE = 73, 3.42
"""Of a row of a window that is put together: each column, each byte."""
IDLE_PIXELS, IDLE_BYTE = 177, 8.58
"""Of two pixels some of whose channels are idle: both, and each channel."""
OUTPUT_ROW = 180
TAPS_CHANNEL, OTHER_CHANNEL, OTHER_TAP = 123, 319, 24.4
"""Of two pixels: nine taps of a channel; any other number of them, and each."""
TAPS_PIXELS, FOUND_TAP, TAPS_ROW = 131, 65, 150
"""Of two pixels, what surrounds their channels; each tap of a pixel whose taps are found; a row."""
FOUR_INPUTS, REST_INPUT, FOUR_OUTPUTS = 77, 22, 24
"""Of four outputs: inputs in fours and beyond; what surrounds them."""
ELEMENT, SUM_ROW = 25.6, 60
"""Of a sum of two tensors."""
POOL_ROW, POOL_TAP = 16, 4
"""Of an output of the portable average pooling: each row of its window, each tap."""


def of_sums(words: int, blocks: int, groups: int, *, signed: bool) -> int:
    """Cycles of the sums of two pixels; `words`, `blocks` and `groups` of weights."""
    outputs = GROUP + 2 * (OUTPUTS + CORRECTIONS * signed)
    return words * WORD + blocks * BLOCK + groups * outputs


def of_windows(window: tuple[int, int], idle: int) -> float:
    """Cycles of gathering the windows of two pixels: rows and bytes of each; `idle`: channels of
    the output where some are idle, or 0."""
    window_rows, row_bytes = window
    pair = PIXELS + window_rows * (WINDOW_ROW + INPUT * row_bytes)
    return pair + (IDLE_PIXELS + IDLE_BYTE * idle) * bool(idle)


def of_lines(lines: int, columns: int, row_bytes: int) -> float:
    """Cycles of rows of windows that are put together out of so many columns."""
    return lines * (columns * LINE_COLUMN + row_bytes * LINE_BYTE)


def of_depthwise(channels: int, taps: int, *, signed: bool) -> float:
    """Cycles of two pixels of a depthwise convolution."""
    channel = TAPS_CHANNEL if taps == 9 else OTHER_CHANNEL + OTHER_TAP * taps
    return TAPS_PIXELS + channels * (channel + OUTPUTS + CORRECTIONS * signed)


def of_fully_connected(batches: int, outputs: int, depth: int, *, signed: bool) -> int:
    """Cycles of a fully connected layer."""
    fours, rest = divmod(depth, 4)
    group = FOUR_INPUTS * fours + REST_INPUT * rest + FOUR_OUTPUTS
    group += 4 * (OUTPUTS + CORRECTIONS * signed)
    return batches * (-(-outputs // 4) * group + 90)


def of_sum(elements: int, rows: int) -> int:
    """Cycles of a sum of two tensors."""
    return round(elements * ELEMENT + rows * SUM_ROW)


def of_average_pool(outputs: int, window: tuple[int, int]) -> int:
    """Cycles of average pooling, by the portable kernel."""
    rows, columns = window
    return outputs * rows * (POOL_ROW + POOL_TAP * columns)
