"""Costs of chains (parts that run as one and recompute the tensors between them), call by call."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from penstock.scheduling.bands.band_schedule import expanded_band, row_windows
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.row_tables import Numbers


@dataclass(frozen=True, slots=True)
class CostedBand:
    """A band of a chain with its calls: everything that determines its cost in a network.

    Used as a key, so that the cost of a band is computed only once for several schedules.

    keeps_halos: whether the bands of the chain keep the columns that the next band also needs.
    parts: names of the parts of the band, which contain intervals of columns: the name
        "conv[0:18] of [0:16]" stands for columns [0, 18) of "conv" in the band [0, 16).
    plan: the plan of the band, without costs.
    memory: the memory assignment of the network.
    calls: the result of `chain_calls` as bytes, which can be hashed.
    """

    keeps_halos: bool
    parts: tuple[str, ...]
    plan: Plan
    memory: MemoryAssignment
    calls: bytes


def with_chain_costs(
    schedule: Schedule, model: CostModel, memories: MemorySystem, known: dict[CostedBand, Plan]
) -> Schedule:
    """Return a copy of a schedule in which all chains have costs.

    A chain runs in bands.  In the copy, the plan of each band (`Band.plan`) contains its cost.

    model: estimates the cycles of calls.
    memories: determines access times.
    known: plans with costs of bands in other schedules of the same graph; extended by those of this
        schedule.
    """
    if all(bands.call_rows is None for bands in schedule.bands):
        return schedule
    cascades = {
        schedule.parts.parts[k].name: cascade
        for cascade in ExpandedSchedule(schedule).cascades
        for k in cascade.plan.parts
    }

    def costed(bands: Bands) -> Bands:
        if bands.call_rows is None:
            return bands
        calls = chain_calls(bands, cascades[bands.name])
        found: list[Band] = []
        for band in bands.bands:
            names = tuple(part.name for part in band.parts.parts)
            memory = schedule.memory
            key = CostedBand(bands.keeps_halos, names, band.plan.bare, memory, calls.tobytes())
            if key not in known:
                known[key] = _plan(band, calls, model, memories, memory)
            found.append(replace(band, plan=known[key]))
        return replace(bands, bands=tuple(found))

    return replace(schedule, bands=tuple(map(costed, schedule.bands)))


def chain_calls(bands: Bands, cascade: ExpandedCascade) -> Numbers:
    """Return the rows [first, end) that each call of a chain computes, as an array (calls, 2).

    bands: the bands of the chain.
    cascade: the cascade that contains the chain.
    """
    names = [cascade.parts.parts[k].name for k in cascade.plan.parts]
    position = cascade.lower + names.index(bands.name)
    return cascade.calls[cascade.calls[:, 0] == position, 1:3]


def expanded_chain(band: Band, calls: Numbers, memory: MemoryAssignment) -> ExpandedCascade:
    """Return one band of a chain as a cascade: its parts, with the rows that each call computes.

    calls[i]: rows [first, end) of the chain's output that call i of the chain computes.
    memory: the memory assignment of the network.
    """
    windows = row_windows(expanded_band(band, memory).tables)
    inner = [
        (k, int(lower[first]), int(upper[end]), k)
        for first, end in calls.tolist()
        for k, (lower, upper) in enumerate(windows)
    ]
    count = len(band.parts.parts)
    return ExpandedCascade(band.parts, band.plan, 0, count, 1, np.array(inner, np.int64))


def _plan(
    band: Band,
    calls: Numbers,
    model: CostModel,
    memories: MemorySystem,
    memory: MemoryAssignment,
) -> Plan:
    """Return the plan of one band of a chain, with the costs of its parts in all calls.

    calls[i]: rows [first, end) of the chain's output that call i of the chain computes.
    """
    cascade = expanded_chain(band, calls, memory)
    accounting = CostAccounting(band.parts, model, memories)
    return accounting.costed(expanded_band(band, memory).schedule, cascade)
