"""The exact bytes that operations, blocks and jobs read and write. A block operation (any operation
but a copy) computes its output block by block. A job computes a block, or the contribution of one
slice of input channels to a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock_ethos_u.interpreter.blocks import block, block_reads, job_reads
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.memory import SHARED, ByteSpan
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)
from penstock_ethos_u.interpreter.output import SLOT_BYTES, table_bytes
from penstock_ethos_u.interpreter.ranges import Ranges, first_overlap, span, union

Bytes = Mapping[int, Ranges]
"""A set of byte addresses for each memory region, by region number."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes that an operation reads and writes: for each memory region, by number, a set of
    addresses in the form that `ranges.py` describes.

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
    reads = [(map.region, map.ranges()) for map in operation.inputs]
    spans = [s for s in (operation.weights, operation.scales) if s is not None]
    table = operation.activation.table
    if table is not None:
        at = hardware.table_address + SLOT_BYTES * table
        spans.append(ByteSpan("table", SHARED, at, at + table_bytes(operation)))
    reads += [(s.region, span(s.lower, s.upper)) for s in spans]
    work = hardware.table_address
    if table is None and hardware.overwrites_tables:
        work = hardware.shared_bytes
    writes = [(operation.ofm.region, operation.ofm.ranges()), (SHARED, span(0, work))]
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
    """Return the bytes that are in at least one of the given spans, as {region number: set of
    addresses}."""
    return _joined((s.region, span(s.lower, s.upper)) for s in spans)


def _joined(parts: Iterable[tuple[int, Ranges]]) -> Bytes:
    """Return {region number: set of addresses}: for each region, the union of all its sets.

    parts: pairs (region number, set of addresses). A region may occur in several pairs."""
    found: dict[int, Ranges] = {}
    for region, ranges in parts:
        found[region] = union(found[region], ranges) if region in found else ranges
    return found
