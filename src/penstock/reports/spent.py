"""Spent: what the layers of a schedule need of an accelerator: its resources, and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from penstock.ir.breakdown import Breakdown
from penstock.ir.op import Kernel
from penstock.reports.engine_work import is_offloaded
from penstock.scheduling.lifetimes import Unfolded
from penstock.scheduling.schedule import Schedule


@dataclass(slots=True)
class Spent:
    """What all calls of a layer need: of resources, None where the cost function does not say; and
    the bytes that they move, by what they are, none where nobody says."""

    breakdown: Breakdown | None = None
    traffic: Counter[str] = field(default_factory=Counter[str])

    def add(self, kernel: Kernel, first: int, end: int, homes: tuple[str, ...]) -> None:
        """Another call, for rows [first, end) of the output; `homes`: see Kernel."""
        found = kernel.cycles(end - first, homes) if kernel.cycles else None
        if isinstance(found, Breakdown):
            self.breakdown = self.breakdown + found if self.breakdown else found
        if kernel.traffic:
            self.traffic.update(kernel.traffic(first, end))


def spent(schedule: Schedule) -> Mapping[str, Spent]:
    """By name of a part, of those that accelerators run."""
    steps = schedule.steps
    kernels = [_cached(part.kernel) if is_offloaded(part) else None for part in steps]
    if not any(kernels):
        return {}
    homes, owners = schedule.homes, schedule.parts.owners
    around = [homes.around(part, owners) for part in steps]
    found: dict[str, Spent] = {}
    for cascade in Unfolded(schedule).cascades:
        for position, first, end in cascade.calls[:, :3].tolist():
            kernel, name = kernels[position], steps[position].name
            if kernel is not None:
                found.setdefault(name, Spent()).add(kernel, first, end, around[position])
    for plan in schedule.plans:
        for k, needed in zip(plan.parts, plan.needs, strict=False):
            if needed is not None:
                found[schedule.parts.parts[k].name].breakdown = needed
    return found


def _cached(kernel: Kernel) -> Kernel:
    """The same; its cost is asked once for each number of rows."""
    return replace(kernel, cycles=kernel.cycles and cache(kernel.cycles))
