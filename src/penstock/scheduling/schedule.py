"""Schedule: plans that together cover the graph, in order; Frontier: those worth considering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from penstock.scheduling.cost import Cost
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan


@dataclass(frozen=True, slots=True)
class InPlace:
    """Storage `written` begins where storage `read` ends its life, in the same memory."""

    read: str
    written: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Plans in the order in which they run.

    `in_place`: storages that take over the memory of one that their part reads for the last time.
    `peak_bytes`: live bytes at the worst moment; `order_gap`: by how much, at most, another order
    could be below it (0.0: proven least).
    """

    parts: Parts
    plans: tuple[Plan, ...]
    in_place: tuple[InPlace, ...]
    keep_inputs: bool
    peak_bytes: int
    order_gap: float

    @property
    def cost(self) -> Cost:
        return reduce(Cost.__add__, (plan.cost for plan in self.plans), Cost())

    @property
    def steps(self) -> tuple[Part, ...]:
        """Parts in the order in which they run."""
        return tuple(self.parts.parts[k] for plan in self.plans for k in plan.parts)


@dataclass(frozen=True, slots=True)
class Frontier:
    """Schedules of which none is worse than another in memory and cycles; least memory first."""

    schedules: tuple[Schedule, ...]
