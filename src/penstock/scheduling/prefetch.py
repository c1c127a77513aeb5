"""prefetch: double buffering of constants: fetch them while the cascade before runs.

A processor that waits for nothing spares what reading a constant in its slow memory adds to every
call, and where the constant was copied anyway, the wait for the copy.  Greedy: cascade by cascade,
the constant that spares most first, as long as there is room in the other memory during both
cascades and the copier is done before the first one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.hardware.target import MemoryRegion
from penstock.memory.problem import Buffer, columns
from penstock.scheduling.lifetimes import Cascade, Unfolded, copy_name, problems
from penstock.scheduling.memories import FINE, Memories
from penstock.scheduling.plan import ConstantCopy
from penstock.scheduling.regions import FILL, reading
from penstock.scheduling.schedule import Schedule

FILLS = (FILL, 0.7, 0.5)
"""How much of a memory may be alive where something more is fetched: what is full of live bytes has
no room for addresses, so several are tried."""


def prefetched(schedule: Schedule, memories: Memories, fill: float) -> Schedule:
    """The schedule with constants fetched early, into every memory but the first, as long as no
    more than `fill` of it is alive; its plans must be costed."""
    for memory in memories.tensors[1:]:
        room = _Room(schedule, memories, memory, fill)
        plans = list(schedule.plans)
        cascades = Unfolded(schedule).cascades
        for k in range(1, len(plans)):
            before, cascade = cascades[k - 1], cascades[k]
            kept = [c for c in plans[k].copies if c.memory != memory.name or c.early]
            late = {c.constant for c in plans[k].copies if c.memory == memory.name and not c.early}
            early = room.fetch(before, cascade, plans[k - 1].cost.cycles, late)
            fetched = {copy.constant for copy in early}
            again = [c for c in plans[k].copies if c.constant in late - fetched]
            plans[k] = replace(plans[k], copies=(*kept, *again, *early))
        schedule = replace(schedule, plans=tuple(plans))
    return schedule


@dataclass(frozen=True, slots=True)
class _Constant:
    """A constant of a cascade, and the fine units of time that fetching it early spares."""

    name: str
    size_bytes: int
    spared: int


class _Room:
    """What is alive in a memory, as more and more is fetched into it."""

    def __init__(
        self, schedule: Schedule, memories: Memories, memory: MemoryRegion, fill: float
    ) -> None:
        self._schedule, self._memories, self._memory = schedule, memories, memory
        self._limit_bytes = int(memory.size_bytes * fill)
        found = dict(problems(Unfolded(schedule))).get(memory.name)
        self._buffers = {b.name: b for b in found.buffers} if found is not None else {}

    def fetch(
        self, before: Cascade, cascade: Cascade, cycles: int, late: set[str]
    ) -> tuple[ConstantCopy, ...]:
        """The constants of a cascade to be fetched while the one before runs for so many cycles;
        `late`: those that are copied so far when it begins."""
        found: list[ConstantCopy] = []
        constants = self._memories.constants.name
        for constant in sorted(self._constants(cascade, late), key=lambda c: -c.spared):
            size = constant.size_bytes
            copy = ConstantCopy(constant.name, size, self._memory.name, True)
            busy = self._memories.copy_cycles(constants, self._memory.name, size)
            name, end = copy_name(self._schedule, copy), cascade.tick + len(cascade.calls)
            buffer = Buffer(name, before.tick, end, size, 16)
            if constant.spared > 0 and busy <= cycles and self._fits(buffer):
                self._buffers[name] = buffer
                cycles -= busy
                found.append(copy)
        return tuple(found)

    def _constants(self, cascade: Cascade, late: set[str]) -> Iterator[_Constant]:
        copier = self._memories.copier
        assert copier is not None
        constants = self._memories.constants.name
        order = self._schedule.order
        elsewhere = {c.constant for c in cascade.plan.copies} - late
        for position, count in zip(
            *np.unique(cascade.calls[:, 0], return_counts=True), strict=True
        ):
            part = self._schedule.parts.parts[order[int(position)]]
            for value in part.constants:
                size = value.type.size_bytes
                if value.name in elsewhere:
                    continue
                ends = (constants, self._memory.name)
                slow, fast = (reading(self._memories, m, part, value) for m in ends)
                waits = int((slow - fast) @ (1, count - 1))
                spared = waits - FINE * copier.setup_cycles
                if value.name in late:
                    spared = FINE * self._memories.copy_cycles(constants, self._memory.name, size)
                yield _Constant(value.name, size, spared)

    def _fits(self, buffer: Buffer) -> bool:
        """Whether there is room for one buffer more, as long as it lives."""
        others = tuple(b for b in self._buffers.values() if b.name != buffer.name)
        lower, upper, sizes, _ = columns((*others, buffer))
        ticks = np.unique(np.clip(lower, buffer.lower, buffer.upper - 1))
        alive = (lower <= ticks[:, None]) & (ticks[:, None] < upper)
        return int((alive @ sizes).max()) <= self._limit_bytes
