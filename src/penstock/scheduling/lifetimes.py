"""lifetimes: Schedule -> memory.Problem: which blocks of bytes are alive when.

Tick 0 is when the caller writes the inputs, tick k + 1 when call k runs, and the last tick when the
caller reads the outputs.  A block is a storage whose rows all live and die together, or a single
row of any other: rows of one size leave no gaps when they are placed.  The rows of an accumulating
storage share the place of one.  A row that is written over
the same row of another storage is of that storage's block.  Where the rows of a storage must lie
one behind the other, blocks are rows that live and die together, and tied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.ir.graph import Value, free_name
from penstock.memory.problem import Buffer, Problem
from penstock.scheduling.demand import (
    WHOLE,
    Lives,
    Numbers,
    Tables,
    lives_of,
    tables_of,
    unfold,
)
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import ConstantCopy, Fetched, Plan
from penstock.scheduling.schedule import Schedule

ALIGNMENT_BYTES = 4
SCRATCH_ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Cascade:
    """A plan, unfolded: its positions [lower, upper) in the schedule's order, and its calls (see
    `demand.unfold`), of which the first is at `tick`."""

    plan: Plan
    lower: int
    upper: int
    tick: int
    calls: Numbers


@dataclass(frozen=True, slots=True)
class Block:
    """Rows [lower, upper) of a storage, alive in ticks [born, dead)."""

    storage: str
    lower: int
    upper: int
    born: int
    dead: int


@dataclass(frozen=True)
class Unfolded:
    """A schedule call by call."""

    schedule: Schedule

    @cached_property
    def tables(self) -> Tables:
        """The parts in the schedule's order, as plans see them that ask for the furthest first."""
        return self._tables(nearest_first=False)

    @cached_property
    def _nearest(self) -> Tables:
        return self._tables(nearest_first=True)

    def tables_of(self, plan: Plan) -> Tables:
        """The parts in the schedule's order, as a plan sees them."""
        return self._nearest if plan.nearest_first else self.tables

    def storage_of(self, value: Value) -> Value | None:
        """The value whose storage holds a value; None for a constant."""
        name = self._owners.get(value.name)
        return None if name is None else self._values[name]

    @property
    def constants(self) -> Mapping[str, Value]:
        """Constants that nodes read, by name."""
        return {value.name: value for value in self.schedule.parts.graph.constants()}

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return self.schedule.parts.owners

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return {value.name: value for value in self.schedule.parts.graph.variables()}

    @cached_property
    def cascades(self) -> tuple[Cascade, ...]:
        """Every plan, in order."""
        found: list[Cascade] = []
        lower, tick = 0, 1
        for plan in self.schedule.plans:
            upper = lower + len(plan.parts)
            calls = unfold(self.tables_of(plan), lower, upper, plan.stripe or WHOLE)
            found.append(Cascade(plan, lower, upper, tick, calls))
            lower, tick = upper, tick + len(calls)
        return tuple(found)

    @cached_property
    def lives(self) -> Lives:
        """When each row lives."""
        cascades = [(c.lower, c.upper, c.calls) for c in self.cascades]
        return lives_of(self.tables, cascades, self._homes())

    @cached_property
    def places(self) -> tuple[Numbers, Numbers]:
        """By row: the storage in whose block it lies, and the end of the life of that place."""
        rows, lives = self.schedule.parts.rows, self.lives
        owner = np.repeat(np.arange(len(rows.storages)), self.tables.rows)
        dead = lives.dead.copy()
        for position in range(len(self.tables.written)):  # whom a row lies over is known before it
            written = int(self.tables.written[position])
            mine = np.arange(lives.starts[written], lives.starts[written + 1])
            mine = mine[lives.over[mine] >= 0]
            over = lives.over[mine]
            owner[mine] = owner[lives.starts[over] + mine - lives.starts[written]]
            place = lives.starts[owner[mine]] + mine - lives.starts[written]
            dead[place] = np.maximum(dead[place], lives.dead[mine])
        return owner, dead

    @cached_property
    def block_table(self) -> Numbers:
        """Every block, storage by storage, a line each: the storage's number, and a Block's rows
        and ticks."""
        storages = self.schedule.parts.rows.storages
        owner, dead = self.places
        starts, born = self.lives.starts, self.lives.born
        of = np.repeat(np.arange(len(storages)), np.diff(starts))
        keys = np.stack([owner == of, born, dead])
        first = np.append(True, of[1:] != of[:-1])
        change = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)) & ~first
        changes = np.bincount(of[change], minlength=len(storages)) > 0
        apart = changes & ~np.array([storage.contiguous for storage in storages], np.bool_)
        begins = np.flatnonzero(first | change | apart[of])
        s, ends = of[begins], np.append(begins[1:], len(of))
        rows = begins - starts[s], ends - starts[s]
        return np.stack([s, *rows, born[begins], dead[begins]], axis=1)[owner[begins] == s]

    def blocks(self) -> Iterator[Block]:
        """Every block, storage by storage."""
        storages = self.schedule.parts.rows.storages
        for s, *rows_and_ticks in self.block_table.tolist():
            yield Block(storages[s].name, *rows_and_ticks)

    @cached_property
    def live_bytes(self) -> Numbers:
        """Bytes that are alive in the memory of inputs and outputs, by tick."""
        storages, home = self.schedule.parts.rows.storages, self.schedule.homes.tensors
        s, lower, upper, born, dead = self.block_table[self._homes()[self.block_table[:, 0]] == 0].T
        places = np.array([storage.places for storage in storages], np.int64)
        row_bytes = np.array([storage.row_bytes for storage in storages], np.int64)
        sizes = np.minimum(upper - lower, places[s]) * row_bytes[s]
        others = [buffer for memory, buffer in _beside_blocks(self) if memory == home]
        change = np.zeros(
            max((*dead.tolist(), *(b.upper for b in others)), default=0) + 1, np.int64
        )
        np.add.at(change, born, sizes)
        np.subtract.at(change, dead, sizes)
        for buffer in others:
            change[buffer.lower] += buffer.size_bytes
            change[buffer.upper] -= buffer.size_bytes
        return change.cumsum()

    def _tables(self, *, nearest_first: bool) -> Tables:
        schedule = self.schedule
        return tables_of(
            schedule.parts.rows,
            schedule.order,
            keep_inputs=schedule.keep_inputs,
            nearest_first=nearest_first,
        )

    def _homes(self) -> Numbers:
        """By storage, the number of its memory."""
        homes = self.schedule.homes
        memories = [homes.tensors, *dict.fromkeys(memory for _, memory in homes.away)]
        storages = self.schedule.parts.rows.storages
        return np.array([memories.index(homes.of(s.name)) for s in storages], np.int64)


