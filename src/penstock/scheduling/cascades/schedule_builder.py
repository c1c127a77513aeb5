"""ScheduleBuilder: turns proposals into costed schedules, with and without prefetches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

from penstock.optional import attempt_all
from penstock.pareto import Group, frontier_of_groups, thinned
from penstock.scheduling.cascades.prefetches import (
    PrefetchCandidates,
    PrefetchedSchedule,
    with_accelerator_prefetches,
)
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.cascades.selection import noticeably_faster
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import Order
from penstock.scheduling.simulate.cost_accounting import CostAccounting, with_cold_starts
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


@dataclass(frozen=True, slots=True)
class ScheduleBuilder:
    """Builds schedules from proposals.

    order: every schedule reports the gap between its peak and its lower bound, whatever order it
        runs in.
    assigned: the original parts, if some of `accounting.parts` replace several of them.
    """

    accounting: CostAccounting
    order: Order
    options: Options
    assigned: Parts | None = None

    def schedule(self, proposal: Proposal) -> Schedule:
        """Return the proposal's schedule."""
        parts, memories = self.accounting.parts, self.accounting.memories
        memory = proposal.memory
        keep = self.options.keep_input
        partition = _partition_gap(parts, proposal.peak_bytes, memories, self.options)
        gaps = Gaps(self.order.gap, partition)
        updating = self.accounting.update_costs(memory)
        bare = Schedule(
            parts,
            proposal.plans,
            memory,
            keep,
            proposal.peak_bytes,
            gaps,
            updating,
            assigned=self.assigned,
        )
        return self._costed(bare)

    def every_schedule(self, proposals: Sequence[Proposal]) -> Iterator[Schedule]:
        """Yield the schedules of all proposals, in ascending order of memory if these are."""
        yield from attempt_all("a schedule", proposals, self.schedule)

    def with_accelerator_prefetches(self, proposals: Sequence[Proposal]) -> Iterator[Schedule]:
        """Yield Pareto-optimal schedules in (peak memory, cycles), in ascending order of memory.

        With and without prefetches by accelerators, for proposals in ascending order of memory.
        """
        known: set[tuple[Plan, ...]] = set()
        relevant = [*thinned(proposals, lambda p: p.time, noticeably_faster)]
        for found in frontier_of_groups(self._variants(relevant), _peak_and_cycles):
            schedule = found.schedule
            if schedule.plans not in known:
                known.add(schedule.plans)
                prefetches = any(plan.prefetches for plan in schedule.plans)
                yield self._costed(schedule) if prefetches else schedule

    def _variants(self, proposals: Sequence[Proposal]) -> Iterator[Group[PrefetchedSchedule]]:
        """Yield (bound, variants) for each schedule of the proposals.

        bound: lower bound of the peak live bytes of these and all later variants.  With it,
            `frontier_of_groups` can yield a variant before it evaluates all later ones.
        """
        candidates = PrefetchCandidates(self.accounting)
        for one, follower in pairwise(chain(self._with_bounds(proposals), [None])):
            assert one is not None
            bound, schedule = one
            needed = schedule.peak_bytes
            above = max(needed, follower[1].peak_bytes) if follower is not None else needed
            variants = [PrefetchedSchedule(schedule, schedule.cost.cycles)]
            if any(plan.prefetches for plan in schedule.plans):
                bare = (self._without_prefetches(plan) for plan in schedule.plans)
                schedule = self._costed(replace(schedule, plans=tuple(bare)))
            # live bytes: its own peak, that of the next schedule, their mean, no limit
            limits = dict.fromkeys((needed, (needed + above) // 2, above, math.inf))
            variants += with_accelerator_prefetches(schedule, candidates, limits)
            yield bound, variants

    def _with_bounds(self, proposals: Sequence[Proposal]) -> Iterator[tuple[int, Schedule]]:
        """Yield each schedule, after a lower bound of its peak live bytes and those of all later
        ones."""
        # Tensors only: variants may have other prefetches and less scratch memory.
        bounds = [*accumulate((p.tensors_bytes for p in reversed(proposals)), min)][::-1]
        yield from zip(bounds, map(self.schedule, proposals), strict=True)

    def _without_prefetches(self, plan: Plan) -> Plan:
        parts = self.accounting.parts.parts
        # a kernel that reads prefetched constants may need less than all others of its part
        least = max(parts[k].least_scratch_bytes for k in plan.parts)
        scratch = max(plan.scratch_bytes, least)
        return replace(plan, prefetches=(), scratch_bytes=scratch)

    def _costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the costs of its parts, cold starts and prefetches."""
        accounting, cascades = self.accounting, ExpandedSchedule(schedule).cascades
        plans = tuple(accounting.costed(schedule, cascade) for cascade in cascades)
        plans = with_cold_starts(accounting.model, schedule, cascades, plans)
        return replace(schedule, plans=accounting.with_prefetch_costs(cascades, plans))


def _peak_and_cycles(found: PrefetchedSchedule) -> tuple[int, int]:
    return found.schedule.peak_bytes, found.cycles


def _partition_gap(
    parts: Parts, peak_bytes: int, memories: MemorySystem, options: Options
) -> float:
    """`Gaps.partition`: the excess of `peak_bytes` over `RowParts.least_bytes`, as a fraction of
    it."""
    if memories.uniform and len(parts.parts) <= options.max_parts:
        return 0.0  # the search was exhaustive
    return max(0.0, peak_bytes / max(1, parts.rows.least_bytes) - 1.0)
