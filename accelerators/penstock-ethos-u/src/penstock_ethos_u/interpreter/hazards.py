"""Hazard checks: whether a command stream prevents conflicting accesses of concurrent operations. A
block operation computes its output block by block; all other operations are copies. The register
BLOCKDEP limits how many jobs (blocks, or slices of them) of the previous block operation may be
unfinished when a block operation starts.

The checks rely on these guarantees:

- After KERNEL_WAIT n, all block operations except the last n are complete. After DMA_WAIT n, all
  copies except the last n are complete.
- When a block operation starts, all block operations except the previous one are complete, because
  at most two are outstanding (started or queued).
- When a copy starts while the maximum number of copies is outstanding, the oldest is complete.
- With BLOCKDEP d, a job starts only when at most d earlier jobs are unfinished. Jobs complete in
  order. So when job i of an operation starts, at most d - i jobs of the previous operation are
  unfinished. With d = 2, these are at most two jobs for job 0, one for job 1, and none for job 2.

The checks treat the last d - i blocks of the previous operation as unfinished, i.e. they count a
block as one job, as Arm's compiler Vela does. This is the strictest assumption: if a block consists
of several jobs, fewer blocks are unfinished.

All blocks pass through one pipeline. They complete in order, and the input of a block is read
before this block or a later one is written. Between block operations, the only error is therefore a
byte that is read before the previous operation has written it. An overwrite of bytes that the
previous operation may still access is correct; it is reported in `Flight.ordered`. Vela relies on
this order too: it derives BLOCKDEP from reads only.

Copies and block operations are not ordered, so every conflict between them is an error. A conflict
between accumulators and look-up tables in shared memory, the internal memory of the NPU, is an
error too.

At the end of a stream, block operations are normally outstanding. If a copy is outstanding, the
stream is correct only if NPU_OP_STOP waits for copies, which no public documentation guarantees.
`Flight.end` therefore returns these copies or, with `waited=True`, raises an error. Vela's older
core, which is written in Python, generates such streams if an output of a network is a copy of
another tensor.

Source: Vela's computation of waits and BLOCKDEP. The order of blocks and the limit of two
operations are assumptions that Vela's streams require.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.uma import BackendError
from penstock_ethos_u.interpreter.feature_map import NONE, FeatureMap
from penstock_ethos_u.interpreter.footprint import (
    Bytes,
    Footprint,
    block,
    block_count,
    block_input,
    block_output,
    block_reads,
    first_common_range,
    job_count,
    job_input,
)
from penstock_ethos_u.interpreter.hardware import MOST_KERNELS, NpuHardware
from penstock_ethos_u.interpreter.memory import SHARED
from penstock_ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)

READ_EARLY = "reads what the earlier operation writes"
WRITTEN_EARLY = "writes what the earlier operation reads"
WRITTEN_TWICE = "writes what the earlier operation writes"


@dataclass(frozen=True, slots=True)
class AccessConflict:
    """A conflict between two operations: both access bytes [lower, upper) of a memory region, and
    at least one of them writes these bytes.

    how: description of the accesses, for example "reads what the earlier operation writes".
    region: number of the memory region."""

    how: str
    region: int
    lower: int
    upper: int

    @property
    def text(self) -> str:
        """The conflict as a phrase for messages, such as "reads what the earlier operation writes:
        bytes [0x10, 0x20) of region 1"."""
        place = "shared memory" if self.region == SHARED else f"region {self.region}"
        return f"{self.how}: bytes [{self.lower:#x}, {self.upper:#x}) of {place}"


# An operation that may be outstanding, and the bytes that it accesses.
InFlight = tuple[Operation, Footprint]


