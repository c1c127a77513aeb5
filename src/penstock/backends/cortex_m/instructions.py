"""Instructions: what kernels with vectors execute on a Cortex-M55.

Loops in assembly are counted; what surrounds them is a fit to layers of real networks. These are
not cycles: the simulator of this core knows no timing.
"""

from __future__ import annotations

PAIR, TILE, TILE_STEP, TILE_CORRECTIONS = 60, 45, 15, 5
"""Of a pair of windows, of a tile of them with four channels, of each vector beyond the first."""
GATHERED_WINDOW, GATHERED_ROW, GATHERED_VECTOR, STRIP = 50, 20, 3, 9
"""Of a window that is put together, each row of it, each vector; of a pixel of a strip."""
NINE_TAPS, NINE_CORRECTIONS, PIXEL, RUN = 119, 12, 20, 200
"""Of nine taps of sixteen channels; of a pixel; of finding taps."""
EIGHT, EIGHT_STEP, EIGHT_CORRECTIONS, ROW = 45, 18, 6, 80
"""Of eight outputs of a fully connected layer, of each vector beyond the first; of all of them."""
FOUR, SUM_ROW = 8, 45
"""Of four elements of a sum of two tensors; of a row."""

POOL_EIGHT, POOL_ROW, POOL_TAP = 110, 20, 4
"""Of eight outputs of a pool, each row of their windows, each tap."""


def of_convolution(pixels: int, outputs: int, steps: int, gather: int, *, signed: bool) -> int:
    """Instructions of a convolution; `gather`: those that put windows together."""
    tile = TILE + TILE_STEP * (steps - 1) + TILE_CORRECTIONS * signed
    return -(-pixels // 2) * (PAIR + -(-outputs // 4) * tile) + gather


def of_windows(pixels: int, rows: int, steps: int) -> int:
    """Instructions that put windows of so many rows and vectors together, one by one."""
    return pixels * (GATHERED_WINDOW + GATHERED_ROW * rows + GATHERED_VECTOR * steps)


def of_strips(copies: int, channels: int) -> int:
    """Instructions that put the windows of rows together, by copies of so many channels."""
    return copies * (STRIP + GATHERED_VECTOR * -(-channels // 16))


def of_depthwise(pixels: int, blocks: int, runs: int, *, signed: bool) -> int:
    """Instructions of a depthwise convolution; `runs`: how often its taps are found anew."""
    return pixels * (PIXEL + blocks * (NINE_TAPS + NINE_CORRECTIONS * signed)) + runs * RUN


def of_fully_connected(batches: int, outputs: int, steps: int, *, signed: bool) -> int:
    """Instructions of a fully connected layer."""
    eight = EIGHT + EIGHT_STEP * (steps - 1) + EIGHT_CORRECTIONS * signed
    return batches * (ROW + -(-outputs // 8) * eight)


def of_sum(elements: int, rows: int) -> int:
    """Instructions of a sum of two tensors."""
    return -(-elements // 4) * FOUR + rows * SUM_ROW


def of_average_pool(eights: int, rows: int, columns: int) -> int:
    """Instructions of average pooling of so many times eight outputs."""
    return eights * (POOL_EIGHT + rows * (POOL_ROW + POOL_TAP * columns))
