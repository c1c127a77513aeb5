"""ExpandedSchedule: a schedule call by call, with the live ranges of its memory blocks.

A memory block is a unit to which the placement assigns an address.  It consists of rows of one
storage (the memory of a tensor and its aliases):

- If all rows of the storage have the same live range, they form a single block.
- Otherwise, if the storage must be contiguous, each interval of rows with the same live range is a
  block.  The placement keeps these blocks at fixed distances from each other.
- Otherwise, each row is a block.

A row that overwrites a row of another storage belongs to the block of the overwritten row.

`placement_problems` states the buffers to be placed in each memory region: these blocks, prefetched
constants and scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from penstock.frozen import frozen
from penstock.ir.graph import Value, free_name
from penstock.memory.even_rows import Series
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.scheduling.model.access import Storage
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan, Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, row_stripes, whole_tensor
from penstock.scheduling.simulate.row_tables import (
    Numbers,
    RowTables,
    row_tables,
    with_whole_requests,
)
from penstock.scheduling.simulate.walk import WHOLE, RowLiveRanges, expand, row_live_ranges


@dataclass(frozen=True)
class ExpandedCascade:
    """A cascade (parts that run interleaved) with its sequence of calls.

    parts: all parts of the schedule, to which the plan refers.
    lower, upper: the cascade consists of the parts at positions [lower, upper) of the schedule.
    tick: tick at which the first call runs; call k of the schedule runs at tick k + 1.
    calls[i]: (position of the part, first row, end row, position of the part that requested the
        rows) of call i.
    """

    parts: Parts
    plan: Plan
    lower: int
    upper: int
    tick: int
    calls: Numbers

    @property
    def end(self) -> int:
        """The tick (unit of time, one per call) after the last call."""
        return self.tick + len(self.calls)

    @cached_property
    def first_part(self) -> int:
        """The part that the first call computes, as an index in `Parts.parts`."""
        return self.plan.parts[int(self.calls[0, 0]) - self.lower]

    @cached_property
    def first_rows(self) -> int:
        """The number of rows that the first call computes."""
        return int(self.calls[0, 2] - self.calls[0, 1])

    @cached_property
    def stripes(self) -> tuple[Stripes, ...]:
        """The stripes in which each part computes its output, one per call.

        One entry per part, in the order of the plan.
        """
        return tuple(map(self._part_stripes, range(len(self.plan.parts))))

    def _part_stripes(self, index: int) -> Stripes:
        """Return the stripes of a part, given by its `index` in `Plan.parts`."""
        k = self.plan.parts[index]
        shape = self.parts.parts[k].output.shape
        if self.parts.rows.row_parts[k].whole:
            return (whole_tensor(shape),)
        mine = self.calls[self.calls[:, 0] == self.lower + index]
        return row_stripes(shape, mine[:, 1:3].tolist())


@frozen
class MemoryBlock:
    """Rows [lower, upper) of a storage, which are live in ticks [born, dead).

    storage: name of the storage, the memory of a tensor and its aliases.

    Call k of the schedule runs at tick k + 1; inputs are written at tick 0, outputs are read at the
    last tick.
    """

    storage: str
    lower: int
    upper: int
    born: int
    dead: int


@dataclass(frozen=True)
class ExpandedSchedule:
    """A schedule expanded into single calls.

    Time is counted in ticks, one per call: at tick 0 the application writes the inputs, at tick
    k + 1 call k runs, and at the last tick the application reads the outputs.
    """

    schedule: Schedule

    @cached_property
    def tables(self) -> RowTables:
        """Arrays that describe which rows each part reads, for plans with `nearest_first` False.

        `Plan.nearest_first` only changes the order in which the arrays list the inputs of a part.
        So this property also serves where the order is irrelevant; otherwise, use `tables_for`.
        """
        return self._tables(nearest_first=False)

    @cached_property
    def _nearest_first_tables(self) -> RowTables:
        return self._tables(nearest_first=True)

    def tables_for(self, plan: Plan) -> RowTables:
        """Return the arrays that describe which rows each part reads (`RowTables`), for a plan.

        They list the inputs of each part in the order in which the plan computes missing rows of
        these inputs (`Plan.nearest_first`), and state how many it computes in a call.
        """
        found = self._nearest_first_tables if plan.nearest_first else self.tables
        return with_whole_requests(found) if plan.whole_requests else found

    def storage_owner(self, value: Value) -> Value | None:
        """Return the tensor in whose memory `value` is stored; None if `value` is a constant.

        For an alias, this is the tensor whose bytes it shares.  For a value with memory of its own,
        it is the value itself.
        """
        name = self._owners.get(value.name)
        return None if name is None else self._values[name]

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return self.schedule.parts.owners

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return {value.name: value for value in self.schedule.parts.graph.variables()}

    @cached_property
    def cascades(self) -> tuple[ExpandedCascade, ...]:
        """Every plan with its calls, in execution order."""
        found: list[ExpandedCascade] = []
        lower, tick = 0, 1
        for plan in self.schedule.plans:
            upper = lower + len(plan.parts)
            calls = expand(self.tables_for(plan), lower, upper, plan.stripe or WHOLE)
            found.append(ExpandedCascade(self.schedule.parts, plan, lower, upper, tick, calls))
            lower, tick = upper, found[-1].end
        return tuple(found)

    @cached_property
    def stripes(self) -> tuple[Stripes, ...]:
        """The stripes in which each part computes its output, by position in the schedule."""
        return tuple(stripes for cascade in self.cascades for stripes in cascade.stripes)

    @cached_property
    def live_ranges(self) -> RowLiveRanges:
        """Live range of each row, in ticks (one per kernel call)."""
        cascades = [(c.lower, c.upper, c.calls) for c in self.cascades]
        return row_live_ranges(self.tables, cascades, self.region_numbers)

    @cached_property
    def region_numbers(self) -> Numbers:
        """Index of the memory region of each storage; 0 is the default region."""
        storages = self.schedule.parts.rows.storages
        return self.schedule.memory.region_numbers([storage.name for storage in storages])

    @cached_property
    def row_blocks(self) -> tuple[Numbers, Numbers]:
        """The storage that owns the memory of each row, and when that memory becomes free.

        Two arrays (owner, dead), in which row r of storage s has index `live_ranges.starts[s]` + r.
        owner: index of a storage.  It is s, unless the row overwrites row r of another storage in
            place; then it is the owner of the overwritten row.
        dead: tick (one per call) at which the memory becomes free; meaningless if the owner is not
            s.
        """
        rows, ranges = self.schedule.parts.rows, self.live_ranges
        owner = np.repeat(np.arange(len(rows.storages)), self.tables.rows)
        dead = ranges.dead.copy()
        for position in range(len(self.tables.written)):  # owners of overwritten rows come earlier
            written = int(self.tables.written[position])
            mine = np.arange(ranges.starts[written], ranges.starts[written + 1])
            mine = mine[ranges.over[mine] >= 0]
            over = ranges.over[mine]
            owner[mine] = owner[ranges.starts[over] + mine - ranges.starts[written]]
            slot = ranges.starts[owner[mine]] + mine - ranges.starts[written]
            dead[slot] = np.maximum(dead[slot], ranges.dead[mine])
        return owner, dead

    @cached_property
    def block_table(self) -> Numbers:
        """All memory blocks as a table, storage by storage.

        One row per block: (index of the storage, first row, end row, first live tick, end tick).
        A tick is the time of one kernel call; the block is dead from its end tick on.
        A queue (the last rows of a sequence, kept between runs) is a single block, its ring.  The
        storage of its new rows has no block, because these rows are part of the ring.
        """
        storages = self.schedule.parts.rows.storages
        owner, dead = self.row_blocks
        starts, born = self.live_ranges.starts, self.live_ranges.born
        storage = np.repeat(np.arange(len(storages)), np.diff(starts))
        keys = np.stack([owner == storage, born, dead])
        first = np.append(True, storage[1:] != storage[:-1])
        change = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)) & ~first
        changes = np.bincount(storage[change], minlength=len(storages)) > 0
        by_row = changes & ~np.array([storage.contiguous for storage in storages], np.bool_)
        begins = np.flatnonzero(first | change | by_row[storage])
        s, ends = storage[begins], np.append(begins[1:], len(storage))
        rows = begins - starts[s], ends - starts[s]
        has_memory = np.array([storage.row_bytes > 0 for storage in storages], np.bool_)
        placed = (owner[begins] == s) & has_memory[s]
        return np.stack([s, *rows, born[begins], dead[begins]], axis=1)[placed]

    @cached_property
    def block_names(self) -> tuple[str, ...]:
        """The name under which the placement lists each block of `block_table`.

        A block that contains all rows of a storage has the name of the storage.  A block of only
        rows [first, end) is named "storage[first:end]", with a number appended if a value has this
        name.
        """
        storages = self.schedule.parts.rows.storages
        return tuple(
            _rows_name(self.schedule, storages[s], lower, upper)
            for s, lower, upper, _, _ in self.block_table.tolist()
        )

    def blocks(self) -> Iterator[MemoryBlock]:
        """Yield all memory blocks, storage by storage."""
        storages = self.schedule.parts.rows.storages
        for s, *rows_and_ticks in self.block_table.tolist():
            yield MemoryBlock(storages[s].name, *rows_and_ticks)

    def _tables(self, *, nearest_first: bool) -> RowTables:
        schedule = self.schedule
        return row_tables(
            schedule.parts.rows,
            schedule.order,
            keep_inputs=schedule.keep_inputs,
            nearest_first=nearest_first,
        )


ALIGNMENT_BYTES = 4
"""Minimum alignment of tensor blocks."""
SCRATCH_ALIGNMENT_BYTES = 16
"""Minimum alignment of scratch buffers, and alignment of prefetched constants."""


def placement_problems(expanded: ExpandedSchedule) -> tuple[tuple[str, PlacementProblem], ...]:
    """Return (name of a memory region, placement problem) pairs, the default region first.

    The buffers to be placed are tensors (whole or blocks of rows), prefetched constants and scratch
    memory.
    """
    found: dict[str, list[LiveBuffer]] = {expanded.schedule.memory.default: []}
    for memory, buffer in (*_blocks(expanded), *_other_buffers(expanded)):
        found.setdefault(memory, []).append(buffer)
    return tuple((memory, PlacementProblem(tuple(buffers))) for memory, buffers in found.items())


def row_series(
    expanded: ExpandedSchedule, *, addressed: bool = False
) -> tuple[tuple[str, tuple[Series, ...]], ...]:
    """Return the storages whose rows are placed one by one, for each memory region.

    The placement then tries to move these rows to constant distances (`memory/even_rows.py`), so
    that the code needs no table of row offsets.

    The result consists of pairs (name of the region, series of its storages).  The series of a
    storage is the names of its buffers, one for each row, in order.

    addressed: whether storages of the second kind below are included, without contiguous ones.

    Two kinds of storages are left out:

    - A storage in which a row overwrites a row of another storage.
    - A storage accessed by a kernel whose commands contain the address of each row
      (`Kernel.placed`), unless constant distances save cycles of this kernel (`Kernel.even_rows`).
    """
    parts, memory = expanded.schedule.parts, expanded.schedule.memory
    storages = parts.rows.storages
    excluded = {
        parts.owners[value.name]
        for part in parts.parts
        if part.kernel.placed and not part.kernel.even_rows and not addressed
        for value in (*part.variable_inputs, part.output)
    }
    table = expanded.block_table
    found: dict[str, list[Series]] = {}
    counts = np.bincount(table[:, 0], minlength=len(storages))
    begins = np.cumsum(counts) - counts
    for s, (begin, count) in enumerate(zip(begins.tolist(), counts.tolist(), strict=True)):
        storage = storages[s].name
        if addressed and storages[s].contiguous:
            continue
        if 1 < count == storages[s].rows and storage not in excluded:
            names = expanded.block_names[begin : begin + count]
            found.setdefault(memory.region(storage), []).append(names)
    return tuple((name, tuple(series)) for name, series in found.items())


def live_bytes(expanded: ExpandedSchedule) -> Numbers:
    """Return the live bytes in the default memory region at each tick of the schedule.

    Scratch memory and prefetched constants are included.  A tick is the time of one kernel call.
    """
    default, storages = expanded.schedule.memory.default, expanded.schedule.parts.rows.storages
    others = [buffer for region, buffer in _other_buffers(expanded) if region == default]
    inside = expanded.region_numbers[expanded.block_table[:, 0]] == 0
    s, lower, upper, born, dead = expanded.block_table[inside].T
    slots = np.array([storage.slots for storage in storages], np.int64)
    row_bytes = np.array([storage.row_bytes for storage in storages], np.int64)
    sizes = np.minimum(upper - lower, slots[s]) * row_bytes[s]
    ticks = max((*dead.tolist(), *(b.upper for b in others)), default=0) + 1
    change = np.zeros(ticks, np.int64)
    np.add.at(change, born, sizes)
    np.subtract.at(change, dead, sizes)
    for buffer in others:
        change[buffer.lower] += buffer.size_bytes
        change[buffer.upper] -= buffer.size_bytes
    return change.cumsum()


def _rows_name(schedule: Schedule, storage: Storage, lower: int, upper: int) -> str:
    if upper - lower == storage.rows:
        return storage.name
    return _unused_name(schedule, f"{storage.name}[{lower}:{upper}]")


def scratch_name(schedule: Schedule, plan: Plan) -> str:
    """Return the name of a cascade's scratch buffer: "part/scratch", named after its last part.

    A number is appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{schedule.parts.parts[plan.parts[-1]].name}/scratch")


