"""lower: translates a schedule with addresses into a program.

Bands of columns are a loop over consecutive bands that are alike.  In a band that computes all
rows, the commands are the loop nests of its cascade.  In a chain, they are a call of each part, for
the rows that the call of the chain needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from penstock.ir.op import row_count
from penstock.program.constants import (
    band_tables,
    constant_buffers,
    initial_constant,
    initial_name,
    only_byte,
)
from penstock.program.expr import Expr, Var, binary
from penstock.program.nest import commands, count_at
from penstock.program.program import (
    Buffer,
    Command,
    Discard,
    FillTensor,
    Kind,
    LoadTensor,
    Loop,
    Memory,
    Program,
    Rows,
    View,
)
from penstock.program.writer import (
    Addresses,
    Fills,
    Laid,
    Writer,
    counter_view,
    laid_storages,
    scratch_buffers,
)
from penstock.scheduling.bands.band_schedule import band_cascade, band_windows, expanded_band
from penstock.scheduling.model.bands import Band, Bands, KeptTensor, TensorSection
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    prefetch_name,
    scratch_name,
)


def lower(expanded: ExpandedSchedule, addresses: Addresses) -> Program:
    """The program of a schedule: a call for a part that runs at once, loops for a cascade."""
    schedule = expanded.schedule
    graph, memory = schedule.parts.graph, schedule.memory
    constants = constant_buffers(expanded, memory.constants)
    constant_bytes = max((b.address + b.size_bytes for b in constants), default=0)
    writer = Writer(expanded, laid_storages(expanded, addresses))
    return Program(
        graph.name,
        (
            *(Memory(name, height, writable=True) for name, height in addresses.heights),
            Memory(memory.constants, constant_bytes, writable=False),
        ),
        (
            *writer.buffers(),
            *scratch_buffers(expanded, addresses),
            *band_buffers(expanded, addresses),
            *_prefetched(expanded, addresses),
            *constants,
        ),
        tuple(writer.view(v) for v in schedule.parts.inputs),
        tuple(writer.view(v) for v in graph.outputs),
        reset=tuple(_reset(expanded, writer)),
        run=(
            *_run(expanded, addresses, writer),
            *map(writer.update, schedule.parts.updates),
            *map(writer.advance, schedule.parts.queues),
        ),
    )


def _run(expanded: ExpandedSchedule, addresses: Addresses, writer: Writer) -> Iterator[Command]:
    """Commands of all cascades."""
    cascades = expanded.cascades
    for cascade, after in zip_longest(cascades, cascades[1:]):
        tables = expanded.tables_for(cascade.plan)
        fills = _fills(cascade, after)
        calls = partial(_calls, addresses, writer, cascade, fills)
        yield from commands(tables, cascade, calls)


def _calls(
    addresses: Addresses,
    writer: Writer,
    cascade: ExpandedCascade,
    fills: Fills,
    position: int,
    first: Expr,
    end: Expr,
) -> tuple[Command, ...]:
    """The commands that compute rows [first, end) of the part at a position: a call or bands."""
    schedule = writer.expanded.schedule
    bands = schedule.find_bands(schedule.parts.parts[schedule.order[position]])
    if bands is None:
        return writer.calls(cascade.plan, fills, position, first, end)
    return tuple(band_commands(addresses, writer, bands, cascade, (first, end)))


def _reset(expanded: ExpandedSchedule, writer: Writer) -> Iterator[Command]:
    """Commands that set all states and queues to their initial elements, and counters to 0."""
    parts = expanded.schedule.parts
    for queue in parts.queues:
        yield FillTensor(counter_view(queue), 0)
    for state in (*parts.graph.states, *parts.graph.queues):
        target = writer.view(state.before)
        byte = only_byte(state.initial)
        name = initial_name(expanded, state)
        source = View.whole(name, initial_constant(name, state).type, name)
        yield LoadTensor(target, source) if byte is None else FillTensor(target, byte)


def _fills(cascade: ExpandedCascade, after: ExpandedCascade | None) -> Fills:
    """The prefetches that the first call of a cascade issues: its own, and the early ones of the
    next cascade."""
    mine = (fill for fill in cascade.plan.prefetches if not fill.early)
    following = after.plan.prefetches if after is not None else ()
    next_ones = (fill for fill in following if fill.early)
    return {int(cascade.calls[0, 0]): (*mine, *next_ones)}


def _prefetched(expanded: ExpandedSchedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """One buffer for each prefetched constant."""
    schedule = expanded.schedule
    named = (
        (prefetch_name(schedule, prefetch), prefetch.size_bytes)
        for plan in schedule.plans
        for prefetch in plan.prefetches
    )
    home = schedule.memory.default
    return tuple(
        Buffer(name, Kind.ARENA, home, addresses.offsets[name], size) for name, size in named
    )


BAND = Var("band")
"""Loop variable: number of a band among consecutive bands that are alike."""


def band_commands(
    addresses: Addresses,
    writer: Writer,
    bands: Bands,
    cascade: ExpandedCascade,
    rows: tuple[Expr, Expr],
) -> Iterator[Command]:
    """Commands of all bands in a call of the part that stands for them, for rows (first, end).

    writer, cascade: those of the network.
    """
    for band in bands.bands:
        inner = band_writer(addresses, writer, cascade.plan, bands.kept, band)
        calls = band_cascade(inner.expanded, bands, cascade)
        if bands.call_rows is None:
            tables = inner.expanded.tables_for(calls.plan)
            body = commands(tables, calls, partial(inner.calls, calls.plan, {}))
        else:
            body = tuple(_chain_calls(replace(inner, chain=calls), band, *rows))
        yield from body if band.count == 1 else (Loop(BAND.name, 0, band.count, 1, body),)
    yield from (Discard(kept.tensor) for kept in bands.kept)


def band_writer(
    addresses: Addresses, writer: Writer, plan: Plan, kept: Sequence[KeptTensor], band: Band
) -> Writer:
    """The writer of the calls of a band; if there are several bands, offsets depend on `BAND`.

    writer, plan: those of the network; the scratch memory of the plan is the arena of the band.
    kept: the tensors of which bands keep columns for the next one.
    """
    schedule = writer.expanded.schedule
    values = {value.name: value for value in schedule.parts.graph.variables()}
    columns: dict[str, tuple[str, Expr]] = {}
    outside = dict(_kept_views(kept, band))
    for section in band.sections:
        first = first_column(band, section)
        columns[section.value] = section.tensor, first
        if section.value in band.parts.outside - band.kept.keys():
            tensor = values[section.tensor]
            view = writer.view(tensor)
            column_bytes = tensor.type.shape[-1] * tensor.type.dtype.size_bytes
            offset = binary("+", view.offset, binary("*", first, column_bytes))
            outside[section.value] = replace(view, offset=offset)
    inner = expanded_band(band, schedule.memory)
    laid = _laid(inner, band_addresses(schedule, addresses, plan, band), band)
    return Writer(inner, laid, outside, columns, band_tables(schedule))


def _kept_views(kept: Sequence[KeptTensor], band: Band) -> Iterator[tuple[str, View]]:
    memories, tensors = {one.tensor: one for one in kept}, band.tensors
    for value in (v for v in band.parts.graph.variables() if v.name in band.kept):
        memory = memories[tensors[value.name]]
        rows = Rows(memory.row_bytes, memory.slots)
        count = row_count(value.type.shape)
        offset = band.kept[value.name]
        yield value.name, View(value.name, value.type, memory.tensor, rows, 0, count, offset)


def _chain_calls(writer: Writer, band: Band, first: Expr, end: Expr) -> Iterator[Command]:
    for position, (lower, upper, image) in enumerate(band_windows(writer.expanded)):
        # no call begins at the last row
        begin = count_at(tuple(lower[:-1].tolist()), first, positive=False, image=image)
        after = count_at(tuple(upper.tolist()), end, positive=True, image=image)
        yield writer.call(band.plan, {}, position, begin, after)
    # the next call recomputes the intermediate tensors: the machine poisons what is left of them
    yield from map(Discard, writer.laid)


def _laid(inner: ExpandedSchedule, addresses: Addresses, band: Band) -> Mapping[str, Laid]:
    """The location of each intermediate tensor of a band: in a chain, a ring of rows."""
    if not band.slots and not band.kept:
        return laid_storages(inner, addresses)
    found: dict[str, Laid] = {}
    for name, slots in band.slots.items():
        storage = inner.schedule.parts.rows.storages[inner.schedule.parts.rows.number[name]]
        size = slots * storage.row_bytes
        rows = Rows(storage.row_bytes, slots)
        found[name] = Laid(storage, addresses.offsets[name], size, rows)
    return found


def first_column(band: Band, section: TensorSection) -> Expr:
    """The first column of a section; if there are several bands, in terms of the loop variable."""
    moved = binary("*", BAND, section.step) if band.count > 1 else 0
    return binary("+", section.first_column, moved)


def band_buffers(expanded: ExpandedSchedule, addresses: Addresses) -> Iterator[Buffer]:
    """The buffers of the intermediate tensors of all bands, and of their scratch."""
    schedule = expanded.schedule
    for plan in schedule.plans:
        found = (schedule.find_bands(schedule.parts.parts[k]) for k in plan.parts)
        for bands in (bands for bands in found if bands is not None):
            if bands.kept:
                arena = addresses.offsets[scratch_name(schedule, plan)]
                yield from (_kept_buffer(schedule, arena, kept) for kept in bands.kept)
            for band in bands.bands:
                inner = expanded_band(band, schedule.memory)
                placed = band_addresses(schedule, addresses, plan, band)
                yield from Writer(inner, _laid(inner, placed, band)).buffers()
                yield from scratch_buffers(inner, placed)


def _kept_buffer(schedule: Schedule, arena: int, kept: KeptTensor) -> Buffer:
    home, address = schedule.memory.default, arena + kept.offset
    return Buffer(kept.tensor, Kind.ARENA, home, address, kept.size_bytes)


def band_addresses(schedule: Schedule, addresses: Addresses, plan: Plan, band: Band) -> Addresses:
    """The addresses of a band's blocks: their offsets in the arena, from its address on."""
    arena = addresses.offsets[scratch_name(schedule, plan)] if band.offsets else 0
    offsets = {name: arena + offset for name, offset in band.offsets.items()}
    return Addresses(offsets, addresses.heights)
