"""Instruction counts of MVE kernels on a Cortex-M55, which serve as estimates of cycles.

The simulator of this core (QEMU) does not model timing.  Loops in assembly are counted exactly; the
counts of the surrounding C code are fitted to layers of real networks.

A vector has 16 bytes.  A `steps` argument is the number of vectors that hold the inputs of an
output.  `signed` arguments tell whether the requantisation form (`requantisation/form.py`) corrects
negative accumulators, by subtracting a constant from each.  This takes extra instructions for every
output ("corrections").
"""

from __future__ import annotations

# Convolution: instructions per pair of windows; per tile of two windows and four channels; per tile
# and vector of the window after the first; corrections per tile.
PAIR, TILE, TILE_STEP, TILE_CORRECTIONS = 60, 45, 15, 5
# Gathering of windows: instructions per window; per row of a window; per vector; per copy of one
# pixel of a strip.
GATHERED_WINDOW, GATHERED_ROW, GATHERED_VECTOR, STRIP = 50, 20, 3, 9
# Depthwise convolution: instructions per nine taps of sixteen channels; their corrections; per
# pixel; per computation of the tap addresses.
NINE_TAPS, NINE_CORRECTIONS, PIXEL, RUN = 119, 12, 20, 200
# Fully connected layer: instructions per eight outputs; per eight outputs and vector after the
# first; corrections per eight outputs; per batch.
EIGHT, EIGHT_STEP, EIGHT_CORRECTIONS, ROW = 45, 18, 6, 80
# Fully connected layer with a requantisation form for each output: instructions per four outputs;
# per four outputs and vector; per output.
FOUR_SUMS, FOUR_STEP, OWN_FORM = 10, 10, 34
FOUR, SUM_ROW = 8, 45  # Sum of two tensors: instructions per four elements; per row.
# Average pooling: instructions per eight outputs; per eight outputs and window row; per eight
# outputs and tap.
POOL_EIGHT, POOL_ROW, POOL_TAP = 110, 20, 4


def convolution_pair(outputs: int, steps: int, *, signed: bool) -> int:
    """A convolution for two output pixels, without the copies of windows to scratch."""
    tile = TILE + TILE_STEP * (steps - 1) + TILE_CORRECTIONS * signed
    return PAIR + -(-outputs // 4) * tile


def gathered_windows(pixels: int, rows: int, steps: int) -> int:
    """The copies of the windows of all output pixels to scratch."""
    return pixels * (GATHERED_WINDOW + GATHERED_ROW * rows + GATHERED_VECTOR * steps)


def gathered_strips(copies: int, channels: int) -> int:
    """The copies of single input pixels to strips: padded inputs of one output row, in scratch."""
    return copies * (STRIP + GATHERED_VECTOR * -(-channels // 16))


def depthwise(pixels: int, blocks: int, runs: int, *, signed: bool) -> int:
    """A depthwise convolution with 3x3 windows, for pixels or pairs of pixels."""
    # The kernel computes the addresses of the taps at the first pixel of a run of neighbouring
    # pixels, and increments them for the others.
    return pixels * (PIXEL + blocks * (NINE_TAPS + NINE_CORRECTIONS * signed)) + runs * RUN


def fully_connected(batches: int, outputs: int, steps: int, *, signed: bool) -> int:
    """A fully connected layer whose outputs share one requantisation form."""
    eight = EIGHT + EIGHT_STEP * (steps - 1) + EIGHT_CORRECTIONS * signed
    return batches * (ROW + -(-outputs // 8) * eight)


def separate_forms(batches: int, outputs: int, steps: int) -> int:
    """A fully connected layer in which each output has a requantisation form of its own."""
    four = FOUR_SUMS + FOUR_STEP * steps
    return batches * (-(-outputs // 4) * four + outputs * OWN_FORM)


def weighted_sum(elements: int, rows: int) -> int:
    """A weighted sum of two tensors."""
    return -(-elements // 4) * FOUR + rows * SUM_ROW


def average_pool(eights: int, rows: int, columns: int) -> int:
    """An average pool, by groups of eight output elements."""
    return eights * (POOL_EIGHT + rows * (POOL_ROW + POOL_TAP * columns))
