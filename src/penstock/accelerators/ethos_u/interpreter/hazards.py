"""Hazard checks: whether a stream waits for everything that it depends on.

Operations run concurrently. An operation is known to be complete in these cases:

- KERNEL_WAIT n and DMA_WAIT n: all but the last n block operations, or copies.
- The start of a block operation: all block operations but the previous one, because at most two are
  outstanding. The start of a copy when the maximum number of copies is outstanding: the oldest
  copy.
- BLOCKDEP d of a block operation: a job starts when at most d earlier jobs are unfinished, so job i
  starts when at most d - i jobs of the previous operation are. A block of the previous operation
  counts as one job, as in Vela; if it counted as more, fewer blocks would be unfinished.

Blocks complete in order, and a block is read before it or a later one is written, because all
blocks pass through one pipeline. Between block operations, the only error is therefore a read
before the preceding write. If an operation overwrites what the previous one may still access, it is
reported in `ordered`. Vela relies on this order too: it derives BLOCKDEP from reads only. Copies
and block operations are not ordered, so every conflict between them is an error, and so is one
between accumulators and tables in shared memory.

A stream may end while a copy is outstanding. If an output of a network is a copy of another tensor,
streams of Vela's older core do so; they are correct only if NPU_OP_STOP waits for copies, which no
public documentation states. Such copies are therefore reported (`end`), and are an error only if
the caller requires waiting. Block operations are normally outstanding at the end.

Source: Vela's computation of waits and BLOCKDEP. The order of blocks and the limit of two
operations are assumptions that Vela's streams require.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.blocks import (
    block,
    block_count,
    block_reads,
    job_count,
)
from penstock.accelerators.ethos_u.interpreter.feature_map import FeatureMap
from penstock.accelerators.ethos_u.interpreter.footprint import (
    Bytes,
    Footprint,
    block_input,
    block_output,
    common,
    job_input,
)
from penstock.accelerators.ethos_u.interpreter.hardware import MOST_KERNELS, NpuHardware
from penstock.accelerators.ethos_u.interpreter.memory import SHARED
from penstock.accelerators.ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)
from penstock.accelerators.ethos_u.interpreter.ranges import NONE
from penstock.uma import BackendError

READ_EARLY = "reads what the earlier operation writes"
WRITTEN_EARLY = "writes what the earlier operation reads"
WRITTEN_TWICE = "writes what the earlier operation writes"


@dataclass(frozen=True, slots=True)
class Meeting:
    """Bytes [lower, upper) of a region that two operations access, at least one of them by
    writing."""

    how: str
    region: int
    lower: int
    upper: int

    @property
    def text(self) -> str:
        """The conflict as a phrase."""
        place = "shared memory" if self.region == SHARED else f"region {self.region}"
        return f"{self.how}: bytes [{self.lower:#x}, {self.upper:#x}) of {place}"


InFlight = tuple[Operation, Footprint]


@dataclass(slots=True)
class Flight:
    """The operations that may be outstanding, oldest first."""

    hardware: NpuHardware
    kernels: list[InFlight] = field(default_factory=list[InFlight])
    copies: list[InFlight] = field(default_factory=list[InFlight])
    ordered: list[str] = field(default_factory=list[str])

    def wait(self, command: str, outstanding: int) -> None:
        """Execute KERNEL_WAIT or DMA_WAIT."""
        _forget(self.kernels if command == "NPU_OP_KERNEL_WAIT" else self.copies, outstanding)

    def end(self, *, waited: bool) -> tuple[str, ...]:
        """Return the copies that may be outstanding at the end of the stream. Raises BackendError
        if there are any and `waited` is True."""
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
        """Add an operation. Raises BackendError if it may start too early."""
        if isinstance(operation, DmaOperation):
            _forget(self.copies, self.hardware.dmas - 1)
            _check(operation, footprint, [*self.kernels, *self.copies])
            self.copies.append((operation, footprint))
            return
        _forget(self.kernels, MOST_KERNELS - 1)
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
        """Check an operation against the previous block operation, as BLOCKDEP allows."""
        _check_table(operation, footprint, earlier, used)
        if _meeting(_outside(footprint), _outside(used)) is None:
            return
        blocks = range(block_count(earlier))[::-1]
        for job in range(min(operation.blockdep, job_count(operation))):
            for number in blocks[: operation.blockdep - job]:
                self._check_block(operation, job, earlier, number)

    def _check_block(
        self, operation: BlockOperation, job: int, earlier: BlockOperation, number: int
    ) -> None:
        """Check a job against a block of the previous operation that may be unfinished when it
        starts."""
        written = block_output(earlier, number)
        found = common(job_input(operation, job), written)
        if found:
            why = (
                f"NPU_SET_BLOCKDEP {operation.blockdep} lets job {job} start before block {number} "
                "of the earlier operation is written"
            )
            raise _hazard(operation, earlier, Meeting(READ_EARLY, *found), why)
        output = block_output(operation, job * block_count(operation) // job_count(operation))
        for how, used in ((WRITTEN_EARLY, block_input(earlier, number)), (WRITTEN_TWICE, written)):
            found = common(output, used)
            if found:
                meeting = Meeting(how, *found)
                self.ordered.append(f"{operation.where} after {earlier.where}: {meeting.text}")


def _forget(flight: list[InFlight], most: int) -> None:
    """Keep only the last `most` operations; the earlier ones are complete."""
    del flight[: max(0, len(flight) - most)]


def _check(operation: Operation, footprint: Footprint, others: list[InFlight]) -> None:
    """Raise BackendError if an operation conflicts with others of any kind."""
    for earlier, used in others:
        meeting = _meeting(footprint, used)
        if meeting:
            name = "DMA_WAIT" if isinstance(earlier, DmaOperation) else "KERNEL_WAIT"
            why = f"no NPU_OP_{name} ensures that the earlier operation is complete"
            raise _hazard(operation, earlier, meeting, why)


def _check_table(
    operation: BlockOperation, footprint: Footprint, earlier: Operation, used: Footprint
) -> None:
    """Raise BackendError if the accumulators of a block operation overwrite the table of an earlier
    one."""
    found = common({SHARED: footprint.writes[SHARED]}, {SHARED: used.reads.get(SHARED, NONE)})
    if found:
        meeting = Meeting("has its accumulators where the earlier operation has its table", *found)
        why = f"NPU_SET_BLOCKDEP {operation.blockdep} lets it begin before the earlier one is done"
        raise _hazard(operation, earlier, meeting, why)


def _meeting(later: Footprint, earlier: Footprint) -> Meeting | None:
    """Return the first conflict between two concurrent operations, or None."""
    ways: tuple[tuple[str, Bytes, Bytes], ...] = (
        (READ_EARLY, later.reads, earlier.writes),
        (WRITTEN_EARLY, later.writes, earlier.reads),
        (WRITTEN_TWICE, later.writes, earlier.writes),
    )
    found = ((how, common(one, other)) for how, one, other in ways)
    return next((Meeting(how, *bytes_) for how, bytes_ in found if bytes_), None)


def _outside(footprint: Footprint) -> Footprint:
    """Return the footprint without shared memory."""
    reads, writes = (
        {n: ranges for n, ranges in sets.items() if n != SHARED}
        for sets in (footprint.reads, footprint.writes)
    )
    return Footprint(reads, writes)


def check_itself(operation: BlockOperation, footprint: Footprint) -> None:
    """Raise BackendError if a block overwrites what a later block of the same operation reads."""
    if common(_outside(footprint).reads, footprint.writes) is None:
        return
    writer = np.zeros(operation.ofm.shape, np.int64)
    readers = {map.name: np.zeros(map.shape, np.int64) for map in operation.inputs}
    for number in range(block_count(operation)):
        writer[block(operation, number).slices] = number
        for map, box in block_reads(operation, number):
            readers[map.name][box.slices] = number
    written = _by_byte(operation.ofm, writer)
    for map in operation.inputs:
        if map.region == operation.ofm.region:
            _check_order(operation, map, written, _by_byte(map, readers[map.name]))


def _check_order(
    operation: BlockOperation,
    map: FeatureMap,
    written: tuple[Any, Any],
    read: tuple[Any, Any],
) -> None:
    """Raise BackendError if bytes are written by a block before their last reader."""
    both, at, of = np.intersect1d(read[0], written[0], return_indices=True)
    reader, writer = read[1][at], written[1][of]
    early = np.flatnonzero(reader > writer)
    if len(early):
        first = early[0]
        how = (
            f"writes in block {writer[first]} what its block {reader[first]} reads of "
            f"{map.name.upper()}"
        )
        meeting = Meeting(how, map.region, int(both[first]), int(both[first]) + 1)
        raise _hazard(
            operation,
            operation,
            meeting,
            "blocks are processed in order and read their input at that time",
        )


def _by_byte(map: FeatureMap, values: Any) -> tuple[Any, Any]:
    """Return the sorted unique byte addresses of a map, and the maximum value at each."""
    size = map.element_bytes
    every = (map.addresses()[..., None] + np.arange(size)).ravel()
    value = np.repeat(values.ravel(), size)
    order = np.lexsort((value, every))
    every, value = every[order], value[order]
    last = np.r_[every[1:] != every[:-1], True]
    return every[last], value[last]


def _hazard(later: Operation, earlier: Operation, meeting: Meeting, why: str) -> BackendError:
    alone = later is earlier
    return BackendError(
        "ethosu-110",
        f"it {meeting.text}",
        where=later.where if alone else f"{later.where}, against {earlier.where}",
        why=why,
        help=("" if alone else "wait for it (NPU_OP_KERNEL_WAIT, NPU_OP_DMA_WAIT, a lower "
              "NPU_SET_BLOCKDEP), or ") + "separate the conflicting bytes",
    )  # fmt: skip
