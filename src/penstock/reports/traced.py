"""Timelines, and the times of engines, made from a schedule and its program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise

import numpy as np

from penstock.program.program import Kind, Program, Rows
from penstock.program.steps import walk, written_views
from penstock.reports.steps import costed_steps, numbered_steps
from penstock.reports.timeline import (
    Activity,
    EngineSpan,
    EngineTimes,
    LivePiece,
    MemorySpan,
    Numbers,
    Stretch,
    Timeline,
    merged_areas,
)
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    placement_problems,
    scratch_name,
)


def timelines(schedule: Schedule, program: Program) -> tuple[Timeline, ...]:
    """Return the timelines of a lowered schedule: of the arena, then of other memories."""
    expanded = ExpandedSchedule(schedule)
    memories = {buffer.name: buffer.memory for buffer in program.buffers}
    arena, *_ = program.ram()  # it also holds the arenas of bands, which are not buffers
    spans = (*_tensors(expanded, program), *_others(expanded, program))
    stretches = tuple(_stretches(expanded, program))
    return tuple(
        Timeline(
            tuple(span for span in spans if memories.get(span.name, arena.name) == memory.name),
            stretches,
            memory.name if k else None,
        )
        for k, memory in enumerate(program.ram())
    )


def _stretches(expanded: ExpandedSchedule, program: Program) -> Iterator[Stretch]:
    schedule = expanded.schedule
    layers = iter(numbered_steps(schedule, program))
    for found in expanded.cascades:
        own = list(islice(layers, len(costed_steps(schedule, found))))
        numbers = [layer.number for layer in own if layer.number is not None]
        yield Stretch(
            len(own),
            len(found.calls),
            (min(numbers), max(numbers)) if numbers else None,
            own[0].cascade,
        )


def _tensors(expanded: ExpandedSchedule, program: Program) -> Iterator[MemorySpan]:
    buffers = {buffer.name: buffer for buffer in program.buffers}
    commands = (*program.reset, *walk(program.run))
    every = (*program.inputs, *(view for c in commands for view in written_views(c)))
    views = {view.tensor: view for view in every}
    lives, ends, writers = expanded.live_ranges, _ends(expanded), _writers(expanded.schedule)
    for s, storage in enumerate(expanded.schedule.parts.rows.storages):
        if not storage.row_bytes:
            continue
        buffer = buffers[storage.name]
        rows = slice(int(lives.starts[s]), int(lives.starts[s]) + storage.slots)
        places = buffer.address + _offsets(views[storage.name].rows, storage.slots)
        found = tuple(_pieces(places, lives.born[rows], ends[rows], storage.row_bytes))
        yield MemorySpan(
            storage.name,
            buffer.kind.value,
            merged_areas(found),
            writers[storage.name],
            by_rows=len(found) > 1,
        )


def _writers(schedule: Schedule) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for part in schedule.steps:
        found[schedule.parts.owners[part.output.name]] += (part.name,)
    return found


def _offsets(rows: Rows, count: int) -> Numbers:
    if rows.table is not None:
        return np.array(rows.table, np.int64)
    return np.arange(count) % rows.ring * rows.pitch


def _ends(expanded: ExpandedSchedule) -> Numbers:
    """The tick at which the bytes of each row are released: the row is dead, or overwritten
    in place."""
    lives = expanded.live_ranges
    ends = lives.dead.copy()
    for s in range(len(lives.starts) - 1):
        mine = np.arange(lives.starts[s], lives.starts[s + 1])
        mine = mine[lives.over[mine] >= 0]
        below = lives.starts[lives.over[mine]] + mine - lives.starts[s]
        ends[below] = np.minimum(ends[below], lives.born[mine])
    return ends


def _pieces(places: Numbers, born: Numbers, dead: Numbers, row_bytes: int) -> Iterator[LivePiece]:
    follows = (np.diff(places) == row_bytes) & (np.diff(born) == 0) & (np.diff(dead) == 0)
    bounds = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(places)]
    for first, end in pairwise(bounds):
        lower = int(places[first])
        upper = lower + (end - first) * row_bytes
        yield LivePiece(lower, upper, int(born[first]), int(dead[first]))


def _others(expanded: ExpandedSchedule, program: Program) -> Iterator[MemorySpan]:
    buffers = {buffer.name: buffer for buffer in program.buffers}
    schedule = expanded.schedule
    banded = _banded_tensors(schedule)
    for life in (life for _, problem in placement_problems(expanded) for life in problem.buffers):
        buffer = buffers.get(life.name)
        if buffer is not None and buffer.kind is Kind.SCRATCH:
            end = buffer.address + buffer.size_bytes
            piece = LivePiece(buffer.address, end, life.lower, life.upper)
            yield MemorySpan(life.name, Kind.SCRATCH.value, (piece,))
        elif life.name in banded:  # its buffers are those of the bands, one band after the other
            lower = min(buffers[name].address for name in banded[life.name] if name in buffers)
            piece = LivePiece(lower, lower + life.size_bytes, life.lower, life.upper)
            yield MemorySpan(life.name, Kind.SCRATCH.value, (piece,))


def _banded_tensors(schedule: Schedule) -> Mapping[str, frozenset[str]]:
    """The tensors of the bands of each cascade in bands, by name of the cascade's scratch
    memory, which is their arena."""
    return {
        scratch_name(schedule, plan): frozenset(
            (
                *(section.value for band in bands.bands for section in band.sections),
                *(kept.tensor for kept in bands.kept),
            )
        )
        for plan in schedule.plans
        if (bands := schedule.find_bands(schedule.parts.parts[plan.parts[0]])) is not None
    }


def engine_times(schedule: Schedule) -> EngineTimes:
    expanded = ExpandedSchedule(schedule)
    spans: list[EngineSpan] = []
    calls: list[float] = []
    now = 0.0
    for cascade in expanded.cascades:
        plan = cascade.plan
        layers = tuple(step.tensor for step in costed_steps(schedule, cascade))
        waits = plan.waiting.cycles
        durations = list(_durations(schedule, cascade))
        first = schedule.parts.parts[plan.parts[0]]
        if waits:
            name = first.engine
            spans.append(EngineSpan(name, Activity.WAITS, now, now + waits, layers))
        ends = list(accumulate(durations, initial=now + waits))
        calls += [now, *ends[1:-1]]  # the first call begins with the stall
        spans += _computing(schedule, cascade, ends)
        now = ends[-1]
    for part, cost in zip(schedule.parts.updates, schedule.updating, strict=True):
        spans.append(
            EngineSpan(part.engine, Activity.COMPUTES, now, now + cost.cycles, (part.output.name,))
        )
        now += cost.cycles
    return EngineTimes(tuple(spans), (*calls, now))


def _durations(schedule: Schedule, cascade: ExpandedCascade) -> Iterator[float]:
    """The cycles of each call of a cascade, without stalls."""
    plan = cascade.plan
    rows = [0] * len(plan.parts)
    calls: list[tuple[int, int]] = [
        (position - cascade.lower, end - first)
        for position, first, end in cascade.calls[:, :3].tolist()
    ]
    for k, height in calls:
        rows[k] += height
    for k, height in calls:
        yield plan.costs[k].cycles * height / rows[k]


def _computing(
    schedule: Schedule, cascade: ExpandedCascade, ends: Sequence[float]
) -> Iterator[EngineSpan]:
    parts, plan = schedule.parts.parts, cascade.plan
    last: EngineSpan | None = None
    for call, position in enumerate(cascade.calls[:, 0].tolist()):
        k = plan.parts[position - cascade.lower]
        names = (
            tuple(step.tensor for step in costed_steps(schedule, cascade))
            if schedule.find_bands(parts[k]) is not None
            else (parts[k].name,)
        )
        if last is not None and last.engine == parts[k].engine:
            merged = tuple(dict.fromkeys((*last.layers, *names)))
            last = replace(last, upper_cycles=ends[call + 1], layers=merged)
            continue
        if last is not None:
            yield last
        last = EngineSpan(
            parts[k].engine, Activity.COMPUTES, ends[call], ends[call + 1], tuple(names)
        )
    if last is not None:
        yield last


def live_bytes(schedule: Schedule, arena: Timeline) -> Mapping[str, int]:
    """Return the maximum of the live bytes in the calls that compute each tensor, by name.

    A call of a chain computes all tensors of the chain.
    """
    found: defaultdict[str, int] = defaultdict(int)
    for cascade in ExpandedSchedule(schedule).cascades:
        for call, position in enumerate(cascade.calls[:, 0].tolist()):
            part = schedule.parts.parts[cascade.plan.parts[position - cascade.lower]]
            bands = schedule.find_bands(part)
            sections = () if bands is None else (s for b in bands.bands for s in b.sections)
            names = {part.name} if bands is None else {section.tensor for section in sections}
            live = int(arena.live_bytes[cascade.tick + call])
            for name in names:
                found[name] = max(found[name], live)
    return found
