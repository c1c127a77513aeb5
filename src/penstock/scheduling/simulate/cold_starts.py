"""Cold starts: calls that do not directly follow a call on the same engine.

While an accelerator runs a call, it may prefetch constants for its next call.  The first call of a
schedule starts cold, and so does a call after a command of another engine (the processor, another
accelerator or the copy engine).  Its engine has prefetched nothing for such a call, so the call may
take longer (`Breakdown.cold_start`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedCascade

Flags = npt.NDArray[np.bool_]


def cold_calls(cascades: Sequence[ExpandedCascade]) -> Iterator[Flags]:
    """Yield, for each cascade, an array that states which of its calls start cold.

    A call starts cold if the call before it runs on another engine, or if it is the first call of
    the schedule.  The first call of a cascade also starts cold if the copy engine prefetches
    constants for the cascade.  Example: the first cascade has two calls on an accelerator, then one
    on the processor; its array is [True, False, True].
    cascades: all cascades of a schedule.
    """
    last = ""
    for cascade in cascades:
        plan = cascade.plan
        engines = [cascade.parts.parts[k].engine for k in plan.parts]
        places = cascade.calls[:, 0] - cascade.lower
        numbers = np.array([engines.index(engine) for engine in engines])[places]
        begins_cold = bool(plan.copies) or engines[places[0]] != last
        yield np.append(begins_cold, np.diff(numbers) != 0)
        last = engines[places[-1]]


def with_cold_starts(
    model: CostModel,
    schedule: Schedule,
    cascades: Sequence[ExpandedCascade],
    plans: Sequence[Plan],
) -> tuple[Plan, ...]:
    """Return the plans with the additional cycles of cold starts added to their costs.

    cascades, plans: all cascades of the schedule, and their plans with costs of warm calls.
    """
    flags = cold_calls(cascades)
    each = zip(cascades, plans, flags, strict=True)
    return tuple(_with_cold_starts(model, schedule, *one) for one in each)


def _with_cold_starts(
    model: CostModel, schedule: Schedule, cascade: ExpandedCascade, plan: Plan, cold: Flags
) -> Plan:
    """Return one plan with the additional cycles of cold starts added to its costs.

    plan: the plan of `cascade`, with costs of warm calls.
    cold: for each call of the cascade, whether it starts cold (`cold_calls`).
    """
    parts, costs = schedule.parts, list(plan.costs)
    calls = Counter((p, end - first) for p, first, end in cascade.calls[cold, :3].tolist())
    for (position, rows), count in calls.items():
        place = position - cascade.lower
        k = plan.parts[place]
        part = parts.parts[k]
        if part.kernel.cycles is not None:
            memory = schedule.memory.for_part(part, parts.owners)
            selected = plan.with_selected_kernel(k, part)
            longer = count * model.cold_start_cycles(selected, rows, memory)
            costs[place] = replace(costs[place], cycles=costs[place].cycles + longer)
    return replace(plan, costs=tuple(costs))
