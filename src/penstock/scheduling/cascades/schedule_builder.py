"""ScheduleBuilder: turns proposals into costed schedules, with and without prefetches.

A proposal is a division of an execution order into cascades.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from penstock.optional import attempt_all
from penstock.pareto import Group, frontier_of_groups, thinned
from penstock.scheduling.cascades.candidate import Candidate, Proposal
from penstock.scheduling.cascades.selection import noticeably_faster
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import Order
from penstock.scheduling.prefetch.accelerator_prefetch import (
    PrefetchCandidates,
    PrefetchedSchedule,
    with_accelerator_prefetches,
)
from penstock.scheduling.prefetch.double_buffering import FILLS, with_double_buffering
from penstock.scheduling.row_copies.estimates import RowCopyEstimates
from penstock.scheduling.row_copies.row_copy_search import RowCopySearch, costed
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.walk import WHOLE


@dataclass(frozen=True, slots=True)
class ScheduleBuilder:
    """Builds schedules from proposals, that is, from divisions of an execution order into cascades.

    accounting: computes the costs of the schedules.
    order: an execution order with its peak and a lower bound.  Every schedule reports the gap
        between the two (`Order.gap`), whatever order it runs in.
    row_copies: estimates copies of rows; None if the copy engine copies no rows.
    assigned: the original parts, from the stage `assign`, if `accounting.parts` contains parts that
        each replace several of them; otherwise None.
    """

    accounting: CostAccounting
    order: Order
    options: Options
    row_copies: RowCopyEstimates | None
    assigned: Parts | None = None

    def schedules(self, proposal: Proposal) -> Iterator[Schedule]:
        """Yield the proposal's schedule, then variants with double buffering by the copy engine.

        In a variant, the copy engine also copies constants for a cascade while the previous cascade
        runs, if the memory region to which they are copied has room for them.  One variant is built
        for each entry of `FILLS`, which is the maximum share of a region that live bytes may
        occupy.  Schedules with equal plans are yielded once.  There are no variants if the target
        has no copy engine, or if an option disables them.

        If `row_copies` is not None, each of these schedules may be followed by faster ones that
        also copy rows of tensors to or from faster memory.
        """
        parts, memories = self.accounting.parts, self.accounting.memories
        memory = memories.default_assignment.extended(
            pair for c in proposal.cascades for pair in c.memory.exceptions
        )
        copier = memories.copier.name if memories.copier is not None else None
        plans = tuple(_plan(c, proposal.order) for c in proposal.cascades)
        keep = self.options.keep_input
        partition = _partition_gap(parts, proposal.peak_bytes, memories, self.options)
        gaps = Gaps(self.order.gap, partition)
        updating = self.accounting.update_costs(memory)
        bare = Schedule(
            parts,
            plans,
            memory,
            copier,
            keep,
            proposal.peak_bytes,
            gaps,
            updating,
            assigned=self.assigned,
        )
        costed = self._costed(bare)
        every = [costed]
        if memories.copier is not None and self.options.copies and self.options.double_buffering:
            every += (self._costed(with_double_buffering(costed, memories, fill)) for fill in FILLS)
        for schedule in {schedule.plans: schedule for schedule in every}.values():
            yield schedule
            if self.row_copies is not None:
                yield from RowCopySearch(self.accounting, self.row_copies).variants(schedule)

    def every_schedule(self, proposals: Sequence[Proposal]) -> Iterator[Schedule]:
        """Yield the schedules of all proposals; `schedules` yields one or more for each proposal.

        If the proposals are in ascending order of memory, so are the schedules.
        """
        later: list[Schedule] = []  # copies of rows may keep tensors live for longer
        found = attempt_all("a schedule", proposals, lambda p: (p, tuple(self.schedules(p))))
        for proposal, schedules in found:
            every = [*later, *schedules]
            every.sort(key=lambda schedule: schedule.peak_bytes)
            later = [s for s in every if s.peak_bytes > proposal.peak_bytes]
            yield from every[: len(every) - len(later)]
        yield from later

    def with_accelerator_prefetches(self, proposals: Sequence[Proposal]) -> Iterator[Schedule]:
        """Yield Pareto-optimal schedules in (peak memory, cycles), in ascending order of memory.

        The candidates are the schedules of all proposals, with and without prefetches by
        accelerators.  The live bytes with prefetches are limited.  Four limits are tried for each
        schedule: its own peak; the peak of the schedule after it, if that is higher; the mean of
        these two peaks; and infinity.

        proposals: in ascending order of memory.
        """
        known: set[tuple[Plan, ...]] = set()
        relevant = [*thinned(proposals, lambda p: p.time, noticeably_faster)]
        for found in frontier_of_groups(self._variants(relevant), _peak_and_cycles):
            schedule = found.schedule
            if schedule.plans not in known:
                known.add(schedule.plans)
                prefetches = any(plan.accelerator_prefetches for plan in schedule.plans)
                yield self._costed(schedule) if prefetches else schedule

    def _variants(self, proposals: Sequence[Proposal]) -> Iterator[Group[PrefetchedSchedule]]:
        """Yield (bound, variants) for each schedule of the proposals.

        bound: lower bound of the peak live bytes of these and all later variants.  With it,
            `frontier_of_groups` can yield a variant before it evaluates all later ones.
        variants: the schedule itself, then up to four copies with prefetches by accelerators.  Each
            copy respects another limit of the live bytes (see `with_accelerator_prefetches`).
        """
        candidates = PrefetchCandidates(self.accounting)
        for one, follower in pairwise(chain(self._with_bounds(proposals), [None])):
            assert one is not None
            bound, schedule = one
            needed = schedule.peak_bytes
            above = max(needed, follower[1].peak_bytes) if follower is not None else needed
            variants = [PrefetchedSchedule(schedule, schedule.cost.cycles)]
            if any(plan.accelerator_prefetches for plan in schedule.plans):
                bare = (self._without_prefetches(plan) for plan in schedule.plans)
                schedule = self._costed(replace(schedule, plans=tuple(bare)))
            limits = dict.fromkeys((needed, (needed + above) // 2, above, math.inf))
            variants += with_accelerator_prefetches(schedule, candidates, limits)
            yield bound, variants

    def _with_bounds(self, proposals: Sequence[Proposal]) -> Iterator[tuple[int, Schedule]]:
        """Yield (bound, schedule) for each schedule of the proposals.

        bound: the peak live bytes of this schedule and of every later one are at least `bound`.
            The bound counts only tensors.  So it also holds for the variants of these schedules
            with other prefetches and less scratch memory, for which `_variants` needs it.
        """
        bounds = [*accumulate((p.tensors_bytes for p in reversed(proposals)), min)][::-1]
        for bound, proposal in zip(bounds, proposals, strict=True):
            yield from ((bound, schedule) for schedule in self.schedules(proposal))

    def _without_prefetches(self, plan: Plan) -> Plan:
        """Return the plan without prefetches by accelerators.

        The plan's scratch memory is increased if the parts need more without the prefetches.
        """
        parts = self.accounting.parts.parts
        least = max(parts[k].least_scratch_bytes for k in plan.parts)
        scratch = max(plan.scratch_bytes, least)
        return replace(plan, prefetches=plan.copies, scratch_bytes=scratch)

    def _costed(self, schedule: Schedule) -> Schedule:
        return costed(ExpandedSchedule(schedule), self.accounting)


def _peak_and_cycles(found: PrefetchedSchedule) -> tuple[int, int]:
    return found.schedule.peak_bytes, found.cycles


def _plan(c: Candidate, order: tuple[int, ...]) -> Plan:
    """Convert a candidate cascade into a plan without costs."""
    stripe = None if c.stripe == WHOLE else c.stripe
    parts = order[c.lower : c.upper]
    return Plan(parts, stripe, c.nearest_first, (), c.prefetches, scratch_bytes=c.scratch_bytes)


def _partition_gap(
    parts: Parts, peak_bytes: int, memories: MemorySystem, options: Options
) -> float:
    """Return the optimality gap of the partition of the order into cascades.

    0.0 if the search was exhaustive, else the excess of `peak_bytes` over a lower bound of the
    memory of all schedules (`RowParts.least_bytes`), as a fraction of this bound.
    """
    if memories.uniform and len(parts.parts) <= options.max_parts:
        return 0.0
    return max(0.0, peak_bytes / max(1, parts.rows.least_bytes) - 1.0)
