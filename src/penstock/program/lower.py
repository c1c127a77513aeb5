"""lower: translates a schedule with addresses into a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from penstock.ir.graph import Value
from penstock.ir.op import row_axis, row_count
from penstock.ir.tensor import DType, TensorType
from penstock.program.cascade import commands
from penstock.program.constants import (
    constant_buffers,
    initial_constant,
    initial_name,
    only_byte,
)
from penstock.program.expr import Expr
from penstock.program.program import (
    FIRST,
    Address,
    Advance,
    Body,
    Box,
    Buffer,
    Call,
    Command,
    Copy,
    FillTensor,
    Kind,
    LoadTensor,
    Loop,
    Memory,
    Program,
    Pull,
    Rotation,
    Rows,
    View,
    Wait,
)
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import AcceleratorCopy, Prefetch
from penstock.scheduling.model.queue_memory import QueueMemory
from penstock.scheduling.model.rows import Storage, rows_coincide
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    block_name,
    prefetch_name,
    scratch_name,
    table_name,
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The offset of each block of a schedule, and the bytes used in each memory."""

    offsets: Mapping[str, int]
    heights: tuple[tuple[str, int], ...]


def lower(expanded: ExpandedSchedule, addresses: Addresses) -> Program:
    """The program of a schedule: a call for a part that runs at once, loops for a cascade."""
    schedule = expanded.schedule
    graph, memory = schedule.parts.graph, schedule.memory
    constants = constant_buffers(expanded, memory.constants)
    constant_bytes = max((b.address + b.size_bytes for b in constants), default=0)
    writer = _Writer(expanded, laid_storages(expanded, addresses))
    return Program(
        graph.name,
        (
            *(Memory(name, height, writable=True) for name, height in addresses.heights),
            Memory(memory.constants, constant_bytes, writable=False),
        ),
        (
            *writer.buffers(),
            *_scratch(expanded, addresses),
            *_copied(expanded, addresses),
            *_prefetched(expanded, addresses),
            *constants,
        ),
        tuple(writer.view(v, {}) for v in schedule.parts.inputs),
        tuple(writer.view(v, {}) for v in graph.outputs),
        init=(),
        reset=tuple(_reset(expanded, writer)),
        run=(
            *_run(expanded, writer),
            *map(writer.update, schedule.parts.updates),
            *map(writer.advance, schedule.parts.queues),
        ),
    )


def _run(expanded: ExpandedSchedule, writer: _Writer) -> Iterator[Command]:
    """Commands of all cascades, each after its copies and the early copies of the next one."""
    cascades = expanded.cascades
    for cascade, after in zip_longest(cascades, cascades[1:]):
        copies = cascade.plan.copies
        yield from (writer.copy(copy) for copy in copies if not copy.early)
        if after is not None:
            yield from (writer.copy(copy) for copy in after.plan.copies if copy.early)
        yield from (writer.wait(copy) for copy in copies if copy.early)
        tables = expanded.tables_for(cascade.plan)
        fills = _fills(cascade, after)
        yield from commands(tables, cascade, partial(writer.call, cascade.plan, fills))


def _reset(expanded: ExpandedSchedule, writer: _Writer) -> Iterator[Command]:
    """Commands that set all states and queues to their initial elements, and counters to 0."""
    parts = expanded.schedule.parts
    for queue in parts.queues:
        yield FillTensor(_counter_view(queue), 0)
    for state in (*parts.graph.states, *parts.graph.queues):
        target = writer.view(state.before, {})
        byte = only_byte(state.initial)
        name = initial_name(expanded, state)
        source = View.whole(name, initial_constant(name, state).type, name)
        yield LoadTensor(target, source) if byte is None else FillTensor(target, byte)


FirstCallPrefetch = tuple[Prefetch, AcceleratorCopy]
Fills = Mapping[int, tuple[FirstCallPrefetch, ...]]
"""By position of a part, the prefetches that its first call performs."""


def _fills(cascade: ExpandedCascade, after: ExpandedCascade | None) -> Fills:
    """The prefetches that the first call of a cascade issues: its own, and the early ones of the
    next cascade."""
    mine = (fill for fill in cascade.plan.accelerator_prefetches if not fill[0].early)
    following = after.plan.accelerator_prefetches if after is not None else ()
    next_ones = (fill for fill in following if fill[0].early)
    return {int(cascade.calls[0, 0]): (*mine, *next_ones)}


