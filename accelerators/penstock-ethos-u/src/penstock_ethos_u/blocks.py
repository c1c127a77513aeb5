"""blocks: the candidate block sizes of an operation. A block is the part of the output that the NPU
computes at a time.

While the NPU computes one block, it loads the input of the next one, so its internal memory holds
the inputs and the accumulators of two blocks. Block sizes for which these do not fit are not
candidates.

Source: `architecture_allocator.py` of Arm's compiler Vela 5.2.0, which determines the block sizes
that fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock_ethos_u.configurations import (
    BANK_BYTES,
    BLOCK_CHANNELS,
    LOOKUP_BANKS,
    OUTPUT_BANKS,
    EthosUConfiguration,
    MapShape,
)

# The properties of an operation that the performance model uses to estimate its cycles.


class ComputeKind(IntEnum):
    """The kinds of operations that the performance model distinguishes. Look-ups and copies count
    as pooling. Element-wise operations do not use the multipliers."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    POOLING = 2
    ELEMENTWISE = 3


class Extent(NamedTuple):
    """Rows and columns of a window, of its strides or of its dilations."""

    height: int
    width: int


ONE = Extent(1, 1)


@dataclass(frozen=True, slots=True)
class NpuWork:
    """An operation on int8 elements, or a stripe of it (an interval of output rows), as the input
    of the performance model.

    chip: hardware configuration.
    kind: kind of the computation, such as convolution or pooling.
    input, output: rows, columns and channels of the input and of the output.
    rate: cycles per output element in the output unit, which scales and writes results.
    window, stride, dilation: rows and columns.
    upscale: `upscale - 1` rows and columns of zeros are inserted after each input row and column; 1
        for none.
    binary: whether there is a second input that is a tensor, not a scalar.
    second_elements: number of elements of the second input that are read, if it is broadcast. 0 if
        it is a constant tensor, whose bytes count as `constant_bytes`. None if it has the shape of
        the output, is a scalar, or does not exist.
    lookup: whether a look-up table is applied to the output.
    part_kernel: True if weights are ordered part kernel first (several taps of few channels at a
        time), False if depth first (one tap of many channels at a time).
    packed_input, packed_output: whether the layout is NHCWB16 instead of NHWC.
    constant_bytes: size of encoded weights and biases, or of a constant second input.
    biases_in_tensor_memory: whether biases are read from the memory that holds tensors.
    element_bytes: bytes of an element of the inputs."""

    chip: EthosUConfiguration
    kind: ComputeKind
    input: MapShape
    output: MapShape
    rate: float
    window: Extent = ONE
    stride: Extent = ONE
    dilation: Extent = ONE
    upscale: int = 1
    binary: bool = False
    second_elements: int | None = None
    lookup: bool = False
    part_kernel: bool = False
    packed_input: bool = False
    packed_output: bool = False
    constant_bytes: int = 0
    biases_in_tensor_memory: bool = False
    element_bytes: int = 1

    @property
    def reach(self) -> Extent:
        """Rows and columns that a window spans, including dilation."""
        return Extent(
            (self.window.height - 1) * self.dilation.height + 1,
            (self.window.width - 1) * self.dilation.width + 1,
        )

    @property
    def equal_depth(self) -> bool:
        """Whether each output channel depends only on the input channel with the same index."""
        if self.kind is ComputeKind.POOLING:
            return self.input.depth == self.output.depth
        return self.kind is not ComputeKind.CONVOLUTION


Ints = NDArray[np.int64]
# Block sizes: an array of shape (n, 3), with rows, columns and channels of each block.
Blocks = NDArray[np.int64]

LARGEST = MapShape(32, 64, 128)  # The largest block size that the hardware supports.
# Maximum number of rows or columns of a window that the NPU processes at once. A larger window is
# split into parts.
WINDOW_PART = 8
# The internal memory stores inputs and accumulators with their channels rounded up to a multiple of
# this number.
GRANULE = 8


@cache
def fitting_blocks(work: NpuWork) -> Blocks:
    """Return the block sizes with which the operation fits the NPU's internal memory.

    The result is an array of shape (n, 3): rows, columns and channels of each block size."""
    micro, out = work.chip.micro_block, work.output
    least = max(micro.height, work.upscale), max(micro.width, work.upscale)
    heights = np.arange(
        least[0], _round_up(min(LARGEST.height, out.height), least[0]) + 1, least[0]
    )
    widths = np.arange(least[1], _round_up(min(LARGEST.width, out.width), least[1]) + 1, least[1])
    whole = _round_up(min(LARGEST.depth, out.depth), micro.depth)
    depths = sorted({*range(BLOCK_CHANNELS, min(LARGEST.depth, out.depth), BLOCK_CHANNELS), whole})
    grid = np.meshgrid(heights, widths, np.array(depths), indexing="ij")
    every = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)
    return every[fits(work, every)]


def fits(work: NpuWork, blocks: Blocks) -> NDArray[np.bool_]:
    """Return, for each block size, whether the operation fits the NPU's internal memory, as an
    array of shape (n,).

    blocks: array of shape (n, 3): rows, columns and channels of each block size."""
    chip, needed = work.chip, input_blocks(work, blocks)
    bytes = needed[:, 0] * needed[:, 1] * _round_up(needed[:, 2], GRANULE) * work.element_bytes
    input_banks = _round_up(2 * -(-bytes // BANK_BYTES), chip.input_granule)
    end_banks = max(chip.end_banks, LOOKUP_BANKS if work.lookup else 0)
    free = chip.banks - OUTPUT_BANKS - end_banks
    if work.kind is ComputeKind.ELEMENTWISE:
        return input_banks * (1 + work.binary) <= free
    height = np.minimum(blocks[:, 0], work.output.height) if _has_single_row(work) else blocks[:, 0]
    sums = height * blocks[:, 1] * _round_up(blocks[:, 2], GRANULE) * 4
    sum_banks = _round_up(2 * -(-sums // BANK_BYTES), chip.sum_granule)
    return input_banks + sum_banks <= free


def input_blocks(work: NpuWork, blocks: Blocks) -> Blocks:
    """Return the size of the input that the NPU loads at a time, for each block size.

    blocks: array of shape (n, 3): rows, columns and channels of the output block. The result has
        the same shape: rows, columns and channels of the input that is loaded."""
    # Windows of more than `WINDOW_PART` (8) rows or columns are processed in parts; the loaded
    # input covers one part of each window.  For a convolution, it has at most 16 channels if the
    # weights are ordered part kernel first (several taps of few channels at a time), otherwise at
    # most 32.
    micro, axes = work.chip.micro_block, list[Ints]()
    for k in range(2):
        seen = (blocks[:, k] - 1) * work.stride[k] + min(work.reach[k], WINDOW_PART)
        axes.append(_round_up(-(-seen // work.upscale), micro[k]))
    depth = blocks[:, 2]
    if not work.equal_depth:
        most = 16 if work.part_kernel else 32
        depth = np.full_like(depth, _round_up(min(work.input.depth, most), GRANULE))
    return np.stack([*axes, depth], axis=1)


def _has_single_row(work: NpuWork) -> bool:
    """Whether the NPU allocates accumulators for a single row, although its multipliers
    compute two rows at a time. This is the case if both the output and the window have only one
    row. The result is False for configurations whose multipliers compute one row at a time."""
    return work.chip.micro_block.height == 2 and (work.output.height, work.window.height) == (1, 1)


def _round_up(x: Ints | int, step: int) -> Any:
    return -(-x // step) * step
