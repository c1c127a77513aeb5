"""Schedule of a single band: the parts of a cascade, restricted to an interval of columns."""

from __future__ import annotations

from dataclasses import replace

from penstock.memory.place import place
from penstock.scheduling.model.bands import Band
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import placement_problems

_NO_GAPS = Gaps(0.0, 0.0)


def expanded_band(band: Band, memory: MemoryAssignment) -> ExpandedSchedule:
    """Return the schedule of a single band, expanded into calls.

    memory: memory assignment of the network.  A band uses only the default memory region.
    """
    return _expanded(band.parts, band.plan, replace(memory, exceptions=()))


def _expanded(parts: Parts, plan: Plan, memory: MemoryAssignment) -> ExpandedSchedule:
    return ExpandedSchedule(
        Schedule(parts, (plan,), memory, None, keep_inputs=True, peak_bytes=0, gaps=_NO_GAPS)
    )


def planned(
    parts: Parts,
    stripe: int | None,
    scratch_bytes: int,
    model: CostModel,
    memories: MemorySystem,
) -> tuple[Plan, dict[str, int], int]:
    """Plan one band as a cascade and place its tensors; return (plan, offsets, arena size).

    parts: the parts that compute the band.
    stripe: maximum number of output rows per call; None: all rows.
    scratch_bytes: available scratch memory.  A part runs its preferred kernel if this suffices,
        else its fallback kernel.

    The plan includes its cost.  The offsets, in bytes, are those of the memory blocks in the arena,
    by block name.  The arena size is in bytes.
    """
    scratch = max(part.kernel_within(scratch_bytes).scratch_bytes for part in parts.parts)
    order = tuple(range(len(parts.parts)))
    bare = Plan(order, stripe, nearest_first=False, costs=(), scratch_bytes=scratch)
    expanded = _expanded(parts, bare, memories.default_assignment)
    (cascade,) = expanded.cascades
    plan = CostAccounting(parts, model, memories).costed(expanded.schedule, cascade)
    ((_, problem),) = placement_problems(expanded)
    placement = place(problem)
    return plan, dict(placement.offsets), placement.height_bytes
