"""ScheduleBuilder: turns proposals into costed schedules, with and without prefetches.

A kernel may read its constants from a prefetched copy (`Part.prefetching`).  A part that runs in
many calls then reads its constants from slow memory only once.  The accelerator makes the copy
during the first call of the part's own cascade or, for an early copy, of the previous cascade.  The
copy occupies memory from the start of the cascade that makes it to the end of the part's cascade.

The selection of prefetches is greedy.  Candidates are considered in descending order of their
estimated net saving: the cycles saved minus the stall cycles.  A candidate is added if it saves
cycles and the live bytes stay within a limit, alone or with a prefetch for the part whose call
makes the copy.  All candidates are considered twice, since their savings depend on the others.  A
cascade reads at most `MOST_PREFETCHES` early copies and at most `MOST_PREFETCHES` others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate, chain, pairwise

from penstock.frozen import frozen
from penstock.ir.op import ConstantPrefetch, Kernel
from penstock.optional import attempt_all
from penstock.pareto import Group, frontier_of_groups, noticeably_faster, thinned
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan, Prefetch, PrefetchStart
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.model.stripe import stripe_heights
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import Order
from penstock.scheduling.simulate.cost_accounting import CostAccounting, with_cold_starts
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedCascade,
    ExpandedSchedule,
    live_bytes,
)
from penstock.scheduling.simulate.row_tables import Numbers


@frozen
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
            variants = [PrefetchedSchedule(schedule, needed, schedule.cost.cycles)]
            if any(plan.prefetches for plan in schedule.plans):
                bare = (self._without_prefetches(plan) for plan in schedule.plans)
                schedule = self._costed(replace(schedule, plans=tuple(bare)))
            # live bytes: its own peak, that of the next schedule, no limit
            limits = [*dict.fromkeys((needed, above, math.inf))]
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
    return found.peak_bytes, found.cycles


def _partition_gap(
    parts: Parts, peak_bytes: int, memories: MemorySystem, options: Options
) -> float:
    """`Gaps.partition`: the excess of `peak_bytes` over `RowParts.least_bytes`, as a fraction of
    it."""
    if memories.uniform and len(parts.parts) <= options.max_parts:
        return 0.0  # the search was exhaustive
    return max(0.0, peak_bytes / max(1, parts.rows.least_bytes) - 1.0)


MOST_PREFETCHES = 3
"""Maximum number of a cascade's prefetches with the same start; an accelerator can address only a
few memory areas at a time."""
MOST_LIMITS = 1
"""Maximum number of limits of live bytes that are tried between those of two schedules.

