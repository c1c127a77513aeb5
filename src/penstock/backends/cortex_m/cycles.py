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
RUNS_QUAD, RUN, RUNS_FOUR = 90, 22, 40
"""Of two pixels read where they lie, and four outputs: what surrounds runs, a run, four inputs."""
LONE_QUAD, LONE_FOUR = 62, 25
"""The same of one pixel."""
TWO_PIXELS, ONE_PIXEL, RUN_FOUND = 150.0, 100.0, 15.0
"""Of pixels: what surrounds their outputs, and each run that is looked up."""
COPIED_RUN = 75
"""Of a run of taps of a window that leaves the tensor."""
NINE_TAPS, OTHER_TAP, TAPS_PIXEL, BORDER = 153, 24, 37.0, 600.0
"""Of four channels: nine taps, or each of any other number; of a pixel; where taps are found."""
ROW_BLOCK, ROW_FOUR, ROW_QUAD = 87, 25, 62
"""Of four outputs: sixteen inputs, four inputs beyond them, what surrounds them."""
ELEMENT, SUM_ROW = 14.7, 83.0
"""Of a sum of two tensors."""
POOL_OUTPUT, POOL_TAP, MAX_POOL_ROW, MAX_POOL_TAP = 40, 4, 100, 5
"""Of the portable pools: each output, each element under its window; of max pooling each row."""


def of_convolution(
    pixels: int, outputs: int, pairs: int, window: tuple[int, int], copied: int, *, signed: bool
) -> int:
    """Cycles of a convolution; `window`: its rows and the bytes of each; `copied`: runs of
    taps that are put together where windows leave the tensor."""
    blocks, rest = divmod(pairs, BLOCK_PAIRS)
    tile = QUAD + BLOCK * blocks + PAIR * rest + CORRECTIONS * signed
    rows, row_bytes = window
    gather = PIXEL + rows * (ROW + FOUR * (row_bytes // 4) + SINGLE * (row_bytes % 4))
    sums = -(-pixels // 2) * -(-outputs // 4) * tile
    return round(sums + pixels * gather + copied * COPIED_RUN)


def of_direct_convolution(output: tuple[int, ...], fours: int, taps: int, *, signed: bool) -> int:
    """Cycles of a convolution that reads inputs where they lie; `fours`: of input channels."""
    images, height, width, outputs = output
    quad = RUNS_QUAD + taps * (RUN + RUNS_FOUR * fours) + CORRECTIONS * signed
    lone = LONE_QUAD + taps * (RUN + LONE_FOUR * fours) + CORRECTIONS * signed // 2
    two, one = divmod(width, 2)
    pixels = two * (TWO_PIXELS + RUN_FOUND * 2 * taps) + one * (ONE_PIXEL + RUN_FOUND * taps)
    quads = -(-outputs // 4) * (two * quad + one * lone)
    return round(images * height * (pixels + quads))


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


def of_average_pool(outputs: int, window: tuple[int, int]) -> int:
    """Cycles of average pooling, by the portable kernel."""
    return outputs * (POOL_OUTPUT + POOL_TAP * math.prod(window))


def of_max_pool(outputs: int, window: tuple[int, int]) -> int:
    """Cycles of max pooling, by the portable kernel."""
    return outputs * (MAX_POOL_ROW * window[0] + MAX_POOL_TAP * math.prod(window))
