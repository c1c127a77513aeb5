"""Accelerator resources and bytes that the layers of a schedule use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from penstock.ir.breakdown import Breakdown
from penstock.ir.op import Kernel
from penstock.reports.engine_work import is_offloaded
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.cold_starts import cold_calls
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


@dataclass(slots=True)
class ResourceUse:
    """The sum over all calls of a layer.

    `breakdown` is the use of resources, or None if the cost function does not state it. `traffic`
    is the number of bytes moved by category, empty if not stated.
    """

    breakdown: Breakdown | None = None
    traffic: Counter[str] = field(default_factory=Counter[str])

    def add(
        self, kernel: Kernel, first: int, end: int, memories: tuple[str, ...], *, cold: bool
    ) -> None:
        """Add a call for the output rows [first, end). See `Kernel` for the memory assignment of
        its tensors. `cold`: whether the call runs after a command of another engine."""
        found = kernel.cycles(end - first, memories) if kernel.cycles else None
        if isinstance(found, Breakdown):
            found = found.cold if cold else found
            self.breakdown = self.breakdown + found if self.breakdown else found
        if kernel.traffic:
            self.traffic.update(kernel.traffic(first, end))


def resource_use(schedule: Schedule) -> Mapping[str, ResourceUse]:
    """Return the use of each part that an accelerator runs, by name of the part."""
    steps = schedule.steps
    kernels = [_cached(part.kernel) if is_offloaded(part) else None for part in steps]
    if not any(kernels):
        return {}
    owners = schedule.parts.owners
    operands = [schedule.memory.for_part(part, owners).operand_regions(part) for part in steps]
    found: dict[str, ResourceUse] = {}
    cascades = ExpandedSchedule(schedule).cascades
    for cascade, flags in zip(cascades, cold_calls(cascades), strict=True):
        calls = cascade.calls[:, :3].tolist()
        for (position, first, end), cold in zip(calls, flags.tolist(), strict=True):
            kernel, name = kernels[position], steps[position].name
            if kernel is not None:
                use = found.setdefault(name, ResourceUse())
                use.add(kernel, first, end, operands[position], cold=cold)
    for plan in schedule.plans:
        for k, breakdown in zip(plan.parts, plan.breakdowns, strict=False):
            if breakdown is not None:
                found[schedule.parts.parts[k].name].breakdown = breakdown
    return found


def _cached(kernel: Kernel) -> Kernel:
    """Return the kernel with a cached cost function."""
    return replace(kernel, cycles=kernel.cycles and cache(kernel.cycles))
