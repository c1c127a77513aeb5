"""blocks: the candidate block sizes of an operation. A block is the part of the output that the NPU
computes at a time.

While the NPU computes one block, it loads the input of the next one, so its internal memory holds
the inputs and the accumulators of two blocks. Block sizes for which these do not fit are not
candidates.

Ethos-U85 has a memory for inputs and one for accumulators. If no block size fits them twice, blocks
follow each other without overlap.

Source: `architecture_allocator.py` of Arm's compiler Vela 5.2.0, which determines the block sizes
that fit; for Ethos-U85 `regor/architecture/ethosu85/ethos_u85.cpp`.
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
    SeparateMemories,
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

# The largest block size that the hardware supports; with separate memories.
LARGEST, LARGEST_SEPARATE = MapShape(32, 64, 128), MapShape(128, 128, 1024)
# Maximum number of rows or columns of a window that the NPU processes at once. A larger window is
# split into parts.
WINDOW_PART = 8
# The internal memory stores inputs and accumulators with their channels rounded up to a multiple of
# this number.
GRANULE = 8
WORD_BYTES = 4  # Elements of this size occupy twice the granule of banks.


@cache
def fitting_blocks(work: NpuWork) -> Blocks:
    """Return the block sizes with which the operation fits the NPU's internal memory.

    The result is an array of shape (n, 3): rows, columns and channels of each block size."""
    memories, out, step = work.chip.memories, work.output, depth_step(work)
    micro, largest = work.chip.micro_block, LARGEST
    if memories is not None:
        micro, largest = micro_block(work), LARGEST_SEPARATE
    least = max(micro.height, work.upscale), max(micro.width, work.upscale)
    heights = np.arange(
        least[0], _round_up(min(largest.height, out.height), least[0]) + 1, least[0]
    )
    widths = np.arange(least[1], _round_up(min(largest.width, out.width), least[1]) + 1, least[1])
    whole = _round_up(min(largest.depth, out.depth), step)
    between = max(step, BLOCK_CHANNELS)
    depths = sorted({*range(between, min(largest.depth, out.depth), between), whole})
    if memories is None:
        every = _grid(heights, widths, np.array(depths))
        return every[fits(work, every)]
    if work.kind is ComputeKind.ELEMENTWISE:  # its blocks only share the memory of outputs by rows
        heights = heights[-1:]
    flat = _grid(heights, widths, np.array(depths[:1]))
    for blocks in (2, 1):
        small = flat[_fits_separately(work, memories, flat, blocks)]
        every = np.concatenate([np.insert(small[:, :2], 2, depth, axis=1) for depth in depths])
        found = every[_fits_separately(work, memories, every, blocks)]
        if len(found):
            break
    return found


def _grid(*axes: Ints) -> Blocks:
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)


def depth_step(work: NpuWork) -> int:
    """Return the number of channels of which those of a block are a multiple."""
    if work.chip.memories is None:
        return work.chip.micro_block.depth
    return max(BLOCK_CHANNELS, micro_block(work).depth)


def micro_block(work: NpuWork) -> MapShape:
    """Return the rows, columns and channels of the output that the multipliers of a core compute at
    a time."""
    # Configurations that compute 2 rows and 2 columns at a time compute 1 row and 4 columns instead
    # if a convolution has a single output row, a window of one row, and an even number of output
    # columns.
    micro, out, memories = work.chip.micro_block, work.output, work.chip.memories
    if memories is None:
        flat = work.kind is ComputeKind.CONVOLUTION
        flat = flat and (micro.height, out.height, work.window.height) == (2, 1, 1)
        return MapShape(1, 4, micro.depth) if flat and out.width % 2 == 0 else micro
    if work.kind is ComputeKind.CONVOLUTION:
        every = memories.convolution_micro_blocks(out.depth)
    elif work.equal_depth:
        every = memories.plain_micro_blocks
    else:
        every = memories.channel_sum_micro_blocks
    return min(every, key=lambda m: np.prod([_round_up(n, k) for n, k in zip(out, m, strict=True)]))


def _fits_separately(
    work: NpuWork, memories: SeparateMemories, blocks: Blocks, count: int
) -> NDArray[np.bool_]:
    """`fits` for separate memories, of which those of inputs and accumulators hold `count` blocks
    at a time."""
    needed, (height, width, depth) = input_blocks(work, blocks), blocks.T
    if work.kind is ComputeKind.ELEMENTWISE:
        fitting = width * depth * work.element_bytes <= memories.output_bytes
        if work.second_elements is None:
            return fitting
        bricks = memories.repeat_bytes // REPEAT_SLOTS // (BLOCK_CHANNELS * work.element_bytes)
        rows = micro_block(work).height
        return fitting & (width * depth // BLOCK_CHANNELS <= bricks // rows)
    channels = needed[:, 2]
    if not work.equal_depth:
        channels = np.minimum(channels, work.input.depth)
        unit = _input_units(work, needed[:, 2])[:, 2]
        channels = -(-channels // unit) * unit
    inputs = needed[:, 0] * needed[:, 1] * channels * work.element_bytes
    fitting = count * inputs <= memories.input_bytes
    return fitting & (count * height * width * depth * 4 <= memories.sum_bytes)


REPEAT_SLOTS = 6  # Parts of the memory of operands that are broadcast.


def _input_units(work: NpuWork, depth: Ints) -> Ints:
    """Return, for each number of channels of an input block, the rows, columns and channels of
    which the memory that it occupies is a multiple, as an array of shape (n, 3)."""
    memories, size = work.chip.memories, work.element_bytes
    assert memories is not None
    units = np.array(memories.input_units[micro_block(work)[:2]])
    units[:, 2] *= BLOCK_CHANNELS // size
    return units[np.digitize(depth * size, (BLOCK_CHANNELS, 2 * BLOCK_CHANNELS), right=True)]


def fits(work: NpuWork, blocks: Blocks) -> NDArray[np.bool_]:
    """Return, for each block size, whether the operation fits the NPU's internal memory, as an
    array of shape (n,). The memory consists of shared banks.

    blocks: array of shape (n, 3): rows, columns and channels of each block size."""
    chip, needed = work.chip, input_blocks(work, blocks)
    bytes = needed[:, 0] * needed[:, 1] * _round_up(needed[:, 2], GRANULE) * work.element_bytes
    granule = chip.input_granule * (2 if work.element_bytes == WORD_BYTES else 1)
    input_banks = _round_up(2 * -(-bytes // BANK_BYTES), granule)
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
    # most 32. With separate memories, it has always 16 or, of 8-bit elements, 64.
    depth, separate = blocks[:, 2], work.chip.memories is not None
    if not work.equal_depth:
        most = input_channels(work.chip, work.part_kernel, work.element_bytes)
        whole = most if separate else _round_up(min(work.input.depth, most), GRANULE)
        depth = np.full_like(depth, whole)
    units = _input_units(work, depth) if separate else np.array([work.chip.micro_block])
    axes = list[Ints]()
    for k in range(2):
        seen = (blocks[:, k] - 1) * work.stride[k] + min(work.reach[k], WINDOW_PART)
        axes.append(_round_up(-(-seen // work.upscale), units[:, k]))
    if separate and work.equal_depth and work.kind is not ComputeKind.ELEMENTWISE:
        depth = _round_up(depth, units[:, 2])
    return np.stack([*axes, depth], axis=1)


def input_channels(chip: EthosUConfiguration, part_kernel: bool, element_bytes: int = 1) -> int:
    """Return the maximum number of input channels that a convolution loads at a time."""
    if part_kernel:
        return 16
    return 64 if chip.memories is not None and element_bytes == 1 else 32


def _has_single_row(work: NpuWork) -> bool:
    """Whether the NPU allocates accumulators for a single row, although its multipliers
    compute two rows at a time. This is the case if both the output and the window have only one
    row. The result is False for configurations whose multipliers compute one row at a time."""
    return work.chip.micro_block.height == 2 and (work.output.height, work.window.height) == (1, 1)


def _round_up(x: Ints | int, step: Ints | int) -> Any:
    return -(-x // step) * step
