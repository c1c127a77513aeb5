"""lower: Schedule + addresses -> Program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from penstock.ir.graph import Graph, Value
from penstock.ir.op import row_axis, row_count
from penstock.ir.tensor import DType, TensorType
from penstock.program.cascade import commands
from penstock.program.expr import Expr
from penstock.program.program import (
    FIRST,
    Address,
    Body,
    Box,
    Buffer,
    Call,
    Command,
    Copy,
    Kind,
    Loop,
    Memory,
    Program,
    Pull,
    Rows,
    View,
    Wait,
)
from penstock.scheduling.lifetimes import (
    Cascade,
    Unfolded,
    block_name,
    copy_name,
    fetched_name,
    scratch_of,
    table_name,
)
from penstock.scheduling.part import Part
from penstock.scheduling.plan import ConstantCopy, Fetched, Plan
from penstock.scheduling.rows import Storage, alike
from penstock.scheduling.schedule import Schedule

CONSTANT_ALIGNMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the blocks of a schedule lie in their memories, and how high each is filled."""

    offsets: Mapping[str, int]
    heights: tuple[tuple[str, int], ...]


def lower(unfolded: Unfolded, addresses: Addresses) -> Program:
    """The commands that run a schedule: a line for a part that runs whole, loops for a cascade."""
    schedule = unfolded.schedule
    graph, homes = schedule.parts.graph, schedule.homes
    constants = _constants(unfolded, homes.constants)
    constant_bytes = max((b.address + b.size_bytes for b in constants), default=0)
    writer = _Writer(unfolded, laid_storages(unfolded, addresses))
    return Program(
        graph.name,
        (
            *(Memory(memory, height, writable=True) for memory, height in addresses.heights),
            Memory(homes.constants, constant_bytes, writable=False),
        ),
        (
            *writer.buffers(),
            *_scratch(unfolded, addresses),
            *_copied(unfolded, addresses),
            *_fetched(unfolded, addresses),
            *constants,
        ),
        tuple(writer.view(v, {}) for v in schedule.parts.inputs),
        tuple(writer.view(v, {}) for v in graph.outputs),
        init=(),
        reset=(),
        run=tuple(_run(unfolded, writer)),
    )


def _run(unfolded: Unfolded, writer: _Writer) -> Iterator[Command]:
    """The cascades, each behind the copies that it needs and those that the next one needs."""
    cascades = unfolded.cascades
    for cascade, after in zip_longest(cascades, cascades[1:]):
        copies = cascade.plan.copies
        yield from (writer.copy(copy) for copy in copies if not copy.early)
        if after is not None:
            yield from (writer.copy(copy) for copy in after.plan.copies if copy.early)
        yield from (writer.wait(copy) for copy in copies if copy.early)
        tables = unfolded.tables_of(cascade.plan)
        fills = _fills(cascade, after)
        yield from commands(tables, cascade, partial(writer.call, cascade.plan, fills))


Fills = Mapping[int, tuple[Fetched, ...]]
"""By position of a part, what its first call fetches for itself and for others."""


def _fills(cascade: Cascade, after: Cascade | None) -> Fills:
    """The first call of a cascade fetches what is its own, and early what is the next one's."""
    mine = (f for f in cascade.plan.fetched if not f.early)
    next_ones = (f for f in (after.plan.fetched if after is not None else ()) if f.early)
    return {int(cascade.calls[0, 0]): (*mine, *next_ones)}


@dataclass(frozen=True, slots=True)
class Laid:
    """A storage in memory: the address of its buffer, the bytes that it spans, and its rows."""

    storage: Storage
    address: int
    size_bytes: int
    rows: Rows


def laid_storages(unfolded: Unfolded, addresses: Addresses) -> Mapping[str, Laid]:
    """By name, where each storage lies."""
    rows = unfolded.schedule.parts.rows
    starts = unfolded.lives.starts
    places = np.zeros(starts[-1], np.int64)
    for block in unfolded.blocks():
        s = rows.number[block.storage]
        storage = rows.storages[s]
        offset = addresses.offsets[block_name(unfolded.schedule, block)]
        mine = np.arange(block.upper - block.lower)
        places[starts[s] + block.lower + mine] = offset + mine % storage.places * storage.row_bytes
    owner, _ = unfolded.places
    row = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    places = places[starts[owner] + row]
    return {
        storage.name: _rows(storage, places[starts[s] : starts[s + 1]])
        for s, storage in enumerate(rows.storages)
    }


