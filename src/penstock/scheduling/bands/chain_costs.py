"""Costs of chains, which depend on the rows that each call of a chain computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.scheduling.bands.band_schedule import expanded_band, row_windows
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade, ExpandedSchedule
from penstock.scheduling.simulate.row_tables import Numbers


def with_chain_costs(schedule: Schedule, model: CostModel, memories: MemorySystem) -> Schedule:
    """Return a schedule with the costs of the parts inside chains."""
    if all(bands.call_rows is None for bands in schedule.bands):
        return schedule
    order = schedule.order
    calls = np.concatenate([cascade.calls for cascade in ExpandedSchedule(schedule).cascades])
    names = [schedule.parts.parts[k].name for k in order]

    def costed(bands: Bands) -> Bands:
        if bands.call_rows is None:
            return bands
        mine = calls[calls[:, 0] == names.index(bands.name), 1:3]
        found = (
            replace(band, plan=_plan(band, mine, model, memories, schedule.memory))
            for band in bands.bands
        )
        return replace(bands, bands=tuple(found))

    return replace(schedule, bands=tuple(map(costed, schedule.bands)))


def _plan(
    band: Band,
    calls: Numbers,
    model: CostModel,
    memories: MemorySystem,
    memory: MemoryAssignment,
) -> Plan:
    """Return the plan of a band of a chain, with the costs of its parts.

    calls: the interval of rows that each call of the chain computes.
    memory: the memory assignment of the network.
    """
    expanded = expanded_band(band, memory)
    windows: Sequence[tuple[Numbers, Numbers]] = row_windows(expanded.tables)
    inner = [
        (k, int(lower[first]), int(upper[end]), k)
        for first, end in calls.tolist()
        for k, (lower, upper) in enumerate(windows)
    ]
    cascade = ExpandedCascade(band.plan, 0, len(band.parts.parts), 1, np.array(inner, np.int64))
    return CostAccounting(band.parts, model, memories).costed(expanded.schedule, cascade)
