"""The stripes of every tensor of a schedule, those in bands of columns included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.scheduling.bands.band_schedule import expanded_band
from penstock.scheduling.bands.chain_costs import chain_calls, expanded_chain
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.parts import update_name
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.model.stripe import Stripes, whole_tensor
from penstock.scheduling.model.tensor_config import BufferMode, TensorConfig
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule


def tensor_configs(expanded: ExpandedSchedule) -> Iterator[TensorConfig]:
    """Yield the `TensorConfig` of each tensor that a schedule computes, in execution order.

    The states, which updates overwrite at the end of a run, come last.
    """
    schedule = expanded.schedule
    for cascade in expanded.cascades:
        yield from plan_configs(expanded, cascade)
    for part in schedule.parts.updates:
        region = schedule.memory.region(schedule.parts.owners[part.output.name])
        stripes = (whole_tensor(part.output.type.shape),)
        name = update_name(schedule.parts, part.output)
        yield TensorConfig(name, region, BufferMode.FULL, stripes)


def plan_configs(expanded: ExpandedSchedule, cascade: ExpandedCascade) -> Iterator[TensorConfig]:
    """Yield the `TensorConfig` of each tensor that one plan of a schedule computes.

    cascade: the plan, with its calls.
    """
    schedule = expanded.schedule
    parts, memory = schedule.parts, schedule.memory
    rings = {copy.ring for copy in parts.row_copies}
    for place, stripes in enumerate(cascade.stripes):
        part = parts.parts[cascade.plan.parts[place]]
        bands = schedule.find_bands(part)
        if bands is not None:
            yield from _configs_in_bands(bands, schedule, cascade)
            continue
        if part.name in rings:
            continue  # the plan states the copy
        region = memory.region(parts.owners[part.name])
        mode = _mode(expanded, cascade, cascade.lower + place)
        yield TensorConfig(part.name, region, mode, stripes)


def _configs_in_bands(
    bands: Bands, schedule: Schedule, cascade: ExpandedCascade
) -> Iterator[TensorConfig]:
    """Yield the `TensorConfig` of each tensor that a cascade or chain in bands computes."""
    memory, owners = schedule.memory, schedule.parts.owners
    found: dict[str, Stripes] = {}
    for band in bands.bands:
        for value, stripes in band_stripes(bands, band, cascade, memory).items():
            name = next(s.tensor for s in band.sections if s.value == value)
            found[name] = (*found.get(name, ()), *stripes)
    for name, stripes in found.items():
        mode = BufferMode.FULL if name == bands.name else BufferMode.RECOMPUTE
        yield TensorConfig(name, memory.region(owners.get(name, name)), mode, stripes)


def band_stripes(
    bands: Bands, band: Band, cascade: ExpandedCascade, memory: MemoryAssignment
) -> Mapping[str, Stripes]:
    """Return the stripes that consecutive bands compute, by tensor.

    band: stands for these bands.  They run the same parts on different columns.  Each part computes
        a tensor of the band, which consists of some columns of a tensor of the network.
    bands: all bands of the cascade or chain; `band` is one of the entries of `bands.bands`.
    cascade: the network's cascade in which a single part stands for all of `bands`.
    memory: the memory assignment of the network.

    The keys of the result are the names of the tensors that the parts of `band` compute, in the
    band's own graph.  The stripes are intervals of rows and columns of the corresponding tensors of
    the network.  They cover all bands for which `band` stands.
    """
    if bands.call_rows is None:
        (inner,) = expanded_band(band, memory).cascades
    else:
        inner = expanded_chain(band, chain_calls(bands, cascade), memory)
    sections = {section.value: section for section in band.sections}
    names = [band.parts.parts[k].name for k in inner.plan.parts]
    return {
        name: tuple(map(sections[name].nested, stripes))
        for name, stripes in zip(names, inner.stripes, strict=True)
    }


def _mode(expanded: ExpandedSchedule, cascade: ExpandedCascade, position: int) -> BufferMode:
    """Return the buffer mode of a tensor: how much of it is in memory while its cascade runs."""
    tables = expanded.tables
    inside = int(tables.last[tables.written[position]]) < cascade.upper
    several = len(cascade.calls[cascade.calls[:, 0] == position]) > 1
    return BufferMode.ROLLING if inside and several else BufferMode.FULL
