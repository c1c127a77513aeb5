"""Instruction counts of MVE kernels on a Cortex-M55.

Loops in assembly are counted; the code around them is fitted to layers of real networks.  The
counts stand for cycles, since the simulator of this core (QEMU) does not model timing.
A vector has 16 bytes; corrections belong to signed requantisation forms.
"""

from __future__ import annotations

PAIR, TILE, TILE_STEP, TILE_CORRECTIONS = 60, 45, 15, 5
"""Per pair of windows; per tile of two windows and four channels; per vector of the window beyond
the first; corrections of a tile."""
GATHERED_WINDOW, GATHERED_ROW, GATHERED_VECTOR, STRIP = 50, 20, 3, 9
"""Per gathered window; per row of it; per vector; per pixel of a strip."""
NINE_TAPS, NINE_CORRECTIONS, PIXEL, RUN = 119, 12, 20, 200
"""Per nine taps of sixteen channels; their corrections; per pixel; per computation of the tap
addresses."""
EIGHT, EIGHT_STEP, EIGHT_CORRECTIONS, ROW = 45, 18, 6, 80
"""Fully connected layer: per eight outputs; per vector beyond the first; corrections; per batch."""
FOUR, SUM_ROW = 8, 45
"""Sum of two tensors: per four elements; per row."""
POOL_EIGHT, POOL_ROW, POOL_TAP = 110, 20, 4
"""Average pooling: per eight outputs; per window row; per tap."""


def convolution(pixels: int, outputs: int, steps: int, gather: int, *, signed: bool) -> int:
    """A convolution; `gather` is the number of instructions that gather its windows."""
    tile = TILE + TILE_STEP * (steps - 1) + TILE_CORRECTIONS * signed
    return -(-pixels // 2) * (PAIR + -(-outputs // 4) * tile) + gather


def gathered_windows(pixels: int, rows: int, steps: int) -> int:
    """Gathering the windows of all pixels one by one; a window has `rows` rows, `steps` vectors."""
    return pixels * (GATHERED_WINDOW + GATHERED_ROW * rows + GATHERED_VECTOR * steps)


def gathered_strips(copies: int, channels: int) -> int:
    """Gathering the windows of whole rows by `copies` copies of `channels` bytes."""
    return copies * (STRIP + GATHERED_VECTOR * -(-channels // 16))


def depthwise(pixels: int, blocks: int, runs: int, *, signed: bool) -> int:
    """A depthwise convolution; tap addresses are computed `runs` times."""
    return pixels * (PIXEL + blocks * (NINE_TAPS + NINE_CORRECTIONS * signed)) + runs * RUN


def fully_connected(batches: int, outputs: int, steps: int, *, signed: bool) -> int:
    """A fully connected layer; `steps` vectors of inputs."""
    eight = EIGHT + EIGHT_STEP * (steps - 1) + EIGHT_CORRECTIONS * signed
    return batches * (ROW + -(-outputs // 8) * eight)


def weighted_sum(elements: int, rows: int) -> int:
    """A weighted sum of two tensors."""
    return -(-elements // 4) * FOUR + rows * SUM_ROW


def average_pool(eights: int, rows: int, columns: int) -> int:
    """Average pooling; `eights` is the number of outputs divided by eight."""
    return eights * (POOL_EIGHT + rows * (POOL_ROW + POOL_TAP * columns))
