"""The blocks and jobs into which the hardware divides an operation. A block is a box of the output.
If each output element depends on all input channels, as in a convolution, a block consists of
several jobs, one for each slice of input channels; otherwise, a block is one job.

Blocks are processed in row-major order: the channel varies fastest, then the column, then the row.
Source: the way in which Arm's compiler Vela counts jobs to compute BLOCKDEP, the number of jobs
that may still be unfinished when the next operation starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock_ethos_u.interpreter.feature_map import ElementBox, FeatureMap
from penstock_ethos_u.interpreter.operation import BlockOperation

SLICE_BYTES = 32
"""Maximum size in bytes of the channels of one pixel that a job reads, in convolutions and sums
over channels."""
PART_KERNEL_CHANNELS = 16
"""Maximum number of input channels that a job reads if weights are ordered part kernel first."""
WHOLE_DEPTH = ("conv", "reduce_sum")
"""Kinds of operations whose output elements depend on all input channels. Each job reads one slice
of the channels."""


def block_count(operation: BlockOperation) -> int:
    """Return the number of blocks into which an operation is divided."""
    rows, columns, channels = _counts(operation)
    return rows * columns * channels


def block(operation: BlockOperation, index: int) -> ElementBox:
    """Return the elements of the output that the block with index `index` computes. Blocks are
    numbered in row-major order: the channel varies fastest, then the column, then the row."""
    _, columns, channels = _counts(operation)
    at = (index // channels // columns, index // channels % columns, index % channels)
    sides = zip(at, operation.block, operation.ofm.shape, strict=True)
    return ElementBox(*((k * size, min((k + 1) * size, most)) for k, size, most in sides))


def job_count(operation: BlockOperation) -> int:
    """Return the number of jobs into which an operation is divided."""
    return block_count(operation) * _slices(operation)


def job_reads(operation: BlockOperation, index: int) -> Iterator[tuple[FeatureMap, ElementBox]]:
    """Yield (feature map, box) for each input feature map of the job with index `index`: the job
    reads the elements in the box."""
    number, piece = divmod(index, _slices(operation))
    size = _slice_channels(operation)
    depth = operation.ifm.shape[2]
    channels = (piece * size, min((piece + 1) * size, depth))
    for map, box in block_reads(operation, number):
        slice_ = channels if operation.kind in WHOLE_DEPTH else box.channels
        yield map, ElementBox(box.rows, box.columns, slice_)


def block_reads(operation: BlockOperation, number: int) -> Iterator[tuple[FeatureMap, ElementBox]]:
    """Yield (feature map, box) for each input feature map of the block with index `number`: the
    block reads the elements in the box."""
    output, kernel, pad = block(operation, number), operation.kernel, operation.padding
    rows = _reach(output.rows, kernel.stride_y, kernel.reach_y, pad.top, operation.height)
    columns = _reach(output.columns, kernel.stride_x, kernel.reach_x, pad.left, operation.width)
    if operation.upscale != "none":
        rows, columns = (((lower // 2), -(-upper // 2)) for lower, upper in (rows, columns))
    depth = operation.ifm.shape[2]
    whole = operation.kind in WHOLE_DEPTH
    yield operation.ifm, ElementBox(rows, columns, (0, depth) if whole else output.channels)
    for second in operation.inputs[1:]:
        sides = (output.rows, output.columns, output.channels)
        limits = zip(sides, second.shape, strict=True)
        yield second, ElementBox(*((0, 1) if most == 1 else side for side, most in limits))


def _counts(operation: BlockOperation) -> tuple[int, int, int]:
    """Return the number of blocks along rows, columns and channels."""
    rows, columns, channels = (
        -(-most // size) for most, size in zip(operation.ofm.shape, operation.block, strict=True)
    )
    return rows, columns, channels


def _slices(operation: BlockOperation) -> int:
    """Return the number of jobs of each block: one for each slice of input channels, or 1 if output
    elements do not depend on all input channels. For example, an int8 convolution of 40 input
    channels has 2 jobs per block, of 32 and 8 channels, if weights are ordered depth first."""
    if operation.kind not in WHOLE_DEPTH:
        return 1
    return -(-operation.ifm.shape[2] // _slice_channels(operation))


def _slice_channels(operation: BlockOperation) -> int:
    """Return the maximum number of input channels that one job reads."""
    most = SLICE_BYTES // operation.ifm.element_bytes
    return min(most, PART_KERNEL_CHANNELS) if operation.kernel.part_kernel_first else most


def _reach(
    output: tuple[int, int], stride: int, reach: int, before: int, extent: int
) -> tuple[int, int]:
    """Return the half-open interval of input rows that the windows of some output rows cover,
    without padding. The same function is used for columns.

    output: half-open interval of output rows.
    stride: input rows between the windows of consecutive output rows.
    reach: rows that a window spans.
    before: rows of padding before the input.
    extent: number of input rows (after upscaling, if the input is upscaled)."""
    lower, upper = output
    first, last = lower * stride - before, (upper - 1) * stride + reach - before
    return min(max(first, 0), extent), max(0, min(last, extent))
