"""What each memory holds and what each engine does over one inference, as report.json has it.

    bytes ^  +--+                       Span: a tensor or scratch buffer. Piece: bytes of a span
          |  |b1+--+                    with one live range; a span that is live as a whole is
          |  +--+b2+--+   +-----+       one piece, otherwise its pieces are rows. Stretch: a
          | a   +--+b3|   |  c  |       cascade or a single layer, and its ticks.
          |     |  +--+   +-----+
          +-----+------------------> ticks

Tick 0 is the caller writing the inputs. Each kernel call is one tick. In the last tick, the caller
reads the outputs. `scheduling/simulate/` uses the same ticks.

    processor   ####        #########      #: computes
    accelerator     ....####               .: waits for a prefetch
                +------------------> cycles

The cycles of a layer are exact; those of its calls are in proportion to the rows that they compute,
because the cost model does not divide the cost of a layer further.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.brief import Brief
from penstock.program.program import Kind, Program, Rows
from penstock.program.steps import walk, written_views
from penstock.reports.steps import costed_steps, numbered_steps
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    placement_problems,
    scratch_name,
)

Numbers = npt.NDArray[np.int64]


class LivePiece(NamedTuple):
    """Bytes [lower_byte, upper_byte) in ticks [born, dead)."""

    lower_byte: int
    upper_byte: int
    born: int
    dead: int

    @property
    def size_bytes(self) -> int:
        return self.upper_byte - self.lower_byte


@dataclass(frozen=True, slots=True, repr=False)
class MemorySpan(Brief):
    """The bytes of a tensor, scratch buffer or copied constant.

    `layers` names the layers that write a tensor; it is empty for other buffers and for inputs.
    `by_rows` tells that its rows have live ranges or places of their own; `pieces` are as few
    rectangles as cover them.
    """

    name: str
    kind: str
    pieces: tuple[LivePiece, ...]
    layers: tuple[str, ...] = ()
    by_rows: bool = False

    @property
    def upper_byte(self) -> int:
        return max(piece.upper_byte for piece in self.pieces)

    @property
    def dead(self) -> int:
        return max(piece.dead for piece in self.pieces)

    @property
    def most_bytes(self) -> int:
        """Maximum number of bytes that are live at one tick."""
        return int(_live(self.pieces, self.dead + 1).max())


@dataclass(frozen=True, slots=True)
class Stretch:
    """A cascade, or a layer that runs whole.

    `steps` are the numbers of its first and last step, or None if it has none. `cascade` is the
    index of the cascade, or None for a layer that runs whole.
    """

    layers: int
    calls: int
    steps: tuple[int, int] | None
    cascade: int | None

    @property
    def words(self) -> str:
        """Its steps as a phrase."""
        if self.steps is None:
            return "pull"
        first, last = self.steps
        return f"step {first}" if first == last else f"steps {first}–{last}"


@dataclass(frozen=True, repr=False)
class Timeline(Brief):
    """The contents of one memory over one inference. `memory` is None for the arena.

    The stretches are consecutive.
    """

    spans: tuple[MemorySpan, ...]
    stretches: tuple[Stretch, ...]
    memory: str | None = None

    @property
    def ticks(self) -> int:
        """Number of ticks: one per call, and two of the caller."""
        return 2 + sum(stretch.calls for stretch in self.stretches)

    @cached_property
    def live_bytes(self) -> Numbers:
        """Bytes that are live at each tick."""
        return _live((piece for span in self.spans for piece in span.pieces), self.ticks)

    @property
    def peak_bytes(self) -> int:
        return int(self.live_bytes.max())

    @property
    def peak_tick(self) -> int:
        """First tick at which the live bytes reach their peak."""
        return int(self.live_bytes.argmax())

    @property
    def height_bytes(self) -> int:
        """Highest address in use, in bytes."""
        return max((span.upper_byte for span in self.spans), default=0)


class Activity(Enum):
    """What an engine does."""

    COMPUTES = "computes"
    WAITS = "waits"


@dataclass(frozen=True, slots=True, repr=False)
class EngineSpan(Brief):
    """Cycles [lower, upper) that an engine spends on one activity, for some layers."""

    engine: str
    activity: Activity
    lower_cycles: float
    upper_cycles: float
    layers: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class EngineTimes(Brief):
    """The spans of all engines, and the cycles at which each call begins, followed by the end of
    the last one."""

    spans: tuple[EngineSpan, ...]
    call_cycles: tuple[float, ...]


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


def _live(pieces: Iterable[LivePiece], ticks: int) -> Numbers:
    """The number of live bytes at each tick."""
    table = np.array([(p.born, p.dead, p.size_bytes) for p in pieces], np.int64).reshape(-1, 3)
    change = np.zeros(ticks + 1, np.int64)
    np.add.at(change, table[:, 0], table[:, 2])
    np.add.at(change, table[:, 1], -table[:, 2])
    return np.cumsum(change)[:-1]


def merged_areas(pieces: Iterable[LivePiece]) -> tuple[LivePiece, ...]:
    """Return the area of pieces as few rectangles: pieces that follow each other at the same
    addresses are merged, then rectangles above each other with the same ticks."""
    over_time: list[LivePiece] = []
    for piece in sorted(pieces):
        last = over_time[-1] if over_time else None
        if last is not None and last[:2] == piece[:2] and last.dead == piece.born:
            over_time[-1] = last._replace(dead=piece.dead)
        else:
            over_time.append(piece)
    found: list[LivePiece] = []
    for piece in sorted(over_time, key=lambda p: (p.born, p.dead, p.lower_byte)):
        last = found[-1] if found else None
        if last is not None and last[2:] == piece[2:] and last.upper_byte == piece.lower_byte:
            found[-1] = last._replace(upper_byte=piece.upper_byte)
        else:
            found.append(piece)
    return tuple(found)


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