def workspace_name(schedule: Schedule, part: Part) -> str:
    """Return the name of the workspace of a part's kernel: "part/workspace".

    A number is appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{part.name}/workspace")


def prefetch_name(schedule: Schedule, prefetch: Prefetch) -> str:
    """Return the name of the buffer that receives a prefetched constant.

    It is "part/prefetched", where `part` reads the copy, with a number appended if a value of the
    graph has this name.
    """
    return _unused_name(schedule, f"{schedule.parts.parts[prefetch.part].name}/prefetched")


def table_name(schedule: Schedule, part: Part, table: str) -> str:
    """Return the name of the buffer that holds a constant table of an accelerator's kernel.

    part: the part that runs the kernel.
    table: name of the table in `Kernel.tables`.

    The result is "part: table", with a number appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{part.name}: {table}")


def _unused_name(schedule: Schedule, name: str) -> str:
    """Return `name`, with a number appended if a value of the graph has this name."""
    return free_name(name, schedule.parts.names)


def _blocks(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for each memory block of a tensor.

    A block is a whole storage or some rows of it.
    """
    schedule = expanded.schedule
    storages, memory = schedule.parts.rows.storages, schedule.memory
    alignments = storage_alignments(schedule.parts)
    named = zip(expanded.block_table.tolist(), expanded.block_names, strict=True)
    for s, blocks in groupby(named, key=lambda block: block[0][0]):
        storage = storages[s]
        region = memory.region(storage.name)
        alignment = alignments.get(storage.name, ALIGNMENT_BYTES)
        anchor, first = None, 0
        for (_, lower, upper, born, dead), name in blocks:
            size = min(upper - lower, storage.slots) * storage.row_bytes
            if anchor is None:
                yield region, LiveBuffer(name, born, dead, size, alignment)
            else:
                distance = (lower - first) * storage.row_bytes
                yield region, LiveBuffer(name, born, dead, size, 1, anchor, distance)
            if storage.contiguous and anchor is None:
                anchor, first = name, lower


def storage_alignments(parts: Parts) -> Mapping[str, int]:
    """Return the alignment of each storage that needs more than `ALIGNMENT_BYTES`.

    Keys: names of the storages.  Values: alignments in bytes.
    """
    found: dict[str, int] = {}
    for part in parts.parts:
        for value in (*part.variable_inputs, part.output):
            alignment = max(part.kernel.alignment_bytes, value.dtype.size_bytes)
            if alignment > ALIGNMENT_BYTES:
                storage = parts.owners[value.name]
                found[storage] = max(alignment, found.get(storage, 1))
    return found


def scratch_alignment(parts: Iterable[Part]) -> int:
    """Return the alignment of a scratch buffer that the kernels of `parts` share.

    Accelerators copy rows of their inputs to scratch memory, so rows there need the alignment of
    the inputs."""
    return max((SCRATCH_ALIGNMENT_BYTES, *(part.kernel.alignment_bytes for part in parts)))


def _other_buffers(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for prefetched constants and scratch buffers."""
    yield from _prefetched(expanded)
    yield from _scratch(expanded)


def _prefetched(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for the target buffer of each prefetch.

    The buffer is live until the end of the cascade that reads the copy.  It becomes live when this
    cascade begins or, for an early prefetch, when the previous cascade begins.
    """
    before = 1
    for cascade in expanded.cascades:
        for prefetch in cascade.plan.prefetches:
            name = prefetch_name(expanded.schedule, prefetch)
            first = before if prefetch.early else cascade.tick
            size = prefetch.size_bytes
            buffer = LiveBuffer(name, first, cascade.end, size, SCRATCH_ALIGNMENT_BYTES)
            yield prefetch.target, buffer
        before = cascade.tick


def _scratch(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for the working memory of each cascade.

    That is the scratch memory, and the workspaces of kernels in memories of accelerators."""
    for cascade in expanded.cascades:
        for k in cascade.plan.parts:
            part = expanded.schedule.parts.parts[k]
            space = part.kernel.workspace
            if space is not None:
                name, alignment = workspace_name(expanded.schedule, part), scratch_alignment([part])
                buffer = LiveBuffer(name, cascade.tick, cascade.end, space.size_bytes, alignment)
                yield space.memory, buffer
        size = cascade.plan.scratch_block_bytes
        if size:
            name = scratch_name(expanded.schedule, cascade.plan)
            users = [expanded.schedule.parts.parts[k] for k in cascade.plan.parts]
            alignment = scratch_alignment(users)
            buffer = LiveBuffer(name, cascade.tick, cascade.end, size, alignment)
            yield expanded.schedule.memory.default, buffer