@dataclass(frozen=True, slots=True)
class Laid:
    """A storage in memory: the address and size of its buffer, and the layout of its rows."""

    storage: Storage
    address: int
    size_bytes: int
    rows: Rows


def laid_storages(expanded: ExpandedSchedule, addresses: Addresses) -> Mapping[str, Laid]:
    """The location of each storage that has memory of its own, by name."""
    rows = expanded.schedule.parts.rows
    starts = expanded.live_ranges.starts
    places = np.zeros(starts[-1], np.int64)
    for block in expanded.blocks():
        s = rows.number[block.storage]
        storage = rows.storages[s]
        offset = addresses.offsets[block_name(expanded.schedule, block)]
        mine = np.arange(block.upper - block.lower)
        places[starts[s] + block.lower + mine] = offset + mine % storage.slots * storage.row_bytes
    owner, _ = expanded.row_blocks
    row = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    places = places[starts[owner] + row]
    return {
        storage.name: _rows(storage, places[starts[s] : starts[s + 1]])
        for s, storage in enumerate(rows.storages)
        if storage.row_bytes
    }


def _rows(storage: Storage, places: npt.NDArray[np.int64]) -> Laid:
    """The location of rows at given offsets: a whole tensor, a ring buffer or a row table."""
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
    """Creates the calls and views of a schedule whose storages have addresses."""

    expanded: ExpandedSchedule
    laid: Mapping[str, Laid]

    @property
    def queues(self) -> Mapping[str, QueueMemory]:
        """The queues by the names of their rings and of the storages inside these."""
        every = self.expanded.schedule.parts.queues
        return {name: queue for queue in every for name in (queue.ring, *queue.inside)}

    def copy(self, copy: Prefetch) -> Command:
        """The command that copies a constant."""
        value = self.expanded.constants[copy.constant]
        source = View.whole(value.name, value.type, value.name)
        name = prefetch_name(self.expanded.schedule, copy)
        target = View.whole(value.name, value.type, name)
        rows = value.type.shape[row_axis(value.type.rank)]
        token = name if copy.early else None
        return Copy(source, target, 0, rows, self._copier, token)

    def wait(self, copy: Prefetch) -> Command:
        """The command that waits for the copy of a constant."""
        return Wait(self._copier, prefetch_name(self.expanded.schedule, copy))

    @property
    def _copier(self) -> str:
        """Name of the copy engine, which the target has where a plan contains copies."""
        copier = self.expanded.schedule.copier
        assert copier is not None
        return copier

    def call(self, plan: Plan, fills: Fills, position: int, first: Expr, end: Expr) -> Command:
        """The call that computes rows [first, end), at most a stripe, of the part at a position."""
        part = self.expanded.schedule.steps[position]
        if part.streamed_input is not None:
            return Pull(self.view(part.streamed_input, {}), first, end)
        node = part.nodes[-1]
        shape = node.output.type.shape
        box = Box((0,) * len(shape), shape)
        if not self.expanded.tables.whole[position] and (first, end) != (0, row_count(shape)):
            axis = row_axis(len(shape))
            box = Box(
                (*box.lower[:axis], first, *box.lower[axis + 1 :]),
                (*box.upper[:axis], end, *box.upper[axis + 1 :]),
            )
        schedule = self.expanded.schedule
        copied = {copy.constant: prefetch_name(schedule, copy) for copy in plan.copies}
        inputs = tuple(self.view(value, copied) for value in node.inputs)
        output = self.view(node.output, {})
        rows = min(row_count(shape), plan.stripe or row_count(shape))
        scratch = scratch_name(schedule, plan) if part.kernel.scratch_bytes else None
        k = schedule.order[position]
        prefetches = plan.accelerator_prefetches
        mine = next((self.prefetched(p) for p, copy in prefetches if copy.part == k), None)
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
            prefetched=mine,
            prefetches=tuple(self.prefetched(p) for p, _ in fills.get(position, ())),
        )
        body = (*self._prefetching(fills.get(position, ())), *_body(schedule, part, call, rows))
        return replace(call, body=body)

    def update(self, part: Part) -> Command:
        """The call that copies new elements to a state."""
        node = part.nodes[-1]
        name = update_name(self.expanded.schedule.parts, node.output)
        shape = node.output.type.shape
        return Call(
            node.op,
            node.site,
            part.kernel,
            part.engine,
            tuple(self.view(value, {}) for value in node.inputs),
            replace(self.view(node.output, {}), tensor=name),
            Box((0,) * len(shape), shape),
            origin=node.origin,
        )

    def advance(self, queue: QueueMemory) -> Command:
        """The command that rotates the ring of a queue at the end of a run."""
        window = self.view(queue.queue.window, {})
        return Advance(window, _counter_view(queue), queue.queue.new_rows)

    def prefetched(self, prefetch: Prefetch) -> View:
        """The view of prefetched constants in the memory of tensors."""
        name = prefetch_name(self.expanded.schedule, prefetch)
        return View.whole(name, TensorType((prefetch.size_bytes,), DType.UINT8), name)

    def _prefetching(self, every: tuple[FirstCallPrefetch, ...]) -> Iterator[Command]:
        """Commands that prefetch constants, executed only by the call that computes row 0."""
        schedule = self.expanded.schedule
        for prefetch, copy in every:
            part = schedule.parts.parts[copy.part]
            source = Address(table_name(schedule, part, copy.prefetch.table))
            target = Address(prefetch_name(schedule, prefetch))
            yield Loop("fetch", FIRST, 1, 1, copy.prefetch.commands(source, target))

    def view(self, value: Value, copied: Mapping[str, str]) -> View:
        """The view through which kernels access a value."""
        owner = self.expanded.storage_owner(value)
        if owner is None:
            return View.whole(value.name, value.type, copied.get(value.name, value.name))
        rows = Rows.whole(value.type)
        queue = self.queues.get(owner.name)
        if queue is not None:
            first_row, first_byte = queue.place(value.name)
            rotation = Rotation(queue.counter, first_row)
            rows = Rows(queue.row_bytes, queue.queue.rows, rotation=rotation)
            count = row_count(value.type.shape)
            return View(value.name, value.type, queue.ring, rows, 0, count, first_byte)
        laid = self.laid[owner.name]
        if rows_coincide(value, laid.storage):
            rows = laid.rows
        return View(value.name, value.type, owner.name, rows, 0, row_count(value.type.shape))

    def buffers(self) -> tuple[Buffer, ...]:
        """One buffer for each storage."""
        schedule = self.expanded.schedule
        parts = schedule.parts
        ends = (*parts.inputs, *(v for v in parts.graph.outputs if v.data is None))
        io = {parts.owners[value.name] for value in ends}
        states = {value.name for value in parts.graph.kept}
        states |= {queue.counter for queue in parts.queues}
        return tuple(
            Buffer(
                name,
                Kind.STATE if name in states else Kind.IO if name in io else Kind.ARENA,
                schedule.memory.region(name),
                laid.address,
                laid.size_bytes,
            )
            for name, laid in self.laid.items()
        )


