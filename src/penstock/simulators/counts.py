"""Counts of executed instructions, from block records and decoded blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.simulators.cortex_m_timing import Timing
from penstock.simulators.thumb import BasicBlock


@dataclass(frozen=True, slots=True)
class ExecutionCounts:
    """Cost of executed code.

    Exact: `instructions`, `taken_branches` (including returns) and `code_bytes`, the total size of
    the executed instructions.  `cycles` are those of the timing table of the core."""

    instructions: int = 0
    cycles: int = 0
    taken_branches: int = 0
    code_bytes: int = 0

    def __add__(self, other: ExecutionCounts) -> ExecutionCounts:
        return ExecutionCounts(
            self.instructions + other.instructions,
            self.cycles + other.cycles,
            self.taken_branches + other.taken_branches,
            self.code_bytes + other.code_bytes,
        )

    def __sub__(self, other: ExecutionCounts) -> ExecutionCounts:
        return ExecutionCounts(
            self.instructions - other.instructions,
            self.cycles - other.cycles,
            self.taken_branches - other.taken_branches,
            self.code_bytes - other.code_bytes,
        )


def counts_by_phase(
    records: npt.NDArray[np.void], blocks: Sequence[BasicBlock], timing: Timing, phases: int
) -> tuple[ExecutionCounts, ...]:
    """The counts of each phase in [0, phases); `blocks[i]` is the decoded block of `records[i]`.

    The simulator ends blocks at page boundaries, too.  The instruction after such an end is costed
    with the one before it, so the cycles do not depend on where the code is linked."""
    executions = records["executions"].astype(np.int64)
    taken = records["exits_taken"].astype(np.int64)
    instructions = executions * np.array([len(b.instructions) for b in blocks], np.int64)
    cycles = executions * np.array([timing.block_cycles(b) for b in blocks], np.int64)
    cycles += taken * timing.taken_branch_cycles
    cycles += (executions - taken) * _joint_cycles(records, blocks, timing)
    sizes = executions * records["size"].astype(np.int64)
    totals = np.zeros((phases, 4), np.int64)
    np.add.at(totals, records["phase"], np.stack((instructions, cycles, taken, sizes), axis=1))
    return tuple(ExecutionCounts(*(int(total) for total in row)) for row in totals)


def _joint_cycles(
    records: npt.NDArray[np.void], blocks: Sequence[BasicBlock], timing: Timing
) -> npt.NDArray[np.int64]:
    """For each block, the cycles that its last instruction adds to the one that follows it."""
    starts = records["address"].astype(np.int64)
    first = {start: b.instructions[0] for start, b in zip(starts.tolist(), blocks, strict=True)}
    ends = (starts + records["size"].astype(np.int64)).tolist()
    return np.array(
        [
            timing.joint_cycles(block.instructions[-1], first[end]) if end in first else 0
            for end, block in zip(ends, blocks, strict=True)
        ],
        np.int64,
    )
