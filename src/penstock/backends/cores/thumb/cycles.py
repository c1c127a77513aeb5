"""Cycles of the Thumb kernels on a Cortex-M0+ with zero-wait memories.

Loops in assembly are counted instruction by instruction with the timing of
`simulators/cortex_m_timing.py`; cycles of the surrounding C code are a linear fit to layers of real
networks on the simulated core.

Convolution kernels compute two pixels at a time.  `signed` arguments tell whether the
requantisation form (`requantisation/clamped.py`) corrects accumulators below a threshold, by adding
a constant to each.  The code has no branches, so this takes extra cycles for every output
("corrections").
"""

from __future__ import annotations

# Cycles of the requantisation of one channel of two pixels; corrections of accumulators.
OUTPUTS, CORRECTIONS = 48, 11
# Cycles of dot products of two pixels with two channels: per word of weights (two taps); per block
# of words; per pair of channels.
WORD, BLOCK, GROUP = 19, 13, 17
# Cycles of gathering the windows of two pixels: per pair of pixels; per window row; per input.
PIXELS, WINDOW_ROW, INPUT = 251, 71, 9.44
# Cycles of gathering a window row that is not contiguous: per column; per byte.
LINE_COLUMN, LINE_BYTE = 73, 3.42
# Cycles of writing constant channels of two pixels: per pair of pixels; per byte of a pixel.
CONSTANT_PIXELS, CONSTANT_BYTE = 177, 8.58
OUTPUT_ROW = 180  # Cycles per output row of a convolution.
# Cycles of a depthwise channel of two pixels: with nine taps; with any other number of taps, a
# constant and a cost per tap.
TAPS_CHANNEL, OTHER_CHANNEL, OTHER_TAP = 123, 319, 24.4
# Cycles of a depthwise convolution: per pair of pixels; per tap address; per output row.
TAPS_PIXELS, FOUND_TAP, TAPS_ROW = 131, 65, 150
# Cycles of four outputs of a fully connected layer: per four inputs; per remaining input; constant
# part.
FOUR_INPUTS, REST_INPUT, FOUR_OUTPUTS = 77, 22, 24
# Cycles of a fully connected layer with a requantisation form for each output: per four outputs,
# besides their inputs; per output.
FOUR_SUMS, OWN_FORM = 174, 91
ELEMENT, SUM_ROW = 25.6, 60  # Cycles of the sum of two tensors: per element; per row.
# Cycles of an output of portable average pooling: per window row; per tap.
POOL_ROW, POOL_TAP = 16, 4


def dot_products(words: int, blocks: int, groups: int, *, signed: bool) -> int:
    """Two output pixels of a convolution: dot products and requantisation."""
    outputs = GROUP + 2 * (OUTPUTS + CORRECTIONS * signed)
    return words * WORD + blocks * BLOCK + groups * outputs


def gathered_windows(rows: int, row_bytes: int, copied_bytes: int) -> float:
    """The copies of the windows of two output pixels to scratch, and of a precomputed pixel with
    the values of constant channels."""
    pair = PIXELS + rows * (WINDOW_ROW + INPUT * row_bytes)
    return pair + (CONSTANT_PIXELS + CONSTANT_BYTE * copied_bytes) * bool(copied_bytes)


def gathered_lines(lines: int, columns: int, row_bytes: int) -> float:
    """The copies of window rows that are not contiguous in memory, column by column."""
    return lines * (columns * LINE_COLUMN + row_bytes * LINE_BYTE)


def depthwise(channels: int, taps: int, *, signed: bool) -> float:
    """Return the cycles of two output pixels of a depthwise convolution.

    signed: whether the requantisation form corrects accumulators below a threshold, by adding a
        constant to each; this takes extra cycles for every output."""
    channel = TAPS_CHANNEL if taps == 9 else OTHER_CHANNEL + OTHER_TAP * taps
    return TAPS_PIXELS + channels * (channel + OUTPUTS + CORRECTIONS * signed)


def fully_connected(batches: int, outputs: int, depth: int, *, signed: bool) -> int:
    """Return the cycles of a fully connected layer.

    outputs: number of outputs per input vector.
    signed: whether the requantisation form corrects accumulators below a threshold, by adding a
        constant to each; this takes extra cycles for every output."""
    fours, rest = divmod(depth, 4)
    group = FOUR_INPUTS * fours + REST_INPUT * rest + FOUR_OUTPUTS
    group += 4 * (OUTPUTS + CORRECTIONS * signed)
    return batches * (-(-outputs // 4) * group + 90)


def separate_forms(batches: int, outputs: int, depth: int) -> int:
    """Return the cycles of a fully connected layer in which each output has a requantisation form
    (arithmetic from accumulator to output) of its own.

    outputs: number of outputs per input vector."""
    fours, rest = divmod(depth, 4)
    group = FOUR_INPUTS * fours + REST_INPUT * rest + FOUR_SUMS
    return batches * (-(-outputs // 4) * group + outputs * OWN_FORM + 32)


def weighted_sum(elements: int, rows: int) -> int:
    """Return the cycles of a weighted sum of two tensors.

    rows: number of rows of each tensor."""
    return round(elements * ELEMENT + rows * SUM_ROW)


def average_pool(outputs: int, rows: int, columns: int) -> int:
    """Return the cycles of portable average pooling of `outputs` output elements."""
    # A window has `rows` by `columns` taps.
    return outputs * rows * (POOL_ROW + POOL_TAP * columns)
