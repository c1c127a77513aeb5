"""timeline: the duration of a sequence of operations and copies. One engine of the NPU runs
operations and another runs copies.

The NPU issues commands in order, and each engine executes its commands in the order of issue. A
command is in the queue of its engine until it completes. Issue stalls while a queue is full, and at
wait commands. An operation and a copy that run at the same time share the memory ports: if their
combined demand exceeds the bandwidth of a port, both slow down by the factor demand / bandwidth.

The function `timing` computes all durations. The costs of calls, and therefore the search and its
reports, derive from its results. `benchmarks.ethos_u` applies it to the streams of both penstock
and Arm's compiler Vela.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import floor
from typing import NamedTuple

from penstock_ethos_u.configurations import EthosUConfiguration
from penstock_ethos_u.performance import Cycles, copy_rate, copying_cycles

MOST_OPERATIONS = 2  # Capacity of the queue of operations.
# A job with fewer remaining cycles than this is complete; the remainder is a rounding error.
NEARLY_DONE = 1e-6


class CommandQueue(Enum):
    """The command queue of one of the two engines: the one that runs operations, or the one that
    runs copies."""

    OPERATIONS = "operations"
    COPIES = "copies"


class Job(NamedTuple):
    """An operation or a copy.

    queue: the queue of the engine that runs the job.
    cycles: duration if no other job runs at the same time.
    features: number of these cycles in which the job occupies the port of the memory that holds
        tensors.
    constants: number of these cycles in which the job occupies the port of the memory that holds
        constants."""

    queue: CommandQueue
    cycles: float
    features: float
    constants: float


class QueueWait(NamedTuple):
    """A wait command: issue stalls until at most `outstanding` jobs of a queue are incomplete."""

    queue: CommandQueue
    outstanding: int


Step = Job | QueueWait


def operation_job(cycles: Cycles, chip: EthosUConfiguration) -> Job:
    """Return the job of the timeline that represents an operation. It takes a whole number of
    cycles, as in Vela (`EthosU55Performance`), which drops fractions.

    chip: the configuration. If tensors and constants share one port, the field `features` of the
        job includes the accesses to constants, and its field `constants` is 0."""
    (total,), (features,), (constants,) = cycles.total, cycles.features, cycles.constants
    if chip.constants is chip.features:
        constants = 0.0
    return Job(CommandQueue.OPERATIONS, float(floor(total)), float(features), float(constants))


def copy_job(chip: EthosUConfiguration, size_bytes: int) -> Job:
    """Return the job that copies `size_bytes` bytes of constants to the memory that holds
    tensors, or into the NPU. It takes the read latency of the memory that holds constants, plus
    `size_bytes` divided by the bandwidth of this memory."""
    moved, taken = size_bytes / copy_rate(chip), copying_cycles(chip, size_bytes)
    if chip.constants is chip.features:
        return Job(CommandQueue.COPIES, taken, moved, 0.0)
    return Job(CommandQueue.COPIES, taken, size_bytes / chip.features.bytes_per_cycle, moved)


def timing(steps: Iterable[Step], chip: EthosUConfiguration) -> float:
    """Return the cycles from the issue of the first step until all jobs are complete.

    steps: jobs (operations and copies) and wait commands, in order of issue.
    chip: the configuration, which limits how many copies may be issued before the oldest one is
        complete."""
    most = {CommandQueue.OPERATIONS: MOST_OPERATIONS, CommandQueue.COPIES: chip.most_copies}
    clock = _Clock()
    for step in steps:
        if isinstance(step, QueueWait):
            clock.advance_until(step.queue, step.outstanding)
        else:
            clock.advance_until(step.queue, most[step.queue] - 1)
            clock.queues[step.queue].append(_IssuedJob(step, step.cycles))
    for queue in CommandQueue:
        clock.advance_until(queue, 0)
    return clock.now


@dataclass(slots=True)
class _IssuedJob:
    """A job that is issued but not complete.

    remaining_cycles: cycles for which the job must still run, if no other job slows it down."""

    job: Job
    remaining_cycles: float


class _Clock:
    """A simulated clock, and the incomplete jobs of each queue. Of each queue, only the first job
    is running; the others wait for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queues: dict[CommandQueue, list[_IssuedJob]] = {queue: [] for queue in CommandQueue}

    def advance_until(self, queue: CommandQueue, outstanding: int) -> None:
        while len(self.queues[queue]) > outstanding:
            self._advance()

    def _advance(self) -> None:
        running = [jobs for jobs in self.queues.values() if jobs]
        slower = _slowdown([jobs[0].job for jobs in running])
        passed = min(jobs[0].remaining_cycles for jobs in running)
        self.now += passed * slower
        for jobs in running:
            jobs[0].remaining_cycles -= passed
            if jobs[0].remaining_cycles < NEARLY_DONE:
                del jobs[0]


def _slowdown(jobs: list[Job]) -> float:
    """The factor, at least 1, by which jobs that run at the same time slow each other down."""
    # A job that occupies a port in 3 of 4 cycles demands 0.75 of its bandwidth.  The factor is the
    # total demand on the more demanded of the two ports: 1.5 for two such jobs.
    if len(jobs) == 1:
        return 1.0
    features = sum(job.features / job.cycles for job in jobs if job.cycles)
    constants = sum(job.constants / job.cycles for job in jobs if job.cycles)
    return max(1.0, features, constants)
