"""Engine times: what each engine does over one inference, in estimated cycles.

    processor   ####  ##....#########      #: computes, .: waits for a copy
    copy engine       ====                 =: copies a constant
                +------------------> cycles

The cycles of a layer are exact; those of its calls are in proportion to the rows that they compute,
because the cost model does not divide the cost of a layer further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate

from penstock.hardware.target import Target
from penstock.reports.costed_steps import costed_steps
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule


class Activity(Enum):
    """What an engine does."""

    COMPUTES = "computes"
    WAITS = "waits"
    COPIES = "copies"


@dataclass(frozen=True, slots=True)
class EngineSpan:
    """Cycles [lower, upper) that an engine spends on one activity, for some layers."""

    engine: str
    activity: Activity
    lower_cycles: float
    upper_cycles: float
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineTimes:
    """The spans of all engines, and the cycles at which each call begins, followed by the end of
    the last one."""

    spans: tuple[EngineSpan, ...]
    call_cycles: tuple[float, ...]


def engine_times(schedule: Schedule, target: Target) -> EngineTimes:
    """Return the engine times of a schedule."""
    expanded = ExpandedSchedule(schedule)
    spans: list[EngineSpan] = []
    calls: list[float] = []
    now = before = 0.0
    for cascade in expanded.cascades:
        plan, begun = cascade.plan, now
        layers = tuple(step.tensor for step in costed_steps(schedule, cascade))
        waits = plan.copying.cycles + plan.waiting.cycles
        spans += _copies(schedule, plan, target, before, begun)
        durations = list(_durations(schedule, cascade))
        first = schedule.parts.parts[plan.parts[0]]
        if waits:
            name = first.engine
            spans.append(EngineSpan(name, Activity.WAITS, now, now + waits, layers))
        ends = list(accumulate(durations, initial=now + waits))
        calls += [now, *ends[1:-1]]  # the first call begins with the stall
        spans += _computing(schedule, cascade, ends)
        now, before = ends[-1], begun
    for part, cost in zip(schedule.parts.updates, schedule.updating, strict=True):
        spans.append(
            EngineSpan(part.engine, Activity.COMPUTES, now, now + cost.cycles, (part.output.name,))
        )
        now += cost.cycles
    return EngineTimes(tuple(spans), (*calls, now))


def _durations(schedule: Schedule, cascade: ExpandedCascade) -> Iterator[float]:
    """Yield the cycles of each call of a cascade, without stalls."""
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
    """Yield a span for each sequence of consecutive calls on one engine."""
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


def _copies(
    schedule: Schedule, plan: Plan, target: Target, before: float, begun: float
) -> Iterator[EngineSpan]:
    """Yield the copies of the copy engine for a plan, one after the other: early ones begin with
    the previous cascade, at `before`, the others with the plan's own, at `begun`."""
    if target.copier is None:
        return
    end = before
    for copy in sorted(plan.copies, key=lambda copy: not copy.early):
        start = end if copy.early else max(begun, end)
        end = start + _memories(target).copy_cycles(copy.source, copy.target, copy.size_bytes)
        layers = _readers(schedule, plan, copy)
        yield EngineSpan(target.copier.name, Activity.COPIES, start, end, layers)


def _memories(target: Target) -> MemorySystem:
    return MemorySystem(
        target.memories_for("arena"),
        target.memory_for("constant"),
        target.engines[0],
        target.copier,
    )


def _readers(schedule: Schedule, plan: Plan, copy: Prefetch) -> tuple[str, ...]:
    """Return the names of the parts of a plan that read a copied constant."""
    parts = (schedule.parts.parts[k] for k in plan.parts)
    return tuple(
        part.label for part in parts if copy.constant in {value.name for value in part.inputs}
    )
