"""Schedule: plans that cover the graph, in order.  Frontier: the schedules worth placing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

from penstock.brief import Brief
from penstock.scheduling.model.cost import Cost
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Gaps:
    """Optimality gaps: how far memory may lie above the optimum, as a fraction of a lower bound.

    order: gap of the execution order without stripes; partition: gap of the split into cascades.
    0.0 means proven optimal.
    """

    order: float
    partition: float


@dataclass(frozen=True, repr=False)
class Schedule(Brief):
    """A sequence of plans, in execution order, that runs each part of a graph once.

    memory: memory region of each storage.
    copier: name of the copy engine; None if the target has none.
    keep_inputs: whether the network's inputs must survive the run.
    peak_bytes: live bytes at the peak, in the default memory region.
    gaps: how far the memory may lie above the optimum, as fractions of a lower bound.
    """

    parts: Parts
    plans: tuple[Plan, ...]
    memory: MemoryAssignment
    copier: str | None
    keep_inputs: bool
    peak_bytes: int
    gaps: Gaps

    @cached_property
    def cost(self) -> Cost:
        """Total cost of all plans."""
        return reduce(Cost.__add__, (plan.cost for plan in self.plans), Cost())

    @property
    def order(self) -> tuple[int, ...]:
        """Indices of the parts, in execution order."""
        return tuple(k for plan in self.plans for k in plan.parts)

    @property
    def steps(self) -> tuple[Part, ...]:
        """Parts in execution order, each with the kernel that its plan selects."""
        parts = self.parts.parts
        return tuple(
            plan.with_selected_kernel(k, parts[k]) for plan in self.plans for k in plan.parts
        )


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Brief):
    """Schedules that may be Pareto-optimal in (memory, cycles), by increasing live bytes."""

    schedules: tuple[Schedule, ...]