Each is one more schedule to place: four took 45 % more time for MobileNetV2 on Ethos-U55."""


@frozen
class PrefetchCandidate:
    """A prefetch that a part of a cascade could use.

    part: index of the part in `Parts.parts`.
    kernel: the kernel that reads the copy.
    prefetch: the bytes copied, and the commands for the copy.
    start: the cascade in which the copy starts.
    saved_cycles: cycles by which the part's calls become faster; stalls are not subtracted.
    """

    part: int
    kernel: Kernel
    prefetch: ConstantPrefetch
    start: PrefetchStart
    saved_cycles: int

    @property
    def early(self) -> bool:
        """Whether the copy starts one cascade before the cascade that reads it."""
        return self.start is PrefetchStart.PREVIOUS_CASCADE

    def net_cycles(self, previous_call_cycles: float) -> float:
        """Return an estimate of the net saving: `saved_cycles` minus the stall due to the copy.

        A copy that starts in the previous cascade (`early`) stalls only for the cycles by which it
        outlasts the first call of that cascade.  Any other copy is assumed to stall for its whole
        duration.

        previous_call_cycles: cycles of the first call of the previous cascade.
        """
        hidden = max(0.0, previous_call_cycles) if self.early else 0.0
        return self.saved_cycles - max(0.0, self.prefetch.cycles - hidden)


_Chosen = tuple[PrefetchCandidate, ...]
"""The prefetches of a cascade."""


@frozen
class PrefetchedSchedule:
    """A schedule with prefetches by accelerators, and its estimated cycles.

    bare: the schedule without these prefetches.
    peak_bytes: its live bytes at the peak with them.
    cycles: estimated cycles of the schedule, including the effect of the prefetches.
    chosen, scratch_bytes: of each cascade: its prefetches, and the size of its scratch memory;
        empty if there are no prefetches.
    """

    bare: Schedule
    peak_bytes: int
    cycles: int
    chosen: Sequence[_Chosen] = ()
    scratch_bytes: Sequence[int] = ()

    @property
    def schedule(self) -> Schedule:
        """The schedule.  Its plans contain the prefetches, but the costs in the plans are those
        without the prefetches."""
        if not self.chosen:
            return self.bare
        each = zip(self.bare.plans, self.chosen, self.scratch_bytes, strict=True)
        plans = tuple(self._plan(*one) if one[1] else one[0] for one in each)
        return replace(self.bare, plans=plans, peak_bytes=self.peak_bytes)

    def _plan(self, plan: Plan, chosen: _Chosen, scratch_bytes: int) -> Plan:
        memory = self.bare.memory
        prefetches = (Prefetch.of(one.part, one.prefetch, memory, one.start) for one in chosen)
        return replace(plan, prefetches=tuple(prefetches), scratch_bytes=scratch_bytes)


@frozen
class PrefetchCandidates:
    """Finds the prefetches by accelerators that cascades could use.

    Results are memoised, since the schedules of a frontier have most of their cascades in common.
    accounting: computes the cycles of calls.
    _known: candidates of a plan, by (plan, memory assignment, engine of the first call of the
        previous cascade).
    """

    accounting: CostAccounting
    _known: dict[tuple[Plan, MemoryAssignment, str | None], tuple[PrefetchCandidate, ...]] = field(
        default_factory=dict[
            tuple[Plan, MemoryAssignment, str | None], tuple[PrefetchCandidate, ...]
        ]
    )

    def candidates(
        self, schedule: Schedule, cascades: Sequence[ExpandedCascade]
    ) -> Iterator[tuple[int, PrefetchCandidate]]:
        """Yield the candidates of all cascades, as pairs (index of the cascade, candidate)."""
        previous: str | None = None  # engine of the previous cascade's first call
        for c, cascade in enumerate(cascades):
            key = cascade.plan, schedule.memory, previous
            if key not in self._known:
                self._known[key] = tuple(self._candidates(cascade, previous))
            yield from ((c, candidate) for candidate in self._known[key])
            previous = self._engine(cascade)

    def _candidates(
        self, cascade: ExpandedCascade, previous: str | None
    ) -> Iterator[PrefetchCandidate]:
        """Yield the candidates of a cascade, also those that save no cycles by themselves.

        A copy starts in the first call of this cascade or, if early, of the previous cascade.  It
        is possible only if that call runs on the part's accelerator.
        previous: name of the engine of the previous cascade's first call; None if there is none.
        """
        engines = {
            PrefetchStart.PREVIOUS_CASCADE: previous,
            PrefetchStart.OWN_CASCADE: self._engine(cascade),
        }
        plan = cascade.plan
        for k, cost, stripes in zip(plan.parts, plan.costs, cascade.stripes, strict=True):
            part = self.accounting.parts.parts[k]
            possible = [start for start, engine in engines.items() if part.engine == engine]
            if not possible or not part.prefetching:
                continue
            heights = stripe_heights(stripes)
            for kernel in part.prefetching:
                assert kernel.prefetch is not None
                other = part.with_kernel(kernel)
                saved = cost.cycles - self.accounting.model.cycles(other, heights)
                for start in possible:
                    yield PrefetchCandidate(k, kernel, kernel.prefetch, start, saved)

    def _engine(self, cascade: ExpandedCascade) -> str:
        """Return the name of the engine that runs a cascade's first call."""
        return self.accounting.parts.parts[cascade.first_part].engine


