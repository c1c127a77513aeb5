"""The stage `schedule`: searches for schedules with different trade-offs of memory and cycles."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.backends.accelerator import Accelerator
from penstock.backends.engines import Engines
from penstock.backends.portable import Processor
from penstock.hardware.target import Target
from penstock.pareto import frontier
from penstock.pipeline.banding import TargetBands
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.cascades.search import find_frontier, find_schedules
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import CASCADES, Options


def schedule(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Frontier:
    """Return the schedules that may be Pareto-optimal (see `scheduling/cascades/search.py`).

    Where access times do not depend on the memory assignment, these include the schedules of
    `parts.alternatives` that no schedule of `parts` dominates.

    accelerators: those that run composites of the parts.
    """
    model, memories = cost_model_and_memories(target)
    bands = band_source(target, accelerators)
    found = find_frontier(parts, model, memories, options, bands).schedules
    if not memories.uniform or options.partition != CASCADES:
        return Frontier(found)
    others: list[Schedule] = []
    for alternative in parts.alternatives:
        known = (*found, *others)
        others += find_frontier(alternative, model, memories, options, bands, known).schedules
    best = frontier((*found, *others), _peak_and_cycles)
    added = [one for one in best if one.assigned_parts.alternative]
    every = sorted((*found, *added), key=lambda one: one.peak_bytes) if added else found
    return Frontier(tuple(every))


def _peak_and_cycles(schedule: Schedule) -> tuple[int, int]:
    return schedule.peak_bytes, schedule.cost.cycles


def least_memory_first(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Iterator[Schedule]:
    """Yield the schedules of `schedule` in ascending order of peak live bytes.

    Their costs are computed on demand.
    """
    model, memories = cost_model_and_memories(target)
    bands = band_source(target, accelerators)
    return find_schedules(parts, model, memories, options, bands=bands)


def band_source(target: Target, accelerators: tuple[Accelerator, ...] = ()) -> BandSource:
    """Return what creates the bands of a cascade or of its chains, for a target.

    accelerators: those that run composites of the network.
    """
    model, memories = cost_model_and_memories(target)
    return TargetBands(target, model, memories, accelerators)


def cost_model_and_memories(target: Target) -> tuple[Engines, MemorySystem]:
    """Return the cost model of a target, and its memories as the search sees them."""
    processor = target.engines[0]
    memories = MemorySystem(
        target.memories_for("arena"), target.memory_for("constant"), processor, target.copier
    )
    return Engines(Processor(processor)), memories
