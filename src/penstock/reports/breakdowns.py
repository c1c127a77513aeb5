"""breakdowns: what the layers of a schedule need of an accelerator's resources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from penstock.ir.breakdown import Breakdown
from penstock.reports.engine_work import is_offloaded
from penstock.scheduling.lifetimes import Unfolded
from penstock.scheduling.schedule import Schedule


def breakdowns(schedule: Schedule) -> Mapping[str, Breakdown]:
    """By name of a part, over all its calls; only of parts whose cost function gives breakdowns."""
    costs = [part.kernel.cycles if is_offloaded(part) else None for part in schedule.steps]
    if not any(costs):
        return {}
    costs = [cost and cache(cost) for cost in costs]
    homes, owners = schedule.homes, schedule.parts.owners
    around = [homes.around(part, owners) for part in schedule.steps]
    found: dict[str, Breakdown] = {}
    for cascade in Unfolded(schedule).cascades:
        for position, first, end in cascade.calls[:, :3].tolist():
            cost, name = costs[position], schedule.steps[position].name
            call = None if cost is None else cost(end - first, around[position])
            if isinstance(call, Breakdown):
                found[name] = found[name] + call if name in found else call
    return found
