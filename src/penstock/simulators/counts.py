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
    the executed instructions.  Modelled: `cycles`."""

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
    """The counts of each phase in [0, phases); `blocks[i]` is the decoded block of `records[i]`."""
    executions = records["executions"].astype(np.int64)
    taken = records["exits_taken"].astype(np.int64)
    instructions = executions * np.array([len(b.instructions) for b in blocks], np.int64)
    cycles = executions * np.array([timing.block_cycles(b) for b in blocks], np.int64)
    cycles += taken * timing.taken_branch_cycles
    sizes = executions * records["size"].astype(np.int64)
    totals = np.zeros((phases, 4), np.int64)
    np.add.at(totals, records["phase"], np.stack((instructions, cycles, taken, sizes), axis=1))
    return tuple(ExecutionCounts(*(int(total) for total in row)) for row in totals)
