"""Cycles: what special kernels take on a Cortex-M4 whose memories never make it wait.

Loops in assembly are counted instruction by instruction, by the timing of `simulators/`; what
surrounds them is a linear fit to layers of real networks on the simulated core.
"""

from __future__ import annotations

import math

BLOCK_PAIRS = 4
BLOCK, PAIR, QUAD, CORRECTIONS = 68, 23, 86, 22
"""Of a tile: four pairs of inputs, a pair beyond them, what surrounds them, corrections."""
PIXEL, ROW, FOUR, SINGLE = 148.0, 36.0, 7.9, 18.5
"""Of a window: all of it, each row, each four bytes of a row, each byte that fills no four."""
NINE_TAPS, OTHER_TAP, TAPS_PIXEL, BORDER = 153, 24, 37.0, 600.0
"""Of four channels: nine taps, or each of any other number; of a pixel; where taps are found."""
ROW_BLOCK, ROW_FOUR, ROW_QUAD = 88, 25, 62
"""Of four outputs: sixteen inputs, four inputs beyond them, what surrounds them."""
ELEMENT, SUM_ROW = 14.7, 83.0
"""Of a sum of two tensors."""
POOL_TAP, POOL_OUTPUT = 4, 40
"""Of a pool: each element under a window, each output."""


def of_convolution(
    pixels: int, outputs: int, pairs: int, window: tuple[int, int], *, signed: bool
) -> int:
    """Cycles of a convolution; `window`: its rows and the bytes of each."""
    blocks, rest = divmod(pairs, BLOCK_PAIRS)
    tile = QUAD + BLOCK * blocks + PAIR * rest + CORRECTIONS * signed
    rows, row_bytes = window
    gather = PIXEL + rows * (ROW + FOUR * (row_bytes // 4) + SINGLE * (row_bytes % 4))
    return round(-(-pixels // 2) * -(-outputs // 4) * tile + pixels * gather)


def of_depthwise(pixels: int, border_runs: int, channels: int, taps: int) -> int:
    """Cycles of a depthwise convolution; `border_runs`: how often its taps are found anew."""
    four = NINE_TAPS if taps == 9 else OTHER_TAP * taps + 60
    return round(pixels * (TAPS_PIXEL + -(-channels // 4) * four) + border_runs * BORDER)


def of_fully_connected(batches: int, outputs: int, depth: int, *, signed: bool) -> int:
    """Cycles of a fully connected layer."""
    blocks, rest = divmod(depth // 4, BLOCK_PAIRS)
    quad = ROW_QUAD + ROW_BLOCK * blocks + ROW_FOUR * rest + CORRECTIONS * signed // 2
    return batches * (-(-outputs // 4) * quad + 120)


def of_sum(shape: tuple[int, ...], rows: int) -> int:
    """Cycles of a sum of two tensors."""
    return round(math.prod(shape) * ELEMENT + rows * SUM_ROW)


def of_pool(outputs: int, taps: int) -> int:
    """Cycles of average and max pooling, by the portable kernel."""
    return outputs * (POOL_OUTPUT + POOL_TAP * taps)