@dataclass(slots=True)
class Flight:
    """The operations that may be outstanding: they are started or queued, but not known to be
    complete.

    hardware: the hardware configuration.
    kernels: block operations that may be outstanding, oldest first, each with the bytes that it
        accesses.
    copies: copies that may be outstanding, oldest first, each with the bytes that it accesses.
    ordered: descriptions of conflicts between block operations that are harmless only because the
        hardware completes blocks in order."""

    hardware: NpuHardware
    kernels: list[InFlight] = field(default_factory=list[InFlight])
    copies: list[InFlight] = field(default_factory=list[InFlight])
    ordered: list[str] = field(default_factory=list[str])

    def wait(self, command: str, outstanding: int) -> None:
        """Execute a wait command: afterwards, only the last `outstanding` operations of one kind
        may be unfinished.

        command: NPU_OP_KERNEL_WAIT for block operations, NPU_OP_DMA_WAIT for copies."""
        _keep_last(self.kernels if command == "NPU_OP_KERNEL_WAIT" else self.copies, outstanding)

    def end(self, *, waited: bool) -> tuple[str, ...]:
        """Return the positions, such as "operation 3 (dma), word 17", of the copies that may be
        unfinished at the end of the stream.

        waited: whether the stream must wait for all copies.

        Raises BackendError if `waited` is True and a copy may be unfinished."""
        found = tuple(copy.where for copy, _ in self.copies)
        if found and waited:
            raise BackendError(
                "ethosu-110",
                "it may be outstanding when the stream ends",
                where=found[-1],
                why="no NPU_OP_DMA_WAIT follows it, and the next operation may read what it writes",
                help="wait for it (NPU_OP_DMA_WAIT) before NPU_OP_STOP",
            )
        return found

    def begin(self, operation: Operation, footprint: Footprint) -> None:
        """Check that an operation does not conflict with the operations that may be unfinished when
        it starts. Then record that the operation itself may be unfinished.

        footprint: the bytes that the operation accesses.

        Raises BackendError if no wait and no guarantee of the hardware prevents a conflict, for
        example a read of data that are not yet written."""
        if isinstance(operation, DmaOperation):
            _keep_last(self.copies, self.hardware.dmas - 1)
            _check(operation, footprint, [*self.kernels, *self.copies])
            self.copies.append((operation, footprint))
            return
        _keep_last(self.kernels, MOST_KERNELS - 1)
        _check(operation, footprint, self.copies)
        check_itself(operation, footprint)
        for earlier, used in self.kernels:
            if operation.blockdep and isinstance(earlier, BlockOperation):
                self._check_blocks(operation, footprint, earlier, used)
        self.kernels.append((operation, footprint))

    def _check_blocks(
        self,
        operation: BlockOperation,
        footprint: Footprint,
        earlier: BlockOperation,
        used: Footprint,
    ) -> None:
        """Check a block operation against `earlier`, the previous block operation, whose last
        blocks may be unfinished."""
        _check_table(operation, footprint, earlier, used)
        if _first_conflict(_without_shared(footprint), _without_shared(used)) is None:
            return
        blocks = range(block_count(earlier))[::-1]
        for job in range(min(operation.blockdep, job_count(operation))):
            for number in blocks[: operation.blockdep - job]:
                self._check_block(operation, job, earlier, number)

    def _check_block(
        self, operation: BlockOperation, job: int, earlier: BlockOperation, number: int
    ) -> None:
        written = block_output(earlier, number)
        found = first_common_range(job_input(operation, job), written)
        if found:
            why = (
                f"NPU_SET_BLOCKDEP {operation.blockdep} lets job {job} start before block {number} "
                "of the earlier operation is written"
            )
            raise _hazard(operation, earlier, AccessConflict(READ_EARLY, *found), why)
        output = block_output(operation, job * block_count(operation) // job_count(operation))
        for how, used in ((WRITTEN_EARLY, block_input(earlier, number)), (WRITTEN_TWICE, written)):
            found = first_common_range(output, used)
            if found:
                conflict = AccessConflict(how, *found)
                self.ordered.append(f"{operation.where} after {earlier.where}: {conflict.text}")


def _keep_last(flight: list[InFlight], most: int) -> None:
    """Remove all but the last `most` operations from `flight`. The removed ones are complete,
    because a wait command or the hardware's queue permits at most `most` unfinished operations."""
    del flight[: max(0, len(flight) - most)]


def _check(operation: Operation, footprint: Footprint, others: list[InFlight]) -> None:
    """Raise BackendError if an operation conflicts with one of the operations that may be
    unfinished."""
    for earlier, used in others:
        conflict = _first_conflict(footprint, used)
        if conflict:
            name = "DMA_WAIT" if isinstance(earlier, DmaOperation) else "KERNEL_WAIT"
            why = f"no NPU_OP_{name} ensures that the earlier operation is complete"
            raise _hazard(operation, earlier, conflict, why)


def _check_table(
    operation: BlockOperation, footprint: Footprint, earlier: Operation, used: Footprint
) -> None:
    """Raise BackendError if the accumulators of `operation` overwrite the look-up table of
    `earlier`, which may be unfinished."""
    found = first_common_range(
        {SHARED: footprint.writes[SHARED]}, {SHARED: used.reads.get(SHARED, NONE)}
    )
    if found:
        conflict = AccessConflict(
            "has its accumulators where the earlier operation has its table", *found
        )
        why = f"NPU_SET_BLOCKDEP {operation.blockdep} lets it begin before the earlier one is done"
        raise _hazard(operation, earlier, conflict, why)


def _first_conflict(later: Footprint, earlier: Footprint) -> AccessConflict | None:
    """The first conflict between two concurrent operations, or None if there is none. They
    conflict if both access a byte and at least one of them writes it."""
    ways: tuple[tuple[str, Bytes, Bytes], ...] = (
        (READ_EARLY, later.reads, earlier.writes),
        (WRITTEN_EARLY, later.writes, earlier.reads),
        (WRITTEN_TWICE, later.writes, earlier.writes),
    )
    found = ((how, first_common_range(one, other)) for how, one, other in ways)
    return next((AccessConflict(how, *bytes_) for how, bytes_ in found if bytes_), None)


def _without_shared(footprint: Footprint) -> Footprint:
    """A footprint without the bytes in shared memory, the internal memory of the NPU. Block
    operations write accumulators there, which is not a conflict between block operations."""
    reads, writes = (
        {n: ranges for n, ranges in sets.items() if n != SHARED}
        for sets in (footprint.reads, footprint.writes)
    )
    return Footprint(reads, writes)


def check_itself(operation: BlockOperation, footprint: Footprint) -> None:
    """Raise BackendError if a block overwrites bytes that a later block of the same operation
    reads.

    footprint: the bytes that the operation accesses."""
    if first_common_range(_without_shared(footprint).reads, footprint.writes) is None:
        return
    writer = np.zeros(operation.ofm.shape, np.int64)
    inputs = [map for one in operation.chain for map in one.inputs]
    readers = {map: np.zeros(map.shape, np.int64) for map in inputs}
    for number in range(block_count(operation)):
        writer[block(operation, number).slices] = number
        for map, box in block_reads(operation, number):
            readers[map][box.slices] = number
    written = _by_byte(operation.ofm, writer)
    for map, reader in readers.items():
        if map.region == operation.ofm.region:
            _check_order(operation, map, written, _by_byte(map, reader))


def _check_order(
    operation: BlockOperation,
    map: FeatureMap,
    written: tuple[Any, Any],
    read: tuple[Any, Any],
) -> None:
    """Raise BackendError if a block of an operation writes a byte that a later block of the same
    operation reads."""
    both, at, of = np.intersect1d(read[0], written[0], return_indices=True)
    reader, writer = read[1][at], written[1][of]
    early = np.flatnonzero(reader > writer)
    if len(early):
        first = early[0]
        how = (
            f"writes in block {writer[first]} what its block {reader[first]} reads of "
            f"{map.name.upper()}"
        )
        conflict = AccessConflict(how, map.region, int(both[first]), int(both[first]) + 1)
        raise _hazard(
            operation,
            operation,
            conflict,
            "blocks are processed in order and read their input at that time",
        )


def _by_byte(map: FeatureMap, values: Any) -> tuple[Any, Any]:
    """(addresses, values): the address of each byte of a feature map, in ascending order,
    and the value of the element to which the byte belongs. If a byte belongs to several elements,
    the result contains their greatest value."""
    size = map.element_bytes
    every = (map.addresses()[..., None] + np.arange(size)).ravel()
    value = np.repeat(values.ravel(), size)
    order = np.lexsort((value, every))
    every, value = every[order], value[order]
    last = np.r_[every[1:] != every[:-1], True]
    return every[last], value[last]


def _hazard(
    later: Operation, earlier: Operation, conflict: AccessConflict, why: str
) -> BackendError:
    """The error for a conflict between two operations, or within one operation if `later`
    and `earlier` are the same."""
    alone = later is earlier
    return BackendError(
        "ethosu-110",
        f"it {conflict.text}",
        where=later.where if alone else f"{later.where}, against {earlier.where}",
        why=why,
        help=("" if alone else "wait for it (NPU_OP_KERNEL_WAIT, NPU_OP_DMA_WAIT, a lower "
              "NPU_SET_BLOCKDEP), or ") + "separate the conflicting bytes",
    )  # fmt: skip
