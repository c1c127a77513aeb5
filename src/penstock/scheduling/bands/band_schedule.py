"""Schedules of bands: every band is a cascade whose intermediate tensors are placed in an arena."""

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

    memory: the memory assignment of the network; all tensors of a band are in its default region.
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
    """Plan one band as a cascade, and place its intermediate tensors.

    stripe: maximum number of rows per call.
    scratch_bytes: scratch memory of the kernels, unless their fallbacks need more.

    Returns the plan with its cost, the offset of each memory block by name, and the size of the
    arena in bytes.
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
