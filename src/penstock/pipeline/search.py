"""The stage `schedule`: search for schedules that trade memory for cycles."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.backends.engines import Engines
from penstock.backends.portable import Processor
from penstock.hardware.target import Target
from penstock.scheduling.cascades.search import find_frontier, find_schedules
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options


def schedule(parts: Parts, target: Target, options: Options) -> Frontier:
    """Search all candidate schedules; see `scheduling.cascades`."""
    return find_frontier(parts, *_cost_model_and_memories(target), options)


def least_memory_first(parts: Parts, target: Target, options: Options) -> Iterator[Schedule]:
    """The same schedules in ascending order of peak live bytes, each searched for on demand."""
    return find_schedules(parts, *_cost_model_and_memories(target), options)


def _cost_model_and_memories(target: Target) -> tuple[Engines, MemorySystem]:
    processor = target.engines[0]
    memories = MemorySystem(
        target.memories_for("arena"), target.memory_for("constant"), processor, target.copier
    )
    return Engines(Processor(processor)), memories
