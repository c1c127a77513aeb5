"""Schedule: plans that together cover the graph, in order; Frontier: those worth considering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

from penstock.brief import Brief
from penstock.scheduling.cost import Around, Cost
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.plan import Plan


@dataclass(frozen=True, slots=True, repr=False)
class Homes(Brief):
    """Names of memories: of tensors, but those `away` (storage, memory), and of constants; and of
    the engine that copies between them, if there is one."""

    tensors: str
    constants: str
    copier: str = ""
    away: tuple[tuple[str, str], ...] = ()

    def of(self, storage: str) -> str:
        """The memory in which a storage lives."""
        return dict(self.away).get(storage, self.tensors)

    def around(self, part: Part, owners: Mapping[str, str]) -> Around:
        """Where a part's inputs and its output live; `owners`: storages of values, by name."""
        away = dict(self.away)
        found = tuple(
            "" if value.data is not None else away.get(owners[value.name], "")
            for value in (*part.inputs, part.output)
        )
        return found if any(found) else ()


@dataclass(frozen=True, slots=True)
class Gaps:
    """By how much, at most, something else could need less memory; 0.0: proven least."""

    order: float
    partition: float


@dataclass(frozen=True, repr=False)
class Schedule(Brief):
    """Plans in the order in which they run; `peak_bytes`: live bytes at the worst moment, in the
    memory of inputs and outputs."""

    parts: Parts
    plans: tuple[Plan, ...]
    homes: Homes
    keep_inputs: bool
    peak_bytes: int
    gaps: Gaps

    @cached_property
    def cost(self) -> Cost:
        return reduce(Cost.__add__, (plan.cost for plan in self.plans), Cost())

    @property
    def order(self) -> tuple[int, ...]:
        """Indices of the parts in the order of the plans."""
        return tuple(k for plan in self.plans for k in plan.parts)

    @property
    def steps(self) -> tuple[Part, ...]:
        """Parts in the order of the plans, with the kernels that serve them there."""
        parts = self.parts.parts
        return tuple(plan.served(k, parts[k]) for plan in self.plans for k in plan.parts)


@dataclass(frozen=True, slots=True, repr=False)
class Frontier(Brief):
    """Schedules of which none is worse than another in memory and cycles; least memory first."""

    schedules: tuple[Schedule, ...]
