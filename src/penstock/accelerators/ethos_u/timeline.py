"""timeline: how long a stream of operations and copies takes.

Commands are handed out in order.  One engine runs operations, another one copies, each in the order
in which they begin; a command stays in its queue until it is done.  The stream stops where a queue
is full and where it waits for one.  While an operation runs beside a copy, they share the ports of
the memories: both slow down by as much as the busier port is asked for more than it can give.

`timing` is the only clock there is: costs of calls, and so the search and its reports, and
`benchmarks.ethos_u` for the streams of both compilers, all ask it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from penstock.accelerators.ethos_u.configurations import Configuration
from penstock.accelerators.ethos_u.performance import Cycles

MOST_OPERATIONS = 2
"""Operations under way or queued at the same time."""
NEARLY_DONE = 1e-6
"""Cycles: what is left of a job by rounding alone."""


class Queue(Enum):
    """Who runs a job."""

    OPERATIONS = "operations"
    COPIES = "copies"


class Job(NamedTuple):
    """An operation or a copy: how long it takes alone, and for how many of these cycles it keeps
    the port of the memory of tensors and that of constants busy."""

    queue: Queue
    cycles: float
    features: float
    constants: float


class Wait(NamedTuple):
    """Until at most so many jobs of a queue are not done."""

    queue: Queue
    outstanding: int


Step = Job | Wait


def operation_job(cycles: Cycles, chip: Configuration) -> Job:
    """An operation, of which `cycles` says what it takes in one block; `chip` has the memory that
    the operation reads constants from."""
    (total,), (features,), (constants,) = cycles.total, cycles.features, cycles.constants
    if chip.constants is chip.features:
        constants = 0.0
    return Job(Queue.OPERATIONS, float(total), float(features), float(constants))


def copy_job(chip: Configuration, size_bytes: int) -> Job:
    """A copy of constants into the memory of tensors, or into the NPU."""
    moved = size_bytes / chip.constants.bytes_per_cycle
    taken = chip.constants.read_latency + moved
    if chip.constants is chip.features:
        return Job(Queue.COPIES, taken, moved, 0.0)
    return Job(Queue.COPIES, taken, size_bytes / chip.features.bytes_per_cycle, moved)


def timing(steps: Iterable[Step], chip: Configuration) -> float:
    """Cycles from the first command until every job is done."""
    most = {Queue.OPERATIONS: MOST_OPERATIONS, Queue.COPIES: chip.most_copies}
    clock = _Clock()
    for step in steps:
        if isinstance(step, Wait):
            clock.until(step.queue, step.outstanding)
        else:
            clock.until(step.queue, most[step.queue] - 1)
            clock.queues[step.queue].append(_Begun(step, step.cycles))
    for queue in Queue:
        clock.until(queue, 0)
    return clock.now


@dataclass(slots=True)
class _Begun:
    """A job, and the cycles that it would still take alone."""

    job: Job
    left: float


class _Clock:
    """The time, and the jobs of each queue that are not done, the first of which is under way."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queues: dict[Queue, list[_Begun]] = {queue: [] for queue in Queue}

    def until(self, queue: Queue, outstanding: int) -> None:
        """Goes on until at most so many jobs of a queue are not done."""
        while len(self.queues[queue]) > outstanding:
            self._advance()

    def _advance(self) -> None:
        """To the moment at which the next job is done."""
        running = [jobs for jobs in self.queues.values() if jobs]
        slower = _slower([jobs[0].job for jobs in running])
        passed = min(jobs[0].left for jobs in running)
        self.now += passed * slower
        for jobs in running:
            jobs[0].left -= passed
            if jobs[0].left < NEARLY_DONE:
                del jobs[0]


def _slower(jobs: list[Job]) -> float:
    """By what factor jobs that run at the same time slow each other down."""
    if len(jobs) == 1:
        return 1.0
    features = sum(job.features / job.cycles for job in jobs if job.cycles)
    constants = sum(job.constants / job.cycles for job in jobs if job.cycles)
    return max(1.0, features, constants)
