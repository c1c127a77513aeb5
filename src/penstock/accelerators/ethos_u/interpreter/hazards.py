"""hazards: whether a stream waits for what it needs.

Operations run beside each other.  What is known of who is finished:

- KERNEL_WAIT n and DMA_WAIT n: all but the last n block operations, or copies.
- When a block operation begins, all but the one before it: at most two are under way.  When a copy
  begins where as many as there may be are under way: the oldest.
- BLOCKDEP d of a block operation: every job begins when at most d jobs before it are unfinished, so
  its job i when at most d - i of the operation before are.  A block of that counts as one job, as
  in vela; if it were more, fewer blocks would be unfinished.

Blocks finish in order, and a block is read before it or a later one is written, since all go
through one pipeline.  So between block operations only what is read too early is an error; where
one writes what the one before may still read or write, that is told (`ordered`).  Vela relies on
that order as well: it takes BLOCKDEP from what is read alone.  Between copies and block operations
there is no order: every meeting is an error, and so is one of accumulators and tables in shared
memory.

A stream may end while a copy is under way.  Where an output of a network is a copy of another
tensor, streams of vela's older core do, and are right only if NPU_OP_STOP waits for it; nothing
else that is known says so.  So that is told (`end`), and an error only where whoever runs the
stream wants it to wait.  That block operations are under way at the end is the rule.

Source: vela, calculation of waits and BLOCKDEP; that of order and of at most two operations is what
its streams need to be right.
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
from penstock.accelerators.ethos_u.interpreter.hardware import MOST_KERNELS, Hardware
from penstock.accelerators.ethos_u.interpreter.memory import SHARED
from penstock.accelerators.ethos_u.interpreter.operation import (
    BlockOperation,
    DmaOperation,
    Operation,
)
from penstock.accelerators.ethos_u.interpreter.ranges import NONE
from penstock.uma import BackendError

READ_EARLY = "reads what the earlier one writes"
WRITTEN_EARLY = "writes what the earlier one reads"
WRITTEN_TWICE = "writes what the earlier one writes"


@dataclass(frozen=True, slots=True)
class Meeting:
    """Bytes [lower, upper) of a region that two operations use, of which one writes."""

    how: str
    region: int
    lower: int
    upper: int

    @property
    def text(self) -> str:
        """For messages."""
        place = "shared memory" if self.region == SHARED else f"region {self.region}"
        return f"{self.how}: bytes [{self.lower:#x}, {self.upper:#x}) of {place}"


InFlight = tuple[Operation, Footprint]


@dataclass(slots=True)
class Flight:
    """The operations that are not known to be finished, oldest first."""

    hardware: Hardware
    kernels: list[InFlight] = field(default_factory=list[InFlight])
    copies: list[InFlight] = field(default_factory=list[InFlight])
    ordered: list[str] = field(default_factory=list[str])

    def wait(self, command: str, outstanding: int) -> None:
        """What KERNEL_WAIT and DMA_WAIT do."""
        _forget(self.kernels if command == "NPU_OP_KERNEL_WAIT" else self.copies, outstanding)

    def end(self, *, waited: bool) -> tuple[str, ...]:
        """The copies that may be under way when the stream ends.  Raises BackendError where there
        are any and all have to be `waited` for."""
        found = tuple(copy.where for copy, _ in self.copies)
        if found and waited:
            raise BackendError(
                "ethosu-110",
                "it may still be under way when the stream ends",
                where=found[-1],
                why="no NPU_OP_DMA_WAIT after it says that it is done, and what runs next may read "
                "what it writes",
                help="wait for it (NPU_OP_DMA_WAIT) before NPU_OP_STOP",
            )
        return found

    def begin(self, operation: Operation, footprint: Footprint) -> None:
        """One more operation.  Raises BackendError where it may be too early."""
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
        """Against the block operation before, as BLOCKDEP allows."""
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
        """A job against a block of an earlier operation that may be unfinished when it begins."""
        written = block_output(earlier, number)
        found = common(job_input(operation, job), written)
        if found:
            why = (
                f"NPU_SET_BLOCKDEP {operation.blockdep} lets job {job} begin before block {number} "
                "of the earlier one is written"
            )
            raise _hazard(operation, earlier, Meeting(READ_EARLY, *found), why)
        output = block_output(operation, job * block_count(operation) // job_count(operation))
        for how, used in ((WRITTEN_EARLY, block_input(earlier, number)), (WRITTEN_TWICE, written)):
            found = common(output, used)
            if found:
                meeting = Meeting(how, *found)
                self.ordered.append(f"{operation.where} after {earlier.where}: {meeting.text}")


def _forget(flight: list[InFlight], most: int) -> None:
    """Leaves the last ones: those before are finished."""
    del flight[: max(0, len(flight) - most)]


def _check(operation: Operation, footprint: Footprint, others: list[InFlight]) -> None:
    """Raises BackendError where an operation meets another of any kind."""
    for earlier, used in others:
        meeting = _meeting(footprint, used)
        if meeting:
            name = "DMA_WAIT" if isinstance(earlier, DmaOperation) else "KERNEL_WAIT"
            why = f"no NPU_OP_{name} says that the earlier one is done"
            raise _hazard(operation, earlier, meeting, why)


def _check_table(
    operation: BlockOperation, footprint: Footprint, earlier: Operation, used: Footprint
) -> None:
    """Raises BackendError where a block operation works where the earlier one has its table."""
    found = common({SHARED: footprint.writes[SHARED]}, {SHARED: used.reads.get(SHARED, NONE)})
    if found:
        meeting = Meeting("has its accumulators where the earlier one has its table", *found)
        why = f"NPU_SET_BLOCKDEP {operation.blockdep} lets it begin before the earlier one is done"
        raise _hazard(operation, earlier, meeting, why)


def _meeting(later: Footprint, earlier: Footprint) -> Meeting | None:
    """Where two operations that may run beside each other meet."""
    ways: tuple[tuple[str, Bytes, Bytes], ...] = (
        (READ_EARLY, later.reads, earlier.writes),
        (WRITTEN_EARLY, later.writes, earlier.reads),
        (WRITTEN_TWICE, later.writes, earlier.writes),
    )
    found = ((how, common(one, other)) for how, one, other in ways)
    return next((Meeting(how, *bytes_) for how, bytes_ in found if bytes_), None)


def _outside(footprint: Footprint) -> Footprint:
    """Without shared memory."""
    reads, writes = (
        {n: ranges for n, ranges in sets.items() if n != SHARED}
        for sets in (footprint.reads, footprint.writes)
    )
    return Footprint(reads, writes)


def check_itself(operation: BlockOperation, footprint: Footprint) -> None:
    """Raises BackendError where a block writes what a later block of the same operation reads."""
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
    """Raises BackendError where bytes are written by an earlier block than their last reader."""
    both, at, of = np.intersect1d(read[0], written[0], return_indices=True)
    reader, writer = read[1][at], written[1][of]
    early = np.flatnonzero(reader > writer)
    if len(early):
        first = early[0]
        how = (
            f"writes in block {writer[first]} what block {reader[first]} of it reads of "
            f"{map.name.upper()}"
        )
        meeting = Meeting(how, map.region, int(both[first]), int(both[first]) + 1)
        raise _hazard(
            operation, operation, meeting, "blocks run in order, with input as it is then"
        )


def _by_byte(map: FeatureMap, values: Any) -> tuple[Any, Any]:
    """Addresses of all bytes of a map, sorted, each once, and the greatest value there."""
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
              "NPU_SET_BLOCKDEP), or ") + "move what meets",
    )  # fmt: skip