def _rows(storage: Storage, places: npt.NDArray[np.int64]) -> Laid:
    """Rows at given places: a whole tensor, a ring, or a table."""
    base, pitch = int(places.min()), storage.row_bytes
    size = int(places.max()) - base + pitch
    offsets = places - base
    repeats = np.flatnonzero(offsets == offsets[0])
    ring = int(repeats[1]) if len(repeats) > 1 else storage.rows
    if (offsets == np.arange(storage.rows) % ring * pitch).all():
        return Laid(storage, base, size, Rows(pitch, ring))
    return Laid(storage, base, size, Rows(pitch, storage.rows, tuple(offsets.tolist())))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes calls and views of a schedule whose storages are laid."""

    unfolded: Unfolded
    laid: Mapping[str, Laid]

    def copy(self, copy: ConstantCopy) -> Command:
        """The copy of a constant."""
        value = self.unfolded.constants[copy.constant]
        source = View.whole(value.name, value.type, value.name)
        name = copy_name(self.unfolded.schedule, copy)
        target = View.whole(value.name, value.type, name)
        rows = value.type.shape[row_axis(value.type.rank)]
        token = name if copy.early else None
        return Copy(source, target, 0, rows, self.unfolded.schedule.homes.copier, token)

    def wait(self, copy: ConstantCopy) -> Command:
        """Until the constant is there."""
        schedule = self.unfolded.schedule
        return Wait(schedule.homes.copier, copy_name(schedule, copy))

    def call(self, plan: Plan, fills: Fills, position: int, first: Expr, end: Expr) -> Command:
        """Rows [first, end) of the part at a position, at most as many as the plan's stripe has."""
        part = self.unfolded.schedule.steps[position]
        if part.pulled is not None:
            return Pull(self.view(part.pulled, {}), first, end)
        node = part.nodes[-1]
        shape = node.output.type.shape
        box = Box((0,) * len(shape), shape)
        if (first, end) != (0, row_count(shape)):
            axis = row_axis(len(shape))
            box = Box(
                (*box.lower[:axis], first, *box.lower[axis + 1 :]),
                (*box.upper[:axis], end, *box.upper[axis + 1 :]),
            )
        schedule = self.unfolded.schedule
        copied = {copy.constant: copy_name(schedule, copy) for copy in plan.copies}
        inputs = tuple(self.view(value, copied) for value in node.inputs)
        output = self.view(node.output, {})
        rows = min(row_count(shape), plan.stripe or row_count(shape))
        scratch = scratch_of(schedule, plan) if part.kernel.scratch_bytes else None
        k = schedule.order[position]
        mine = next((self.fetched(f) for f in plan.fetched if f.part == k), None)
        call = Call(
            node.op,
            node.site,
            part.kernel,
            part.engine,
            inputs,
            output,
            box,
            scratch,
            node.origin,
            fetched=mine,
            fills=tuple(self.fetched(f) for f in fills.get(position, ())),
        )
        body = (*self._fetching(fills.get(position, ())), *_body(schedule, part, call, rows))
        return replace(call, body=body)

    def fetched(self, fetched: Fetched) -> View:
        """Fetched constants, in the memory of tensors."""
        name = fetched_name(self.unfolded.schedule, fetched)
        return View.whole(name, TensorType((fetched.fetch.size_bytes,), DType.UINT8), name)

    def _fetching(self, every: tuple[Fetched, ...]) -> Iterator[Command]:
        """What fetches constants in a call that computes row 0."""
        schedule = self.unfolded.schedule
        for fetched in every:
            part = schedule.parts.parts[fetched.part]
            source = Address(table_name(schedule, part, fetched.fetch.table))
            target = Address(fetched_name(schedule, fetched))
            yield Loop("fetch", FIRST, 1, 1, fetched.fetch.commands(source, target))

    def view(self, value: Value, copied: Mapping[str, str]) -> View:
        """A value as kernels see it."""
        owner = self.unfolded.storage_of(value)
        if owner is None:
            return View.whole(value.name, value.type, copied.get(value.name, value.name))
        rows = Rows.whole(value.type)
        if alike(value, owner):
            rows = self.laid[owner.name].rows
        return View(value.name, value.type, owner.name, rows, 0, row_count(value.type.shape))

    def buffers(self) -> tuple[Buffer, ...]:
        """A buffer for every storage."""
        schedule = self.unfolded.schedule
        rows = schedule.parts.rows
        io = {rows.storages[k].name for k in (*rows.inputs, *rows.outputs)}
        return tuple(
            Buffer(
                name,
                Kind.IO if name in io else Kind.ARENA,
                schedule.homes.of(name),
                laid.address,
                laid.size_bytes,
            )
            for name, laid in self.laid.items()
        )