def block_name(schedule: Schedule, block: Block) -> str:
    """Name of a block: a whole storage's is its own."""
    rows = schedule.parts.rows
    if block.upper - block.lower == rows.storages[rows.number[block.storage]].rows:
        return block.storage
    return _free(schedule, f"{block.storage}[{block.lower}:{block.upper}]")


def scratch_of(schedule: Schedule, plan: Plan) -> str:
    """Name of the scratch that the parts of a cascade use one after the other: its last part's."""
    return _free(schedule, f"{schedule.parts.parts[plan.parts[-1]].name}/scratch")


def copy_name(schedule: Schedule, copy: ConstantCopy) -> str:
    """Name of the buffer of a copied constant."""
    return _free(schedule, f"{copy.constant}/{copy.memory}")


def fetched_name(schedule: Schedule, fetched: Fetched) -> str:
    """Name of the buffer of constants that are fetched for a part."""
    return _free(schedule, f"{schedule.parts.parts[fetched.part].name}/fetched")


def table_name(schedule: Schedule, part: Part, table: str) -> str:
    """Name of the buffer of a table of an accelerator's kernel."""
    return _free(schedule, f"{part.name}: {table}")


def _free(schedule: Schedule, name: str) -> str:
    """The name of a buffer that is no value: a value may have any name."""
    return free_name(name, schedule.parts.names)


