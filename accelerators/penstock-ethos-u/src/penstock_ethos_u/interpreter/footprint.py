"""The exact bytes that operations, blocks and jobs read and write. A block operation (any operation
but a copy) computes its output block by block. A job computes a block, or the contribution of one
slice of input channels to a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from penstock_ethos_u.interpreter.feature_map import (
    ElementBox,
    FeatureMap,
    Ranges,
    first_overlap,
    span,
    union,
)
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.memory import SHARED, ByteSpan
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
    ResizeAxis,
)
from penstock_ethos_u.interpreter.output import table_bytes

# The blocks and jobs into which the hardware divides an operation. A block is a box of the output.
# If each output element depends on all input channels, as in a convolution, a block consists of
# several jobs, one for each slice of input channels; otherwise, a block is one job.
#
# Blocks are processed in row-major order: the channel varies fastest, then the column, then the
# row. Source: the way in which Arm's compiler Vela counts jobs to compute BLOCKDEP, the number of
# jobs that may still be unfinished when the next operation starts.


# Kinds of operations whose output elements depend on all input channels. Each job reads one slice
# of the channels.
WHOLE_DEPTH = ("conv", "matmul", "reduce_sum")


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
    # The first operation of a chain reads slices, all others their whole block with each job.
    number, piece = divmod(index, _slices(operation))
    size = operation.chain[0].slice_channels
    for one in operation.chain:
        depth = one.ifm.shape[2]
        channels = (piece * size, min((piece + 1) * size, depth))
        for map, box in _reads(one, number):
            slice_ = channels if one.kind in WHOLE_DEPTH else box.channels
            yield map, ElementBox(box.rows, box.columns, slice_)


def block_reads(operation: BlockOperation, number: int) -> Iterator[tuple[FeatureMap, ElementBox]]:
    """Yield (feature map, box) for each input feature map of the block with index `number`: the
    block reads the elements in the box."""
    for one in operation.chain:
        yield from _reads(one, number)


def _reads(operation: BlockOperation, number: int) -> Iterator[tuple[FeatureMap, ElementBox]]:
    """`block_reads` without the earlier operations of the chain."""
    output, kernel, pad = block(operation, number), operation.kernel, operation.padding
    rows = _reach(output.rows, kernel.stride_y, kernel.reach_y, pad.top, operation.height)
    columns = _reach(output.columns, kernel.stride_x, kernel.reach_x, pad.left, operation.width)
    if operation.resize is not None:
        sides = zip(
            operation.resize, (output.rows, output.columns), operation.ifm.shape[:2], strict=True
        )
        rows, columns = (_sampled(axis, side, most) for axis, side, most in sides)
    if operation.upscale != "none":
        rows, columns = (((lower // 2), -(-upper // 2)) for lower, upper in (rows, columns))
    depth = operation.ifm.shape[2]
    whole = operation.kind in WHOLE_DEPTH
    box = ElementBox(rows, columns, (0, depth) if whole else output.channels)
    for map in operation.inputs:
        if operation.kind == "matmul" and map is not operation.ifm:
            box = ElementBox((0, 1), output.channels, (0, depth))
        elif operation.kind != "matmul" and operation.second is not None:
            sides = zip(output.sides, map.shape, strict=True)
            box = ElementBox(*((0, 1) if most == 1 else side for side, most in sides))
        yield map, box


def _counts(operation: BlockOperation) -> tuple[int, int, int]:
    rows, columns, channels = (
        -(-most // size) for most, size in zip(operation.ofm.shape, operation.block, strict=True)
    )
    return rows, columns, channels


def _slices(operation: BlockOperation) -> int:
    """The number of jobs of each block: one for each slice of input channels, or 1 if output
    elements do not depend on all input channels. For example, an int8 convolution of 40 input
    channels has 2 jobs per block, of 32 and 8 channels, if weights are ordered depth first."""
    first = operation.chain[0]
    if first.kind not in WHOLE_DEPTH:
        return 1
    return -(-first.ifm.shape[2] // first.slice_channels)


def _reach(
    output: tuple[int, int], stride: int, reach: int, before: int, extent: int
) -> tuple[int, int]:
    """The half-open interval of input rows that the windows of some output rows cover,
    without padding. The same function is used for columns."""
    lower, upper = output
    first, last = lower * stride - before, (upper - 1) * stride + reach - before
    return min(max(first, 0), extent), max(0, min(last, extent))


def _sampled(axis: ResizeAxis, output: tuple[int, int], extent: int) -> tuple[int, int]:
    """The half-open interval of input rows, or columns, from which some of the output are
    interpolated."""
    lower, upper = output
    ends = axis.place(np.array([lower, upper - 1]))[0] + np.array([0, 1])
    first, last = np.clip(ends, 0, extent - 1).tolist()
    return first, last + 1


Bytes = Mapping[int, Ranges]  # A set of byte addresses for each memory region, by region number.


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes that an operation reads and writes: for each memory region, by number, a set of
    addresses in the form that `feature_map.py` describes.

    Block operations are assumed to write accumulators to all bytes of shared memory (region
    `SHARED`, the internal memory of the NPU) that are not reserved for look-up tables. Operations
    without a table also write the reserved bytes if `NpuHardware.overwrites_tables` is True."""

    reads: Bytes
    writes: Bytes


