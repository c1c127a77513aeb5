"""lower: translates a schedule with addresses into a program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import zip_longest

from penstock.program.band_loops import band_buffers, band_commands
from penstock.program.constants import (
    constant_buffers,
    initial_constant,
    initial_name,
    only_byte,
)
from penstock.program.expr import Expr
from penstock.program.nest import commands
from penstock.program.program import (
    Buffer,
    Command,
    FillTensor,
    Kind,
    LoadTensor,
    Memory,
    Program,
    View,
)
from penstock.program.writer import (
    Addresses,
    Fills,
    Writer,
    counter_view,
    laid_storages,
    scratch_buffers,
)
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    prefetch_name,
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
