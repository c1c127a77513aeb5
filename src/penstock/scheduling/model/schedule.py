"""Schedule: the plans of all cascades, in order.  Frontier: the schedules worth placing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import pairwise, zip_longest

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts, fused_members
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.stated import StatedSchedule
from penstock.scheduling.model.stripe import ComputedBox


@frozen
class Gaps:
    """Optimality gaps: how far memory may lie above the optimum, as a fraction of a lower bound.

    0.0 means proved optimal; 0.05 means at most 5 % above the lower bound.
    order: the peak of the execution order, compared with a lower bound over all orders.  Both are
        determined as if each part computed its whole output in one call.
    partition: the peak of the schedule, that is, of the order divided into cascades, compared with
        a lower bound over all schedules.
    """

    order: float
    partition: float


@dataclass(frozen=True, repr=False)
class Schedule(Brief):
    """A sequence of plans, in execution order, that runs each part of a graph once.

    As in TVM RFC 0037, it is made from the selected proposal.

    parts: all parts of the graph (nodes with their kernels).
    plans: one per cascade: its parts, stripes and cost.
    memory: memory region of each tensor.
    keep_inputs: whether the network's inputs must not be overwritten.
    peak_bytes: maximum of the live bytes in the default memory region.
    gaps: how far the memory may lie above the optimum, as fractions of a lower bound.
    updating: cost of each of `Parts.updates`, which run after all plans.
    bands: one entry for each cascade that runs in bands of columns, and for each chain.  In
        `parts`, a single part replaces all parts of the cascade or chain.
    assigned: the original parts, before single parts replaced cascades, chains and groups in tiles;
        None if there are no such single parts.
    pace_cycles: for a schedule of an alternative for speed, the least cycles of others that need no
        more memory; None: its own.  See `pace`.
    boxes: if some stripes of the network's tensors are nodes of their own: what they compute.
    stated: what the user stated, if there are `boxes`.
    """

    parts: Parts
    plans: tuple[Plan, ...]
    memory: MemoryAssignment
    keep_inputs: bool
    peak_bytes: int
    gaps: Gaps
    updating: tuple[Cost, ...] = ()
    bands: tuple[Bands, ...] = ()
    assigned: Parts | None = None
    pace_cycles: int | None = field(default=None, compare=False)
    boxes: tuple[ComputedBox, ...] = ()
    stated: StatedSchedule | None = None

    @property
    def assigned_parts(self) -> Parts:
        """The original parts, from the stage `assign`.

        These are the parts before each cascade or chain in bands was replaced by a single part.
        """
        return self.parts if self.assigned is None else self.assigned

    def find_bands(self, part: Part) -> Bands | None:
        """Return the bands of the cascade or chain that `part` replaces; None if there is none."""
        return next((bands for bands in self.bands if bands.name == part.name), None)

    @cached_property
    def cost(self) -> Cost:
        """Total cost of all plans and of the updates of states."""
        plans = (plan.cost for plan in self.plans)
        return reduce(Cost.__add__, (*plans, *self.updating), NOTHING)

    @property
    def pace(self) -> int:
        """The cycles with which the goal `balanced` compares: it saves memory, so it does not
        follow schedules that spend memory on speed."""
        return self.cost.cycles if self.pace_cycles is None else self.pace_cycles

    @cached_property
    def external_bytes(self) -> int:
        """Bytes to and from main memory, of all calls (`Cost.external_bytes`); after placement."""
        each = (
            cost.external_bytes(stated, self.memory.default)
            for plan in self.plans
            for cost, stated in zip_longest(plan.costs, plan.breakdowns)
        )
        return round(sum(each))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The names of the original parts, divided into groups, in execution order.

        The parts of a cascade are a group, as are those that run tile by tile, and those that use a
        tensor outside of the default memory region.
        """
        parts, outside = self.parts, dict(self.memory.exceptions)
        joined = [list(plan.parts) for plan in self.plans]
        users: dict[str, list[int]] = {}
        for k in self.order:
            part = parts.parts[k]
            for name in {parts.owners[v.name] for v in (*part.variable_inputs, part.output)}:
                if name in outside:
                    users.setdefault(name, []).append(k)
        near: dict[int, set[int]] = {k: set() for k in self.order}
        for members in (*joined, *users.values()):
            for a, b in pairwise(members):
                near[a].add(b)
                near[b].add(a)
        found: list[tuple[str, ...]] = []
        seen: set[int] = set()
        position = {k: p for p, k in enumerate(self.order)}
        for first in self.order:
            group, fresh = set[int](), {first} - seen
            while fresh:
                group |= fresh
                fresh = {b for a in fresh for b in near[a]} - group
            seen |= group
            every = (parts.parts[k] for k in sorted(group, key=position.__getitem__))
            names = tuple(n for part in every for n in fused_members(part) or (part.name,))
            found += [names] if names else []
        return tuple(found)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Indices of the parts, in execution order."""
        return tuple(k for plan in self.plans for k in plan.parts)

    @cached_property
    def steps(self) -> tuple[Part, ...]:
        """Parts in execution order, each with only the kernel that its plan runs."""
        parts = self.parts.parts
        return tuple(
            plan.with_selected_kernel(k, parts[k]) for plan in self.plans for k in plan.parts
        )


@frozen(repr=False)
class Frontier(Brief):
    """Schedules that may be Pareto-optimal in (memory, cycles), by increasing live bytes.

    The placement of tensors determines the final memory and cycles of each schedule.
    """

    schedules: tuple[Schedule, ...]
