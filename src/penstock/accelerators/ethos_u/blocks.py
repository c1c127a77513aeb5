"""blocks: in which pieces of the output the NPU computes an operation.

While one block is computed, the input of the next one is fetched: the buffer holds the inputs and
the sums of two.  A block that does not fit there cannot be chosen.

Source: Vela 5.2.0, `architecture_allocator.py` (what fits).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.accelerators.ethos_u.configurations import (
    BANK_BYTES,
    BRICK,
    LOOKUP_BANKS,
    OUTPUT_BANKS,
    Shape,
)
from penstock.accelerators.ethos_u.work import Kind, Work

Ints = NDArray[np.int64]
Blocks = NDArray[np.int64]
"""(n, 3): rows, columns and channels of each block of the output."""

LARGEST = Shape(32, 64, 128)
WINDOW_PART = 8
"""A larger window is computed in parts of so many rows and columns at most."""
GRANULE = 8
"""Channels of an input in the buffer come in so many."""


@cache
def fitting_blocks(work: Work) -> Blocks:
    """Every block in which the operation can be computed."""
    micro, out = work.chip.micro_block, work.output
    least = max(micro.height, work.upscale), max(micro.width, work.upscale)
    heights = np.arange(least[0], _up(min(LARGEST.height, out.height), least[0]) + 1, least[0])
    widths = np.arange(least[1], _up(min(LARGEST.width, out.width), least[1]) + 1, least[1])
    whole = _up(min(LARGEST.depth, out.depth), micro.depth)
    depths = sorted({*range(BRICK, min(LARGEST.depth, out.depth), BRICK), whole})
    grid = np.meshgrid(heights, widths, np.array(depths), indexing="ij")
    every = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)
    return every[fits(work, every)]


def fits(work: Work, blocks: Blocks) -> NDArray[np.bool_]:
    """Which blocks the buffer has room for."""
    chip, needed = work.chip, input_blocks(work, blocks)
    bytes = needed[:, 0] * needed[:, 1] * _up(needed[:, 2], GRANULE)
    input_banks = _up(2 * -(-bytes // BANK_BYTES), chip.input_granule)
    end_banks = max(chip.end_banks, LOOKUP_BANKS if work.lookup else 0)
    free = chip.banks - OUTPUT_BANKS - end_banks
    if work.kind is Kind.ELEMENTWISE:
        return input_banks * (1 + work.binary) <= free
    height = np.minimum(blocks[:, 0], work.output.height) if _one_row(work) else blocks[:, 0]
    sums = height * blocks[:, 1] * _up(blocks[:, 2], GRANULE) * 4
    sum_banks = _up(2 * -(-sums // BANK_BYTES), chip.sum_granule)
    return input_banks + sum_banks <= free


def input_blocks(work: Work, blocks: Blocks) -> Blocks:
    """The input that the windows of each block of the output see."""
    micro, axes = work.chip.micro_block, list[Ints]()
    for k in range(2):
        seen = (blocks[:, k] - 1) * work.stride[k] + min(work.reach[k], WINDOW_PART)
        axes.append(_up(-(-seen // work.upscale), micro[k]))
    depth = blocks[:, 2]
    if not work.equal_depth:
        most = 16 if work.part_kernel else 32
        depth = np.full_like(depth, _up(min(work.input.depth, most), GRANULE))
    return np.stack([*axes, depth], axis=1)


def _one_row(work: Work) -> bool:
    """Whether sums of one row are all that is computed, where two rows are a micro block."""
    return work.chip.micro_block.height == 2 and (work.output.height, work.window.height) == (1, 1)


def _up(x: Ints | int, step: int) -> Any:
    """The next multiple."""
    return -(-x // step) * step
