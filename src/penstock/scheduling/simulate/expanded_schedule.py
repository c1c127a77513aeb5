"""ExpandedSchedule: a schedule call by call, with the live ranges of its memory blocks.

A memory block is a unit to which the placement assigns an address.  It consists of rows of one
storage (the memory of a tensor and its aliases):

- If all rows of the storage have the same live range, they form a single block.
- Otherwise, if the storage must be contiguous, each interval of rows with the same live range is a
  block.  The placement keeps these blocks at fixed distances from each other.
- Otherwise, each row is a block.

A row that overwrites a row of another storage belongs to the block of the overwritten row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.ir.graph import Value
from penstock.memory.problem import LiveBuffer
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, row_stripes, whole_tensor
from penstock.scheduling.simulate.row_tables import Numbers, RowTables, row_tables
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
    def stripes(self) -> tuple[Stripes, ...]:
        """The stripes in which each part computes its output, one per call.

        One entry per part, in the order of the plan.
        """
        return tuple(map(self._part_stripes, range(len(self.plan.parts))))

    def _part_stripes(self, index: int) -> Stripes:
        """Return the stripes of a part, given by its `index` in `Plan.parts`."""
        k = self.plan.parts[index]
        shape = self.parts.parts[k].output.type.shape
        if self.parts.rows.row_parts[k].whole:
            return (whole_tensor(shape),)
        mine = self.calls[self.calls[:, 0] == self.lower + index]
        return row_stripes(shape, mine[:, 1:3].tolist())


@dataclass(frozen=True, slots=True)
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
        these inputs (`Plan.nearest_first`).
        """
        return self._nearest_first_tables if plan.nearest_first else self.tables

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

    def blocks(self) -> Iterator[MemoryBlock]:
        """Yield all memory blocks, storage by storage."""
        storages = self.schedule.parts.rows.storages
        for s, *rows_and_ticks in self.block_table.tolist():
            yield MemoryBlock(storages[s].name, *rows_and_ticks)

    def live_bytes(self, others: list[LiveBuffer], memory: str | None = None) -> Numbers:
        """Return the live bytes in a memory region at each tick (one per kernel call).

        memory: name of the region; None: the default region.
        others: further buffers in that region, such as scratch memory, to be counted as well.
        """
        storages = self.schedule.parts.rows.storages
        assigned = self.schedule.memory
        regions, wanted = dict(assigned.exceptions), memory or assigned.default
        inside = [regions.get(storage.name, assigned.default) == wanted for storage in storages]
        s, lower, upper, born, dead = self.block_table[np.array(inside)[self.block_table[:, 0]]].T
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

    def _tables(self, *, nearest_first: bool) -> RowTables:
        schedule = self.schedule
        return row_tables(
            schedule.parts.rows,
            schedule.order,
            keep_inputs=schedule.keep_inputs,
            nearest_first=nearest_first,
        )
