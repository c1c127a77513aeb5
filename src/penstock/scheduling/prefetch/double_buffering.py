"""Double buffering: prefetches by the copy engine that overlap with the previous cascade.

A prefetch is early if its copy starts one cascade before the reading cascade, the one that reads
the constant.  The time that an early prefetch saves depends on how the reading cascade would obtain
the constant otherwise:

- If a copy starts when the reading cascade begins, the early prefetch saves the stall of this copy.
- If every call reads the constant from slow memory, the early prefetch saves the additional time of
  these reads, minus the setup time of the copy engine.

The selection is greedy.  For each cascade, constants are considered in descending order of the time
saved.  A constant is prefetched early if the copy ends before the previous cascade does, and if the
target region has room for the copy during the previous cascade and the reading one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.hardware.target import MemoryRegion
from penstock.ir.graph import Value
from penstock.memory.problem import LiveBuffer, columns
from penstock.scheduling.model.memories import FILL, FINE, MemorySystem
from penstock.scheduling.model.prefetch import Prefetch, PrefetchStart
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    SCRATCH_ALIGNMENT_BYTES,
    placement_problems,
    prefetch_name,
)

FILLS = (FILL, 0.7, 0.5)
"""Shares of a memory region that live bytes may occupy; a fuller region is harder to place."""


def with_double_buffering(schedule: Schedule, memories: MemorySystem, fill: float) -> Schedule:
    """Return a schedule with additional early prefetches by the copy engine.

    An early copy starts in the cascade before the one that reads the copy, and overlaps with the
    calls of that cascade.  Its target is any of the memory regions for tensors except the default
    one.
    schedule: a schedule with costs; the costs of the result are not updated.
    fill: maximum share of a memory region that live bytes may occupy, in (0, 1].
    """
    for memory in memories.tensors[1:]:
        room = _Room(schedule, memories, memory, fill)
        plans = list(schedule.plans)
        cascades = ExpandedSchedule(schedule).cascades
        for k in range(1, len(plans)):
            before, cascade = cascades[k - 1], cascades[k]
            copies = plans[k].copies
            kept = [c for c in copies if c.target != memory.name or c.early]
            late = [c for c in copies if c.target == memory.name and not c.early]
            names = {c.constant for c in late}
            early = room.prefetch(before, cascade, plans[k - 1].cost.cycles, names)
            moved = {copy.constant for copy in early}
            still_late = [copy for copy in late if copy.constant not in moved]
            plans[k] = plans[k].with_copies((*kept, *still_late, *early))
        schedule = replace(schedule, plans=tuple(plans))
    return schedule


@dataclass(frozen=True, slots=True)
class _Saving:
    """The time that a cascade saves if a constant is copied during the previous cascade.

    time: in units of 1/1024 cycle.
    """

    constant: Value
    time: int


class _Room:
    """Selects constants that are copied to one memory region a cascade before they are read.

    The object knows the live ranges of all buffers in the region, those of the selected copies
    included, and so whether a further copy fits.
    memory: the region.
    fill: maximum share of the region that live bytes may occupy, in (0, 1].
    """

    def __init__(
        self, schedule: Schedule, memories: MemorySystem, memory: MemoryRegion, fill: float
    ) -> None:
        self._schedule, self._memories, self._memory = schedule, memories, memory
        self._limit_bytes = int(memory.size_bytes * fill)
        found = dict(placement_problems(ExpandedSchedule(schedule))).get(memory.name)
        self._buffers = {b.name: b for b in found.buffers} if found is not None else {}

    def prefetch(
        self, before: ExpandedCascade, cascade: ExpandedCascade, cycles: int, late: set[str]
    ) -> tuple[Prefetch, ...]:
        """Return prefetches for `cascade` that run during `before`, and reserve their buffers.

        before: the previous cascade.
        cycles: cycles of the previous cascade, during which copies can run.
        late: names of the constants that `cascade` copies to this region when it begins; they may
            be copied earlier instead.
        """
        found: list[Prefetch] = []
        memory, start = self._schedule.memory, PrefetchStart.PREVIOUS_CASCADE
        for saving in sorted(self._savings(cascade, late), key=lambda s: -s.time):
            copy = Prefetch.by_copy_engine(saving.constant, self._memory.name, memory, start)
            duration = self._memories.copy_cycles(copy.source, copy.target, copy.size_bytes)
            name = prefetch_name(self._schedule, copy)
            buffer = LiveBuffer(
                name, before.tick, cascade.end, copy.size_bytes, SCRATCH_ALIGNMENT_BYTES
            )
            if saving.time > 0 and duration <= cycles and self._fits(buffer):
                self._buffers[name] = buffer
                cycles -= duration
                found.append(copy)
        return tuple(found)

    def _savings(self, cascade: ExpandedCascade, late: set[str]) -> Iterator[_Saving]:
        """Yield the constants that may be copied during the previous cascade, with the time saved.

        Three kinds of constants are excluded: those that the cascade prefetches to another region,
        those whose copies already start in the previous cascade, and `Parts.shared_constants`.
        late: names of the constants that the cascade's plan already copies to this region, but
            only when the cascade begins.
        """
        copier = self._memories.copier
        assert copier is not None
        source, target = self._memories.constants.name, self._memory.name
        order = self._schedule.order
        shared = self._schedule.parts.shared_constants
        elsewhere = {c.constant for c in cascade.plan.copies} - late
        for position, count in zip(
            *np.unique(cascade.calls[:, 0], return_counts=True), strict=True
        ):
            part = self._schedule.parts.parts[order[int(position)]]
            for value in part.constants:
                if value.name in elsewhere or value.name in shared:
                    continue
                slow, fast = (
                    np.array(self._memories.constant_reads(memory, part, value), np.int64)
                    for memory in (source, target)
                )
                time = int((slow - fast) @ (1, count - 1)) - FINE * copier.setup_cycles
                if value.name in late:
                    size = value.type.size_bytes
                    time = FINE * self._memories.copy_cycles(source, target, size)
                yield _Saving(value, time)

    def _fits(self, buffer: LiveBuffer) -> bool:
        """Return whether a further buffer fits into the region during its whole live range."""
        others = tuple(b for b in self._buffers.values() if b.name != buffer.name)
        lower, upper, sizes, _ = columns((*others, buffer))
        ticks = np.unique(np.clip(lower, buffer.lower, buffer.upper - 1))
        live = (lower <= ticks[:, None]) & (ticks[:, None] < upper)
        return int((live @ sizes).max()) <= self._limit_bytes