def operation_footprint(operation: Operation, hardware: NpuHardware) -> Footprint:
    """Return the bytes that an operation reads and writes, including look-up tables and
    accumulators in shared memory, the internal memory of the NPU."""
    if isinstance(operation, DmaOperation):
        return Footprint(_spans([operation.source]), _spans([operation.target]))
    reads = [(map.region, map.ranges()) for one in operation.chain for map in one.inputs]
    spans = list[ByteSpan]()
    for one in operation.chain:
        spans += [*one.weights, *one.scales]
        if one.activation.table is not None:
            at = hardware.table_address + one.activation.table
            spans.append(ByteSpan("table", SHARED, at, at + table_bytes(one)))
    reads += [(s.region, span(s.lower, s.upper)) for s in spans]
    work = hardware.table_address
    if operation.activation.table is None and hardware.overwrites_tables:
        work = hardware.shared_bytes
    writes = [(SHARED, span(0, work))]
    if not operation.ofm.chained:
        writes.append((operation.ofm.region, operation.ofm.ranges()))
    return Footprint(_joined(reads), _joined(writes))


def job_input(operation: BlockOperation, index: int) -> Bytes:
    """Return the addresses of the bytes that a job reads from the input feature maps, as
    {region number: set of addresses}.

    index: index of the job within the operation."""
    return _joined((map.region, map.ranges(box)) for map, box in job_reads(operation, index))


def block_input(operation: BlockOperation, number: int) -> Bytes:
    """Return the addresses of the bytes that a block reads from the input feature maps, as
    {region number: set of addresses}.

    number: index of the block within the operation."""
    return _joined((map.region, map.ranges(box)) for map, box in block_reads(operation, number))


def block_output(operation: BlockOperation, number: int) -> Bytes:
    """Return the addresses of the bytes that are written when a block is computed, as
    {region number: set of addresses}. The only key is the memory region of the output.

    number: index of the block within the operation."""
    return {operation.ofm.region: operation.ofm.ranges(block(operation, number))}


def first_common_range(one: Bytes, other: Bytes) -> tuple[int, int, int] | None:
    """Return the lowest range of bytes that are in both `one` and `other`, as (region number,
    lower, upper). The range is half-open, and in the first region with common bytes. Return None if
    `one` and `other` have no byte in common."""
    for region in sorted(one.keys() & other.keys()):
        found = first_overlap(one[region], other[region])
        if found:
            return region, *found
    return None


def _spans(spans: Iterable[ByteSpan]) -> Bytes:
    """The bytes that are in at least one of the given spans, as {region number: set of
    addresses}."""
    return _joined((s.region, span(s.lower, s.upper)) for s in spans)


def _joined(parts: Iterable[tuple[int, Ranges]]) -> Bytes:
    found: dict[int, Ranges] = {}
    for region, ranges in parts:
        found[region] = union(found[region], ranges) if region in found else ranges
    return found
