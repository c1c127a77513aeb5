"""The live bytes of the arena while each tensor is computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from penstock.reports.timeline import Timeline
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def live_bytes(schedule: Schedule, arena: Timeline) -> Mapping[str, int]:
    """Return the maximum of the live bytes in the calls that compute each tensor, by name.

    A call of a chain computes all tensors of the chain.
    """
    found: defaultdict[str, int] = defaultdict(int)
    for cascade in ExpandedSchedule(schedule).cascades:
        for call, position in enumerate(cascade.calls[:, 0].tolist()):
            part = schedule.parts.parts[cascade.plan.parts[position - cascade.lower]]
            bands = schedule.find_bands(part)
            sections = () if bands is None else (s for b in bands.bands for s in b.sections)
            names = {part.label} if bands is None else {section.tensor for section in sections}
            live = int(arena.live_bytes[cascade.tick + call])
            for name in names:
                found[name] = max(found[name], live)
    return found