def problems(unfolded: Unfolded) -> tuple[tuple[str, Problem], ...]:
    """By memory, the blocks, copies, fetched constants and scratch buffers to be placed in it."""
    homes = unfolded.schedule.homes
    found: dict[str, list[Buffer]] = {homes.tensors: []}
    for memory, buffer in (*_blocks(unfolded), *_beside_blocks(unfolded)):
        found.setdefault(memory, []).append(buffer)
    return tuple((memory, Problem(tuple(buffers))) for memory, buffers in found.items())


def _blocks(unfolded: Unfolded) -> Iterator[tuple[str, Buffer]]:
    rows, homes = unfolded.schedule.parts.rows, unfolded.schedule.homes
    anchors: dict[str, tuple[str, int]] = {}
    alignments = _alignments(unfolded.schedule.parts)
    for block in unfolded.blocks():
        storage = rows.storages[rows.number[block.storage]]
        name = block_name(unfolded.schedule, block)
        size = min(block.upper - block.lower, storage.places) * storage.row_bytes
        anchor, first = anchors.setdefault(block.storage, (name, block.lower))
        tied = storage.contiguous and anchor != name
        yield (
            homes.of(block.storage),
            Buffer(
                name,
                block.born,
                block.dead,
                size,
                1 if tied else alignments.get(block.storage, ALIGNMENT_BYTES),
                None,
                anchor if tied else None,
                (block.lower - first) * storage.row_bytes if tied else 0,
            ),
        )


def _beside_blocks(unfolded: Unfolded) -> Iterator[tuple[str, Buffer]]:
    """Copies, fetched constants and scratch buffers."""
    yield from _copies(unfolded)
    yield from _fetched(unfolded)
    yield from _scratch(unfolded)


def _alignments(parts: Parts) -> Mapping[str, int]:
    """By storage, of what its rows' places are multiples, where a kernel asks for more than others
    do."""
    found: dict[str, int] = {}
    for part in parts.parts:
        if part.kernel.alignment_bytes > ALIGNMENT_BYTES:
            for value in (*part.variable_inputs, part.output):
                storage = parts.owners[value.name]
                found[storage] = max(part.kernel.alignment_bytes, found.get(storage, 1))
    return found


def _copies(unfolded: Unfolded) -> Iterator[tuple[str, Buffer]]:
    before = 1
    for cascade in unfolded.cascades:
        end = cascade.tick + len(cascade.calls)
        for copy in cascade.plan.copies:
            first = before if copy.early else cascade.tick
            name = copy_name(unfolded.schedule, copy)
            buffer = Buffer(name, first, end, copy.size_bytes, SCRATCH_ALIGNMENT_BYTES)
            yield copy.memory, buffer
        before = cascade.tick


def _fetched(unfolded: Unfolded) -> Iterator[tuple[str, Buffer]]:
    """The fetched constants of a cascade lie there as long as it runs, those that are early also
    while the one before does."""
    schedule, before = unfolded.schedule, 1
    for cascade in unfolded.cascades:
        end = cascade.tick + len(cascade.calls)
        for fetched in cascade.plan.fetched:
            name, size = fetched_name(schedule, fetched), fetched.fetch.size_bytes
            first = before if fetched.early else cascade.tick
            yield schedule.homes.tensors, Buffer(name, first, end, size, SCRATCH_ALIGNMENT_BYTES)
        before = cascade.tick


def _scratch(unfolded: Unfolded) -> Iterator[tuple[str, Buffer]]:
    for cascade in unfolded.cascades:
        size = cascade.plan.scratch_bytes
        if size:
            end = cascade.tick + len(cascade.calls)
            name = scratch_of(unfolded.schedule, cascade.plan)
            buffer = Buffer(name, cascade.tick, end, size, SCRATCH_ALIGNMENT_BYTES)
            yield unfolded.schedule.homes.tensors, buffer
