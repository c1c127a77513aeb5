"""Printer of schedules; the docstring of the module `frontier` describes the syntax."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.ir.text.attributes import ConstantTable, attribute
from penstock.ir.text.labels import Labels
from penstock.scanner import name_or_string, quoted
from penstock.scheduling.bands.band_schedule import plan_configs
from penstock.scheduling.bands.variant import AssignedPlan, assigned_plans
from penstock.scheduling.model.cost import NOTHING, Cost
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import TensorConfig
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def print_schedules(schedules: Iterable[Schedule], *, with_stripes: bool = False) -> str:
    """Return schedules as text: lines for the schedules, then for all plans, then for all costs.

    Schedules refer to plans, and plans to costs, by names such as "p0" and "c0".
    with_stripes: also print the stripes of the tensors of each plan.

    All schedules must be of the same graph, split into the same parts by the stage `assign`.
    """
    return "".join(f"{line}\n" for line in _Printer(with_stripes).lines(tuple(schedules)))


@dataclass
class _Printer:
    """Prints schedules, then the plans and costs to which they refer by name.

    with_stripes: whether to print the stripes of the tensors of each plan.
    costs: the name of each cost, such as "c0".
    plans: the name of each plan, such as "p0".
    table: constants that occur in the text.
    """

    with_stripes: bool
    costs: dict[Cost, str] = field(default_factory=dict[Cost, str])
    plans: dict[AssignedPlan, str] = field(default_factory=dict[AssignedPlan, str])
    table: ConstantTable = field(default_factory=ConstantTable)

    def lines(self, schedules: tuple[Schedule, ...]) -> Iterator[str]:
        if not schedules:
            return
        parts = schedules[0].assigned_parts
        labels = Labels.of(parts.graph)
        plans_of = tuple(map(assigned_plans, schedules))
        for plan in (plan for plans in plans_of for plan in plans):
            self.plans.setdefault(plan, f"p{len(self.plans)}")
        state: tuple[str, ...] = ()
        for schedule, used in zip(schedules, plans_of, strict=True):
            found = tuple(self._state(schedule))
            yield from (line for line in found if line not in state)
            state = found
            plans = ", ".join(self.plans[plan] for plan in used)
            head = " ".join(("schedule", *_figures(schedule)))
            yield f"{head} = {plans}".rstrip()
        configs = _stripes(schedules, plans_of) if self.with_stripes else {}
        for plan, name in self.plans.items():
            names = ", ".join(labels(parts.parts[k].name) for k in plan.plan.parts)
            yield " ".join((f"plan {name}: {names}", *self._clauses(plan, parts, labels)))
            for found in configs.get(plan, ()):
                stripes = attribute(found.stripes, self.table)
                yield f"stripes {name} {labels(found.tensor)} {found.mode.value} = {stripes}"
        for cost, name in self.costs.items():
            yield f"cost {name} = {attribute(cost, self.table)}"

    def _state(self, schedule: Schedule) -> Iterator[str]:
        """Yield the lines `memory`, `copier`, `keep_inputs` and `updating` for a schedule.

        In the text, these lines apply to all schedules that follow.
        """
        rings = {copy.ring for copy in schedule.parts.row_copies}  # plans state their regions
        memory = schedule.memory.restricted(lambda tensor: tensor not in rings)
        yield f"memory {attribute(memory, self.table)}"
        if schedule.copier is not None:
            yield f"copier {name_or_string(schedule.copier)}"
        yield f"keep_inputs {attribute(schedule.keep_inputs, self.table)}"
        if schedule.updating:
            yield f"updating {attribute(schedule.updating, self.table)}"

    def _clauses(self, assigned: AssignedPlan, parts: Parts, labels: Labels) -> Iterator[str]:
        plan = assigned.plan
        if plan.stripe is not None:
            yield f"stripe {plan.stripe}"
        if plan.nearest_first:
            yield "nearest"
        if plan.scratch_bytes:
            yield f"scratch {plan.scratch_bytes}"
        yield from _bands(assigned, parts, labels)
        yield from (_row_copy(copy, labels) for copy in plan.row_copies)
        for prefetch in plan.copies:
            yield f"copy {labels(prefetch.constant)} {_transfer(prefetch)}"
        for prefetch, copy in plan.accelerator_prefetches:
            part = labels(parts.parts[copy.part].name)
            yield f"prefetch {part} {quoted(prefetch.constant)} {_transfer(prefetch)}"
        if plan.costs:
            yield f"cost {', '.join(map(self._cost, plan.costs))}"
        if plan.copying != NOTHING:
            yield f"copying {self._cost(plan.copying)}"
        if plan.waiting != NOTHING:
            yield f"waiting {self._cost(plan.waiting)}"

    def _cost(self, cost: Cost) -> str:
        return self.costs.setdefault(cost, f"c{len(self.costs)}")


def _figures(schedule: Schedule) -> Iterator[str]:
    """Yield peak and cycles of a schedule as text, then the optimality gaps that are not 0.

    Example: "2104 bytes 1296261 cycles", "order_gap 0.02".
    """
    yield f"{schedule.peak_bytes} bytes {schedule.cost.cycles} cycles"
    if schedule.gaps.order:
        yield f"order_gap {schedule.gaps.order!r}"
    if schedule.gaps.partition:
        yield f"partition_gap {schedule.gaps.partition!r}"


def _bands(assigned: AssignedPlan, parts: Parts, labels: Labels) -> Iterator[str]:
    if assigned.in_tiles:
        yield "tiles"
    if assigned.columns is not None:
        yield f"columns {assigned.columns}"
    for chain in assigned.chains:
        inside = ", ".join(labels(parts.parts[k].name) for k in chain.parts)
        kept = " kept" if chain.keeps_halos else ""
        yield f"chain {inside} columns {chain.columns}{kept}"


def _row_copy(copy: RowCopy, labels: Labels) -> str:
    """Return a copy of rows, as "rows x to tcm overlapped" or "rows x from tcm"."""
    overlapped = " overlapped" if copy.overlapped and not copy.out else ""
    direction = "from" if copy.out else "to"
    return f"rows {labels(copy.tensor)} {direction} {name_or_string(copy.region)}{overlapped}"


def _stripes(
    schedules: Sequence[Schedule], plans_of: Sequence[Sequence[AssignedPlan]]
) -> Mapping[AssignedPlan, tuple[TensorConfig, ...]]:
    """Return, for each plan, the stripes of each tensor that it computes.

    A plan has no entry if it runs neither in stripes nor in bands, but in calls that compute whole
    tensors.
    plans_of: the plans of each schedule.
    """
    found: dict[AssignedPlan, tuple[TensorConfig, ...]] = {}
    for schedule, plans in zip(schedules, plans_of, strict=True):
        expanded = ExpandedSchedule(schedule)
        for plan, cascade in zip(plans, expanded.cascades, strict=True):
            if plan not in found and (plan.plan.stripe, plan.columns) != (None, None):
                found[plan] = tuple(plan_configs(expanded, cascade))
    return found


def _transfer(prefetch: Prefetch) -> str:
    """Return source, target, size and start of a prefetch, as "from flash to sram 64 bytes early".

    The last word is left out unless the copy starts in the previous cascade.
    """
    memories = f"from {name_or_string(prefetch.source)} to {name_or_string(prefetch.target)}"
    return f"{memories} {prefetch.size_bytes} bytes{' early' if prefetch.early else ''}"
