"""blocks: in which pieces the hardware computes an operation.

An output is cut into blocks; the hardware goes through them channels first, then columns, then
rows.  Where an output needs all input channels, a block takes them in slices, each of which is a
job; elsewhere a block is one.  Source: vela's calculation of BLOCKDEP, which counts jobs so.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.accelerators.ethos_u.interpreter.feature_map import Box, FeatureMap
from penstock.accelerators.ethos_u.interpreter.operation import BlockOperation

SLICE_BYTES = 32
"""Of a pixel's channels, at the most, in a job of a convolution or a sum over channels."""
PART_KERNEL_CHANNELS = 16
"""The same, in channels, where a part of the kernel is gone through first."""
WHOLE_DEPTH = ("conv", "reduce_sum")
"""Operations of which an output channel needs all input channels, a slice in a job."""


def block_count(operation: BlockOperation) -> int:
    """How many blocks an operation has."""
    rows, columns, channels = _counts(operation)
    return rows * columns * channels


def block(operation: BlockOperation, index: int) -> Box:
    """The output of a block."""
    _, columns, channels = _counts(operation)
    at = (index // channels // columns, index // channels % columns, index % channels)
    sides = zip(at, operation.block, operation.ofm.shape, strict=True)
    return Box(*((k * size, min((k + 1) * size, most)) for k, size, most in sides))


def job_count(operation: BlockOperation) -> int:
    """How many jobs an operation has."""
    return block_count(operation) * _slices(operation)


def job_reads(operation: BlockOperation, index: int) -> Iterator[tuple[FeatureMap, Box]]:
    """What a job reads of the inputs."""
    number, piece = divmod(index, _slices(operation))
    size = _slice_channels(operation)
    depth = operation.ifm.shape[2]
    channels = (piece * size, min((piece + 1) * size, depth))
    for map, box in block_reads(operation, number):
        slice_ = channels if operation.kind in WHOLE_DEPTH else box.channels
        yield map, Box(box.rows, box.columns, slice_)


def block_reads(operation: BlockOperation, number: int) -> Iterator[tuple[FeatureMap, Box]]:
    """What a block reads of the inputs."""
    output, kernel, pad = block(operation, number), operation.kernel, operation.padding
    rows = _reach(output.rows, kernel.stride_y, kernel.reach_y, pad.top, operation.height)
    columns = _reach(output.columns, kernel.stride_x, kernel.reach_x, pad.left, operation.width)
    if operation.upscale != "none":
        rows, columns = (((lower // 2), -(-upper // 2)) for lower, upper in (rows, columns))
    depth = operation.ifm.shape[2]
    whole = operation.kind in WHOLE_DEPTH
    yield operation.ifm, Box(rows, columns, (0, depth) if whole else output.channels)
    for second in operation.inputs[1:]:
        sides = (output.rows, output.columns, output.channels)
        limits = zip(sides, second.shape, strict=True)
        yield second, Box(*((0, 1) if most == 1 else side for side, most in limits))


def _counts(operation: BlockOperation) -> tuple[int, int, int]:
    """Blocks in rows, columns and channels."""
    rows, columns, channels = (
        -(-most // size) for most, size in zip(operation.ofm.shape, operation.block, strict=True)
    )
    return rows, columns, channels


def _slices(operation: BlockOperation) -> int:
    """Jobs of a block."""
    if operation.kind not in WHOLE_DEPTH:
        return 1
    return -(-operation.ifm.shape[2] // _slice_channels(operation))


def _slice_channels(operation: BlockOperation) -> int:
    most = SLICE_BYTES // operation.ifm.element_bytes
    return min(most, PART_KERNEL_CHANNELS) if operation.kernel.part_kernel_first else most


def _reach(
    output: tuple[int, int], stride: int, reach: int, before: int, most: int
) -> tuple[int, int]:
    """Rows or columns of the input, as the window sees it, for those of the output."""
    lower, upper = output
    first, last = lower * stride - before, (upper - 1) * stride + reach - before
    return min(max(first, 0), most), max(0, min(last, most))
