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
    """Return the number of instructions of a convolution for two output pixels.

    They do not include those that copy windows to scratch.

    steps: number of vectors of 16 bytes that hold a window.
    signed: whether the requantisation form corrects negative accumulators, by subtracting a
        constant from each; this takes extra instructions for every output."""
    tile = TILE + TILE_STEP * (steps - 1) + TILE_CORRECTIONS * signed
    return PAIR + -(-outputs // 4) * tile


def gathered_windows(pixels: int, rows: int, steps: int) -> int:
    """Return the number of instructions that copy the windows of all output pixels to scratch.

    steps: number of vectors of 16 bytes that hold a window."""
    return pixels * (GATHERED_WINDOW + GATHERED_ROW * rows + GATHERED_VECTOR * steps)


def gathered_strips(copies: int, channels: int) -> int:
    """Return the number of instructions that copy input pixels to strips in scratch, one by one.

    A strip is a copy, with padding, of the input that the windows of one output row read.

    channels: number of bytes of a pixel."""
    return copies * (STRIP + GATHERED_VECTOR * -(-channels // 16))


def depthwise(pixels: int, blocks: int, runs: int, *, signed: bool) -> int:
    """Return the number of instructions of a depthwise convolution with 3x3 windows.

    pixels: number of output pixels or, if the kernel computes two at a time, of pairs of pixels.
    runs: number of runs of neighbouring output pixels.  The kernel computes the addresses of the
        taps at the first pixel of a run, and increments them for the others.
    signed: whether the requantisation form corrects negative accumulators, by subtracting a
        constant from each; this takes extra instructions for every output."""
    return pixels * (PIXEL + blocks * (NINE_TAPS + NINE_CORRECTIONS * signed)) + runs * RUN


def fully_connected(batches: int, outputs: int, steps: int, *, signed: bool) -> int:
    """Return the number of instructions of a fully connected layer.

    outputs: number of outputs per input vector.
    steps: number of vectors of 16 bytes that hold an input vector.
    signed: whether the requantisation form corrects negative accumulators, by subtracting a
        constant from each; this takes extra instructions for every output."""
    eight = EIGHT + EIGHT_STEP * (steps - 1) + EIGHT_CORRECTIONS * signed
    return batches * (ROW + -(-outputs // 8) * eight)


def separate_forms(batches: int, outputs: int, steps: int) -> int:
    """Return the number of instructions of a fully connected layer with separate forms.

    In such a layer, each output has a requantisation form of its own.

    outputs: number of outputs per input vector.
    steps: number of vectors of 16 bytes that hold an input vector."""
    four = FOUR_SUMS + FOUR_STEP * steps
    return batches * (-(-outputs // 4) * four + outputs * OWN_FORM)


def weighted_sum(elements: int, rows: int) -> int:
    """Return the number of instructions of a weighted sum of two tensors.

    rows: number of rows of each tensor."""
    return -(-elements // 4) * FOUR + rows * SUM_ROW


def average_pool(eights: int, rows: int, columns: int) -> int:
    """Return the number of instructions of average pooling.

    rows, columns: numbers of rows and columns of a window."""
    return eights * (POOL_EIGHT + rows * (POOL_ROW + POOL_TAP * columns))
