"""The stage `schedule`: searches for schedules with different trade-offs of memory and cycles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from penstock.backends.engines import Engines
from penstock.backends.portable import Processor
from penstock.hardware.target import Target
from penstock.pipeline.banding import banded_cascade
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.cascades.search import find_frontier, find_schedules
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options


def schedule(parts: Parts, target: Target, options: Options) -> Frontier:
    """Return the schedules that may be Pareto-optimal (see `scheduling/cascades/search.py`)."""
    model, memories = _cost_model_and_memories(target)
    return find_frontier(parts, model, memories, options, band_source(target))


def least_memory_first(parts: Parts, target: Target, options: Options) -> Iterator[Schedule]:
    """Yield the schedules of `schedule` in ascending order of peak live bytes.

    Their costs are computed on demand.
    """
    model, memories = _cost_model_and_memories(target)
    return find_schedules(parts, model, memories, options, bands=band_source(target))


def band_source(target: Target) -> BandSource:
    """Return the function that creates the bands of cascades in bands of columns for a target."""
    model, memories = _cost_model_and_memories(target)
    return partial(banded_cascade, target, model, memories)


def _cost_model_and_memories(target: Target) -> tuple[Engines, MemorySystem]:
    processor = target.engines[0]
    memories = MemorySystem(
        target.memories_for("arena"), target.memory_for("constant"), processor, target.copier
    )
    return Engines(Processor(processor)), memories