def with_accelerator_prefetches(
    schedule: Schedule, candidates: PrefetchCandidates, limits: Sequence[float]
) -> Iterator[PrefetchedSchedule]:
    """Yield schedules within limits of live bytes: `schedule` with prefetches.

    schedule: a schedule with costs and without prefetches by accelerators.
    candidates: finds the prefetches to select from.
    limits: values for the maximum of the live bytes in the default memory region, in ascending
        order.  Up to `MOST_LIMITS` others between them are tried: each is the least with which the
        previous selection could have another prefetch.
    """
    expanded = ExpandedSchedule(schedule)
    cascades, live = expanded.cascades, live_bytes(expanded)
    accounting = candidates.accounting
    previous = [0.0, *(float(accounting.first_call_cycles(cascade)) for cascade in cascades)]
    every = [*candidates.candidates(schedule, cascades)]
    # of the part that each cascade's first call computes, the early prefetch of most bytes
    makers = dict[int, PrefetchCandidate]()
    for c, candidate in sorted(every, key=lambda found: found[1].prefetch.size_bytes):
        if candidate.early and candidate.part == cascades[c].first_part:
            makers[c + 1] = candidate
    found = sorted(
        ((c, one) for c, one in every if one.saved_cycles > 0),
        key=lambda o: -o[1].net_cycles(previous[o[0]]),
    )
    further, between = list(limits), MOST_LIMITS
    limit: float = further.pop(0)
    anothers = dict.fromkeys((False, True) if makers else (True,), 0.0)
    while True:
        for paired, least in anothers.items():
            if limit < least:
                continue  # the selection is the one within the limit before
            selection = _Selection(accounting, schedule, cascades, live, limit)
            for with_makers in (paired, True):
                for c, candidate in found:
                    maker = makers.get(c) if with_makers and candidate.early else None
                    selection.try_candidate(c, candidate, maker)
            yield selection.prefetched
            anothers[paired] = selection.another_bytes
        if not further:
            return
        another = min(anothers.values())
        if between and another < further[0]:
            limit, between = another, between - 1
        else:
            limit = further.pop(0)


@frozen
class _Extension:
    """What replaces parts of a selection if it has more prefetches.

    chosen, scratch_bytes, stalls: new values of a selection, by the index of the cascade.
    begin, live: new live bytes from tick `begin` on.
    saved_cycles: cycles that are saved in addition.
    """

    chosen: Mapping[int, _Chosen]
    scratch_bytes: Mapping[int, int]
    stalls: Mapping[int, int]
    begin: int
    live: Numbers
    saved_cycles: int