def _counter_view(queue: QueueMemory) -> View:
    """The view of the counter of a queue's ring."""
    return View.whole(queue.counter, TensorType((1,), DType.INT16), queue.counter)


def _body(schedule: Schedule, part: Part, call: Call, rows: int) -> tuple[Command, ...]:
    """The body of an accelerator's call of at most `rows` rows; empty for other calls."""
    if part.kernel.body is None:
        return ()
    places = {name: table_name(schedule, part, name) for name, _ in part.kernel.tables}
    prefetched = None if call.prefetched is None else call.prefetched.buffer
    body: Body = part.kernel.body
    return body(call.inputs, call.output, rows, places, call.scratch, prefetched)


def _scratch(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """One buffer for the scratch of each cascade that needs any."""
    schedule = expanded.schedule
    named = ((scratch_name(schedule, plan), plan.scratch_bytes) for plan in schedule.plans)
    home = schedule.memory.default
    return tuple(
        Buffer(name, Kind.SCRATCH, home, addresses.offsets[name], size)
        for name, size in named
        if size
    )


def _copied(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    return tuple(
        Buffer(name, Kind.ARENA, copy.target, addresses.offsets[name], copy.size_bytes)
        for cascade in expanded.cascades
        for copy in cascade.plan.copies
        for name in [prefetch_name(expanded.schedule, copy)]
    )


def _prefetched(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """One buffer for each prefetched constant."""
    schedule = expanded.schedule
    named = (
        (prefetch_name(schedule, prefetch), prefetch.size_bytes)
        for plan in schedule.plans
        for prefetch, _ in plan.accelerator_prefetches
    )
    home = schedule.memory.default
    return tuple(
        Buffer(name, Kind.ARENA, home, addresses.offsets[name], size) for name, size in named
    )