def _body(schedule: Schedule, part: Part, call: Call, rows: int) -> tuple[Command, ...]:
    """How an accelerator does a call of at most so many rows; nothing where none does."""
    if part.kernel.body is None:
        return ()
    places = {name: table_name(schedule, part, name) for name, _ in part.kernel.tables}
    fetched = None if call.fetched is None else call.fetched.buffer
    body: Body = part.kernel.body
    return body(call.inputs, call.output, rows, places, call.scratch, fetched)


def _scratch(unfolded: Unfolded, addresses: Addresses) -> tuple[Buffer, ...]:
    """A buffer for the scratch of each cascade that has any."""
    schedule = unfolded.schedule
    named = ((scratch_of(schedule, plan), plan.scratch_bytes) for plan in schedule.plans)
    home = schedule.homes.tensors
    return tuple(
        Buffer(name, Kind.SCRATCH, home, addresses.offsets[name], size)
        for name, size in named
        if size
    )


def _copied(unfolded: Unfolded, addresses: Addresses) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(name, Kind.ARENA, copy.memory, addresses.offsets[name], copy.size_bytes)
        for cascade in unfolded.cascades
        for copy in cascade.plan.copies
        for name in [copy_name(unfolded.schedule, copy)]
    )


def _fetched(unfolded: Unfolded, addresses: Addresses) -> tuple[Buffer, ...]:
    """A buffer for all that is fetched."""
    schedule = unfolded.schedule
    named = (
        (fetched_name(schedule, fetched), fetched.fetch.size_bytes)
        for plan in schedule.plans
        for fetched in plan.fetched
    )
    home = schedule.homes.tensors
    return tuple(
        Buffer(name, Kind.ARENA, home, addresses.offsets[name], size) for name, size in named
    )


def _tables(schedule: Schedule) -> Iterator[Value]:
    """The tables of accelerators' kernels; those of others are in their parameters."""
    for part in schedule.steps:
        if part.kernel.body is not None:
            for name, table in part.kernel.tables:
                yield Value(table_name(schedule, part, name), table.type, table.data)


def _constants(unfolded: Unfolded, memory: str) -> tuple[Buffer, ...]:
    """A buffer for every constant that a part or output reads, one behind the other."""
    steps, graph = unfolded.schedule.steps, unfolded.schedule.parts.graph
    values = (*_read_constants(steps), *_constant_outputs(graph), *_tables(unfolded.schedule))
    found: list[Buffer] = []
    address = 0
    for value in {v.name: v for v in values}.values():
        assert value.data is not None
        size = value.type.size_bytes
        found.append(
            Buffer(value.name, Kind.CONSTANT, memory, address, size, value.data, value.type)
        )
        address += -(-size // CONSTANT_ALIGNMENT_BYTES) * CONSTANT_ALIGNMENT_BYTES
    return tuple(found)


def _read_constants(steps: tuple[Part, ...]) -> tuple[Value, ...]:
    return tuple(v for part in steps for v in part.inputs if v.data is not None)


def _constant_outputs(graph: Graph) -> tuple[Value, ...]:
    return tuple(v for v in graph.outputs if v.data is not None)
