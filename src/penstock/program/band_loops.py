"""Cascades in bands of columns as commands: a loop over consecutive bands that are alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from penstock.program.cascade import commands
from penstock.program.expr import Expr, Var, binary
from penstock.program.laid import Addresses, laid_storages
from penstock.program.program import Buffer, Command, Loop, View
from penstock.program.writer import Writer, scratch_buffers
from penstock.scheduling.bands.band_schedule import expanded_band
from penstock.scheduling.model.bands import Band, TensorSection
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import scratch_name

_NUMBER = Var("band")
"""Loop variable: number of a band among consecutive bands that are alike."""


def band_commands(
    expanded: ExpandedSchedule, addresses: Addresses, writer: Writer, plan: Plan, band: Band
) -> Iterator[Command]:
    """Commands of consecutive bands: a loop over the bands if there are several.

    plan: the plan of the network that runs the bands; its scratch memory is their arena.
    writer: creates the views of the network's tensors.
    """
    schedule = expanded.schedule
    values = {value.name: value for value in schedule.parts.graph.variables()}
    columns: dict[str, tuple[str, Expr]] = {}
    outside: dict[str, View] = {}
    for section in band.sections:
        first = first_column(band, section)
        columns[section.value] = section.tensor, first
        if section.value in band.parts.outside:
            tensor = values[section.tensor]
            view = writer.view(tensor, {})
            column_bytes = tensor.type.shape[-1] * tensor.type.dtype.size_bytes
            offset = binary("+", view.offset, binary("*", first, column_bytes))
            outside[section.value] = replace(view, offset=offset)
    inner = expanded_band(band, schedule.memory)
    laid = laid_storages(inner, _band_addresses(schedule, addresses, plan, band))
    inner_writer = Writer(inner, laid, outside, columns)
    (cascade,) = inner.cascades
    call = partial(inner_writer.call, cascade.plan, {})
    body = commands(inner.tables_for(cascade.plan), cascade, call, {})
    yield from body if band.count == 1 else (Loop(_NUMBER.name, 0, band.count, 1, body),)


def first_column(band: Band, section: TensorSection) -> Expr:
    """The first column of a section; if there are several bands, in terms of the loop variable."""
    moved = binary("*", _NUMBER, section.step) if band.count > 1 else 0
    return binary("+", section.first_column, moved)


def band_buffers(expanded: ExpandedSchedule, addresses: Addresses) -> Iterator[Buffer]:
    """The buffers of the intermediate tensors of all bands, and of their scratch."""
    schedule = expanded.schedule
    for plan in schedule.plans:
        bands = schedule.find_bands(schedule.parts.parts[plan.parts[0]])
        for band in () if bands is None else bands.bands:
            inner = expanded_band(band, schedule.memory)
            placed = _band_addresses(schedule, addresses, plan, band)
            yield from Writer(inner, laid_storages(inner, placed)).buffers()
            yield from scratch_buffers(inner, placed)


def _band_addresses(schedule: Schedule, addresses: Addresses, plan: Plan, band: Band) -> Addresses:
    """The addresses of a band's blocks: their offsets in the arena, from its address on."""
    arena = addresses.offsets[scratch_name(schedule, plan)] if band.arena_bytes else 0
    offsets = {name: arena + offset for name, offset in band.offsets.items()}
    return Addresses(offsets, addresses.heights)
