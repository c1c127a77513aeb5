"""The stage `schedule`: searches for schedules with different trade-offs of memory and cycles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.accelerator import Accelerator
from penstock.backends.processor_parts import Engines, Processor
from penstock.hardware.target import Target
from penstock.optional import attempt
from penstock.pareto import frontier, is_dominated
from penstock.pipeline.banding import TargetBands
from penstock.pipeline.channel_alternatives import NEAR_FLOOR
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.cascades.search import FrontierSearch, frontier_search
from penstock.scheduling.cascades.selection import KNEE, merged, noticeably_faster
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import CASCADES, Options


def schedule(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Frontier:
    """Return the schedules that may be Pareto-optimal (see `scheduling/cascades/search.py`).

    If the target has one memory for tensors, these include the schedules of `parts.alternatives`
    that no schedule of `parts` dominates.

    accelerators: those that run composites of the parts.
    """
    known: list[Schedule] = []
    for search in searches(parts, target, options, known, accelerators):
        known += _found(search, search.schedules)
    return with_alternatives(known)


def schedules_by_rows(search: FrontierSearch) -> Sequence[Schedule]:
    """Return the schedules without recomputation; none if the search is for an alternative and
    fails."""
    return _found(search, search.schedules_by_rows)


def _found(
    search: FrontierSearch, schedules: Callable[[], Iterator[Schedule]]
) -> Sequence[Schedule]:
    """Return the schedules of a search, which may fail if it is for an alternative."""
    if not search.parts.alternative:
        return tuple(schedules())
    return attempt("an alternative", lambda: tuple(schedules()), tuple)


def searches(
    parts: Parts,
    target: Target,
    options: Options,
    known: Sequence[Schedule],
    accelerators: tuple[Accelerator, ...] = (),
) -> Iterator[FrontierSearch]:
    """Yield the search for the schedules of `parts`, then that of each alternative to compare.

    known: the schedules found so far, which the caller extends after each search.
    accelerators: those that run composites of the parts.
    """
    model, memories = cost_model_and_memories(target)
    comparable = len(memories.tensors) == 1 and options.partition == CASCADES
    bands = band_source(target, accelerators)
    rivals: list[tuple[int, int]] = []
    for one in (parts, *(parts.alternatives if comparable else ())):
        if one.is_for_speed and not _is_faster(one, parts, model):
            continue
        if not _is_relevant(one, model, [*rivals, *_by_rows(known)]):
            continue
        limit_bytes = math.inf
        if one.floor_bytes is not None:  # only schedules that recompute may need less memory
            limit_bytes = min(peak for peak, _ in _by_rows(known)) - 1
        search = partial(
            frontier_search, one, model, memories, options, limit_bytes, bands, tuple(known)
        )
        found = attempt("an alternative", search, lambda: None) if one.alternative else search()
        if found is None:
            continue
        rivals += ((p.peak_bytes, found.estimated_cycles(p)) for p in found.below_rows)
        yield found


def _is_relevant(parts: Parts, model: Engines, rivals: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts may have a schedule that is worth its cycles.

    An alternative has none if a rival needs no more than the least memory of its schedules, and
    hardly more cycles than its kernels.  Nor has an alternative to parts that do not limit the
    least memory of the rivals.
    rivals: (live bytes, estimated cycles) of other schedules.
    """
    if parts.floor_bytes is not None:
        return min(peak for peak, _ in rivals) <= NEAR_FLOOR * parts.floor_bytes
    least_bytes = parts.least_row_bytes
    if least_bytes is None:
        return True
    work = sum(map(model.work_cycles, parts.parts))
    return not is_dominated((least_bytes, work * (1 + KNEE)), rivals)


def _is_faster(one: Parts, parts: Parts, model: Engines) -> bool:
    """Return whether the kernels of an alternative take noticeably fewer cycles."""
    own, other = (sum(map(model.work_cycles, each.parts)) for each in (parts, one))
    return noticeably_faster(other, own)


def _by_rows(known: Sequence[Schedule]) -> Iterator[tuple[int, int]]:
    return (_peak_and_cycles(one) for one in known if not one.bands)


def with_alternatives(found: Sequence[Schedule]) -> Frontier:
    """Return schedules as a frontier, with those of alternatives that no other one dominates."""
    saving = [one for one in found if not one.assigned_parts.is_for_speed]
    paces = [_peak_and_cycles(one) for one in merged(saving, _peak_and_cycles)]
    best = frontier((_with_pace(one, paces) for one in found), _peak_and_cycles)
    own = [one for one in found if not one.assigned_parts.alternative]
    added = [one for one in best if one.assigned_parts.alternative]
    every = sorted((*own, *added), key=lambda one: one.peak_bytes) if added else own
    return Frontier(tuple(every))


def _with_pace(schedule: Schedule, paces: Sequence[tuple[int, int]]) -> Schedule:
    """Return a schedule of an alternative for speed with the least cycles for its memory.

    paces: (live bytes, cycles) of schedules of other parts, in ascending order of bytes."""
    if not schedule.assigned_parts.is_for_speed:
        return schedule
    slower = [cycles for peak, cycles in paces if peak <= schedule.peak_bytes]
    return replace(schedule, pace_cycles=slower[-1]) if slower else schedule


def _peak_and_cycles(schedule: Schedule) -> tuple[int, int]:
    return schedule.peak_bytes, schedule.cost.cycles


def least_memory_first(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Iterator[Schedule]:
    """Yield the schedules of `schedule` in ascending order of peak live bytes.

    Their costs are computed on demand.
    """
    model, memories = cost_model_and_memories(target)
    search = frontier_search(
        parts, model, memories, options, bands=band_source(target, accelerators)
    )
    return search.schedules()


def band_source(target: Target, accelerators: tuple[Accelerator, ...] = ()) -> BandSource:
    """Return what creates the bands of a cascade or of its chains, for a target.

    accelerators: those that run composites of the network.
    """
    model, memories = cost_model_and_memories(target)
    return TargetBands(target, model, memories, accelerators)


def cost_model_and_memories(target: Target) -> tuple[Engines, MemorySystem]:
    """Return the cost model of a target, and its memories as the search sees them."""
    processor = target.engines[0]
    memories = MemorySystem(target.memories_for("arena"), target.memory_for("constant"), processor)
    return Engines(Processor(processor)), memories
