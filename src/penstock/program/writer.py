"""Writer: the calls and views of a schedule whose storages have addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from penstock.frozen import frozen
from penstock.ir.graph import Value
from penstock.ir.tensor import DType, TensorType, row_count
from penstock.memory.even_rows import ring_rows
from penstock.memory.problem import Column
from penstock.program.expr import Expr, binary
from penstock.program.program import (
    FIRST,
    Address,
    Advance,
    Body,
    Buffer,
    Call,
    Command,
    Kind,
    Loop,
    Pull,
    Rotation,
    Rows,
    View,
)
from penstock.program.steps import as_step
from penstock.scheduling.model.access import Storage, rows_coincide
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.plan import Plan, Prefetch
from penstock.scheduling.model.queues import QueueMemory
from penstock.scheduling.model.stripe import highest_stripe
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    prefetch_name,
    scratch_name,
    table_name,
    workspace_name,
)


@frozen
class Addresses:
    """The offset of each block of a schedule, and the bytes used in each memory."""

    offsets: Mapping[str, int]
    heights: tuple[tuple[str, int], ...]


@frozen
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
    offsets = np.array([addresses.offsets[name] for name in expanded.block_names], np.int64)
    slots = np.array([storage.slots for storage in rows.storages], np.int64)
    row_bytes = np.array([storage.row_bytes for storage in rows.storages], np.int64)
    table = expanded.block_table
    lengths = table[:, 2] - table[:, 1]
    block = np.repeat(np.arange(len(table)), lengths)
    mine = np.arange(len(block)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    s, lower = table[block, 0], table[block, 1]
    places[starts[s] + lower + mine] = offsets[block] + mine % slots[s] * row_bytes[s]
    owner, _ = expanded.row_blocks
    row = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    places = places[starts[owner] + row]
    return {
        storage.name: _rows(storage, places[starts[s] : starts[s + 1]])
        for s, storage in enumerate(rows.storages)
        if storage.row_bytes
    }


def _rows(storage: Storage, places: Column) -> Laid:
    """The location of rows at given offsets: a whole tensor, a ring buffer or a row table."""
    base, pitch = int(places.min()), storage.row_bytes
    size = int(places.max()) - base + pitch
    ring = ring_rows(places, pitch)
    if ring is not None:
        return Laid(storage, base, size, Rows(pitch, ring))
    return Laid(storage, base, size, Rows(pitch, storage.rows, tuple((places - base).tolist())))


Fills = Mapping[int, tuple[Prefetch, ...]]
"""By position of a part, the prefetches that its first call performs."""


@frozen
class Writer:
    """Creates the calls and views of a schedule whose storages have addresses.

    outside: views of the inputs and outputs whose memory a surrounding program provides, by name.
    columns: for each variable of a band, the tensor of which it is some columns, and the first of
        them, by name.
    tables: in a band, the constants that hold the tables of accelerators' kernels, by name of the
        part and of the table (`constants.band_tables`).
    chain: in a chain, its parts with the rows that each call computes; `expanded` computes all rows
        of each part in one call.
    """

    expanded: ExpandedSchedule
    laid: Mapping[str, Laid]
    outside: Mapping[str, View] = field(default_factory=dict[str, View])
    columns: Mapping[str, tuple[str, Expr]] = field(default_factory=dict[str, tuple[str, Expr]])
    tables: Mapping[tuple[str, str], Value] = field(default_factory=dict[tuple[str, str], Value])
    chain: ExpandedCascade | None = None

    @property
    def queues(self) -> Mapping[str, QueueMemory]:
        """The queues by the names of their rings and of the storages inside these."""
        every = self.expanded.schedule.parts.queues
        return {name: queue for queue in every for name in (queue.ring, *queue.inside)}

    def calls(
        self, plan: Plan, fills: Fills, position: int, first: Expr, end: Expr
    ) -> tuple[Command, ...]:
        """The call of `call`, as the only one of a sequence."""
        return (self.call(plan, fills, position, first, end),)

    def call(self, plan: Plan, fills: Fills, position: int, first: Expr, end: Expr) -> Command:
        """The call that computes rows [first, end), at most a stripe, of the part at a position."""
        part = self.expanded.schedule.steps[position]
        if part.streamed_input is not None:
            return Pull(self.view(part.streamed_input), first, end)
        node = part.nodes[-1]
        if self.expanded.tables.whole[position]:
            first, end = 0, row_count(node.output.shape)
        schedule = self.expanded.schedule
        inputs = tuple(map(self.view, node.inputs))
        output = self.view(node.output)
        scratch = scratch_name(schedule, plan) if plan.has_scratch(part.kernel) else None
        if part.kernel.workspace is not None:
            scratch = workspace_name(schedule, part)
        k = schedule.order[position]
        mine = next((self.prefetched(p) for p in plan.prefetches if p.part == k), None)
        call = Call(
            node.op,
            node.site,
            part.kernel,
            part.engine,
            inputs,
            output,
            first,
            end,
            scratch,
            node.origin,
            prefetched=mine,
            prefetches=tuple(map(self.prefetched, fills.get(position, ()))),
        )
        body = self._body(position, part, as_step(call))
        body = (*self._prefetching(fills.get(position, ())), *body)
        return replace(call, body=body)

    def _body(self, position: int, part: Part, step: Call) -> tuple[Command, ...]:
        """The body of an accelerator's call; empty for other calls.

        step: the step of the call, whose offsets are variables if they depend on loop variables."""
        if part.kernel.body is None:
            return ()
        calls = self.expanded if self.chain is None else self.chain
        rows = highest_stripe(calls.stripes[position])
        places = {
            name: self.tables[part.name, name].name
            if (part.name, name) in self.tables
            else table_name(self.expanded.schedule, part, name)
            for name, _ in part.kernel.tables
        }
        prefetched = None if step.prefetched is None else step.prefetched.buffer
        body: Body = part.kernel.body
        return body(step.inputs, step.output, rows, places, step.scratch, prefetched)

    def update(self, part: Part) -> Command:
        """The call that copies new elements to a state."""
        node = part.nodes[-1]
        name = update_name(self.expanded.schedule.parts, node.output)
        return Call(
            node.op,
            node.site,
            part.kernel,
            part.engine,
            tuple(map(self.view, node.inputs)),
            replace(self.view(node.output), tensor=name),
            0,
            row_count(node.output.shape),
            origin=node.origin,
        )

    def advance(self, queue: QueueMemory) -> Command:
        """The command that rotates the ring of a queue at the end of a run."""
        window = self.view(queue.queue.window)
        return Advance(window, counter_view(queue), queue.queue.new_rows)

    def prefetched(self, prefetch: Prefetch) -> View:
        """The view of prefetched constants in the memory of tensors."""
        name = prefetch_name(self.expanded.schedule, prefetch)
        return View.whole(name, TensorType((prefetch.size_bytes,), DType.UINT8), name)

    def _prefetching(self, every: tuple[Prefetch, ...]) -> Iterator[Command]:
        """Commands that prefetch constants, executed only by the call that computes row 0."""
        schedule = self.expanded.schedule
        for prefetch in every:
            part, copy = schedule.parts.parts[prefetch.part], prefetch.copy
            source = Address(table_name(schedule, part, copy.table))
            target = Address(prefetch_name(schedule, prefetch))
            yield Loop("fetch", FIRST, 1, 1, copy.commands(source, target))

    def view(self, value: Value) -> View:
        """The view through which kernels access a value."""
        view = self._own_view(value)
        if value.name not in self.columns:
            return view
        tensor, first_column = self.columns[value.name]
        return replace(view, tensor=tensor, first_column=first_column)

    def _own_view(self, value: Value) -> View:
        """The view of a value as a tensor of its own."""
        owner = self.expanded.storage_owner(value)
        if owner is None:
            return View.whole(value.name, value.type, value.name)
        first_byte = self.expanded.schedule.parts.first_byte(value)
        if owner.name in self.outside:
            view = self.outside[owner.name]
            offset = binary("+", view.offset, first_byte)
            return replace(view, type=value.type, offset=offset)
        rows = Rows.whole(value.type)
        queue = self.queues.get(owner.name)
        if queue is not None:
            first_row, first_byte = queue.place(value.name)
            rotation = Rotation(queue.counter, first_row)
            rows = Rows(queue.row_bytes, queue.queue.rows, rotation=rotation)
            count = row_count(value.shape)
            return View(value.name, value.type, queue.ring, rows, 0, count, first_byte)
        laid = self.laid[owner.name]
        if rows_coincide(value, laid.storage):
            rows = laid.rows
        count = row_count(value.shape)
        return View(value.name, value.type, owner.name, rows, 0, count, first_byte)

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


def counter_view(queue: QueueMemory) -> View:
    """The view of the counter of a queue's ring."""
    return View.whole(queue.counter, TensorType((1,), DType.INT16), queue.counter)


def scratch_buffers(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """One buffer for the scratch of each cascade that needs any."""
    schedule = expanded.schedule
    named = (
        (scratch_name(schedule, plan), plan.scratch_block_bytes)
        for plan in schedule.plans
        if any(schedule.find_bands(schedule.parts.parts[k]) is None for k in plan.parts)
    )
    home = schedule.memory.default
    shared = tuple(
        Buffer(name, Kind.SCRATCH, home, addresses.offsets[name], size)
        for name, size in named
        if size
    )
    own = ((part, part.kernel.workspace) for part in schedule.steps)
    return (*shared, *(
        Buffer(name, Kind.SCRATCH, space.memory, addresses.offsets[name], space.size_bytes)
        for part, space in own
        if space is not None
        for name in [workspace_name(schedule, part)]
    ))  # fmt: skip