class _Selection:
    """The prefetches selected so far, within a limit of live bytes.

    live: live bytes in the default memory region, by tick; call k of the schedule is tick k + 1.
    saved_cycles: cycles saved so far, minus stall cycles.
    another_bytes: the least limit that would have admitted a candidate that exceeds this one;
        infinite if none does.
    _chosen, _scratch_bytes, _stalls: of each cascade: its prefetches, the size of its scratch
        memory, and the stall cycles of its first call.
    _served: the parts that have a prefetch.
    _rejected: of candidates that were tried in vain, by the identities of candidate and maker, the
        number of parts that had been served before.
    _changed: the number of parts that had been served when a cascade changed.
    """

    def __init__(
        self,
        accounting: CostAccounting,
        schedule: Schedule,
        cascades: Sequence[ExpandedCascade],
        live: Numbers,
        limit_bytes: float,
    ) -> None:
        self._accounting, self._schedule = accounting, schedule
        self._parts, self._cascades = schedule.parts.parts, cascades
        self._ticks = [(cascade.tick, cascade.end) for cascade in cascades]
        self.live, self._limit_bytes = live.copy(), limit_bytes
        self.another_bytes = math.inf
        self._chosen: list[_Chosen] = [()] * len(cascades)
        self._scratch_bytes = [plan.scratch_bytes for plan in schedule.plans]
        self._stalls, self._changed = [0] * len(cascades), [0] * len(cascades)
        self._served = set[int]()
        self._rejected = dict[tuple[int, int], int]()
        self.saved_cycles = 0

    @property
    def prefetched(self) -> PrefetchedSchedule:
        """The schedule with the selected prefetches."""
        peak, cycles = int(self.live.max()), self._schedule.cost.cycles - self.saved_cycles
        return PrefetchedSchedule(self._schedule, peak, cycles, self._chosen, self._scratch_bytes)

    def try_candidate(
        self, c: int, candidate: PrefetchCandidate, maker: PrefetchCandidate | None = None
    ) -> None:
        """Select a candidate if it saves cycles and respects these limits.

        - The live bytes do not exceed the limit of this selection.
        - A part has at most one prefetch.
        - A cascade has at most `MOST_PREFETCHES` prefetches that start in its own first call, and
          at most as many that start in the previous cascade.

        c: index of the candidate's cascade.
        maker: for an early candidate, a candidate of the part whose call makes the copy, if there
            is one.  Both are selected if that saves more: the call then reads its own constants
            from a copy, too, so it leaves the memory of constants to the copy that it makes.
        """
        if candidate.part in self._served:
            return
        key = id(candidate), id(maker)
        if max(self._changed[max(0, c - 2) : c + 2]) <= self._rejected.get(key, -1):
            return  # nothing that matters has changed since
        tried = [self._extended([(c, candidate)])]
        if maker is not None:
            tried.append(self._extended([(c - 1, maker), (c, candidate)]))
        best = max(filter(None, tried), key=lambda one: one.saved_cycles, default=None)
        if best is None or best.saved_cycles <= 0:
            self._rejected[key] = len(self._served)
            return
        self.saved_cycles += best.saved_cycles
        self.live[best.begin : best.begin + len(best.live)] = best.live
        for k, chosen in best.chosen.items():
            self._chosen[k], self._scratch_bytes[k] = chosen, best.scratch_bytes[k]
            self._served.add(chosen[-1].part)
        for k, stall in best.stalls.items():
            self._stalls[k] = stall
        for k in range(max(0, min(best.chosen) - 1), c + 1):
            self._changed[k] = len(self._served)

    def _extended(self, candidates: Sequence[tuple[int, PrefetchCandidate]]) -> _Extension | None:
        """Return the selection with more candidates, or None if they break a limit.

        candidates: pairs (index of the cascade, candidate), in the order of cascades.
        """
        if not all(self._takes(c, candidate) for c, candidate in candidates):
            return None
        first, last = candidates[0][0], candidates[-1][0]
        start = self._ticks[max(0, first - 1)][0]
        live = self.live[start : self._ticks[last][1]].copy()
        chosen, scratch, changed = dict[int, _Chosen](), dict[int, int](), set[int]()
        for c, candidate in candidates:
            chosen[c] = (*self._chosen[c], candidate)
            scratch[c] = self._needed_scratch(c, chosen[c])
            begin, end = self._ticks[c]
            live[begin - start : end - start] += scratch[c] - self._scratch_bytes[c]
            if candidate.early:
                begin = self._ticks[c - 1][0]
                changed.add(c - 1)
            live[begin - start : end - start] += candidate.prefetch.size_bytes
            changed.add(c)
        peak = int(live.max())
        if peak > self._limit_bytes:
            self.another_bytes = min(self.another_bytes, peak)
            return None
        stalls = {k: self._stall(k, chosen, scratch) for k in changed}
        saved = sum(candidate.saved_cycles for _, candidate in candidates)
        more = sum(cycles - self._stalls[k] for k, cycles in stalls.items())
        return _Extension(chosen, scratch, stalls, start, live, saved - more)

    def _takes(self, c: int, candidate: PrefetchCandidate) -> bool:
        """Return whether the limits of numbers of prefetches permit a candidate of a cascade."""
        if candidate.part in self._served:
            return False
        return sum(one.start is candidate.start for one in self._chosen[c]) < MOST_PREFETCHES

    def _stall(self, c: int, chosen: Mapping[int, _Chosen], scratch: Mapping[int, int]) -> int:
        """Return the stall cycles that prefetches add to the first call of a cascade.

        c: index of the cascade.
        chosen, scratch: what replaces the prefetches and the scratch bytes of the selection, by the
            index of their cascade.
        """
        mine, later = chosen.get(c, self._chosen[c]), chosen.get(c + 1)
        if later is None:
            later = self._chosen[c + 1] if c + 1 < len(self._chosen) else ()
        own = [one.prefetch for one in mine if not one.early]
        early = [one.prefetch for one in later if one.early]
        k = self._cascades[c].first_part
        kernel = self._kernels(mine, scratch.get(c, self._scratch_bytes[c]), (k,))[0]
        return self._accounting.stall_cycles_of(self._cascades[c], kernel, own, early)

    def _needed_scratch(self, c: int, chosen: _Chosen) -> int:
        """Return the scratch bytes that a cascade needs after one more prefetch has been added.

        The kernel that reads the copy may need more or less scratch memory than the kernel that it
        replaces.  Parts without prefetches run the same kernels as before.
        chosen: its prefetches with the new one.
        """
        parts = self._cascades[c].plan.parts
        kernels = self._kernels(chosen, self._scratch_bytes[c], parts)
        return max(kernel.scratch_bytes for kernel in kernels)

    def _kernels(self, chosen: _Chosen, scratch: int, parts: Sequence[int]) -> Sequence[Kernel]:
        """Return the kernels that parts run with prefetches and scratch bytes of their cascade."""
        reading = {one.part: one.kernel for one in chosen}
        return [reading.get(k) or self._parts[k].kernel_within(scratch) for k in parts]
