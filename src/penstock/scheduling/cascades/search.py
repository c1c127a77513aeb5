"""Search for schedules: divide execution orders of the parts into cascades.

For each order, dynamic programming (`proposals.py`) finds the divisions that are Pareto-optimal in
peak live bytes and estimated time, over several stripe heights and memory assignments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from heapq import merge
from itertools import zip_longest

from penstock.compiled import UNBOUNDED
from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.optional import attempt, attempt_each
from penstock.pareto import frontier, is_dominated, near_frontier
from penstock.scheduling.bands.band_schedule import BandSource
from penstock.scheduling.bands.below_rows import BelowRows, Sources
from penstock.scheduling.cascades.groups import GroupedProposal, grouped_proposal, whole_proposals
from penstock.scheduling.cascades.proposals import (
    Candidate,
    CandidateSource,
    CascadeProblem,
    PartOrder,
    Proposal,
    proposals,
)
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.cascades.rows import UniformSearch
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.grouping.strategies import ORDERS, STRATEGIES
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import FINE, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import AUTO, BEST, CASCADES, CYCLES, LEAST, RESIDENT, Options
from penstock.scheduling.order.order import (
    BEAM_WIDTH,
    Order,
    OrderOptions,
    find_order,
    order_by,
)
from penstock.scheduling.order.steps import OrderProblem, order_problem
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, live_bytes

MOST_GROUPED = 150
"""Maximum number of parts that `AUTO` divides into groups: the searches for groups take seconds."""


@frozen
class FrontierSearch:
    """The proposals for the schedules of a frontier; a schedule is built on demand.

    builder: builds the schedules of `by_rows`, the proposals without recomputation.
    below_rows: proposals with bands of columns or chains, in ascending order of memory.
    recomputing: builds the schedules of `below_rows`; None if there are none.
    sources: for `recomputing`, to repeat the search if a schedule needs more memory than its
        proposal.
    limit_bytes: exclusive limit of the live bytes of schedules of `below_rows`.
    grouped: the proposal in which groups of whole parts run one after the other; None: none.
    """

    builder: ScheduleBuilder
    by_rows: Sequence[Proposal]
    below_rows: Sequence[Proposal] = ()
    recomputing: BelowRows | None = None
    sources: Sources = field(default_factory=dict[PartOrder, CandidateSource])
    limit_bytes: int = 0
    grouped: GroupedProposal | None = None

    def schedules(self) -> Iterator[Schedule]:
        """Yield all schedules, by ascending memory unless `options.partition` is `RESIDENT`."""
        found = attempt("bands of columns", self._schedules_below_rows, tuple)
        return merge(found, self.schedules_by_rows(), key=lambda schedule: schedule.peak_bytes)

    def _schedules_below_rows(self) -> Sequence[Schedule]:
        if self.recomputing is None:
            return ()
        return self.recomputing.schedules(self.sources, self.below_rows, self.limit_bytes)

    @property
    def parts(self) -> Parts:
        return self.builder.accounting.parts

    def schedules_by_rows(self) -> Iterator[Schedule]:
        if self.grouped is None:
            return self._cascades()
        grouped = self.grouped.builder.schedule(self.grouped.proposal)
        return merge([grouped], self._cascades(), key=lambda schedule: schedule.peak_bytes)

    def _cascades(self) -> Iterator[Schedule]:
        builder, found = self.builder, False
        if builder.options.partition == CASCADES and self.parts.can_prefetch:
            prefetched = partial(builder.with_accelerator_prefetches, self.by_rows)
            for schedule in attempt_each("prefetches by accelerators", prefetched):
                found = True
                yield schedule
        if not found:
            yield from builder.every_schedule(self.by_rows)

    def schedule_below_rows(self, proposal: Proposal) -> Schedule | None:
        """The schedule of an element of `below_rows`; None as for `BelowRows.schedule`."""
        assert self.recomputing is not None
        return self.recomputing.schedule(proposal, self.limit_bytes)

    def estimated_cycles(self, proposal: Proposal) -> int:
        """The estimated cycles of an element of `below_rows`; usually too low."""
        # leaves out some of the overhead of calls in bands
        work_cycles = self.builder.accounting.model.work_cycles
        return proposal.time + sum(map(work_cycles, self.parts.parts))


def _banked(memories: MemorySystem) -> list[str]:
    return [memory.name for memory in memories.tensors if memory.bank_bytes]


def _others_count(memories: MemorySystem) -> bool:
    """Whether a memory other than the default one counts towards the budget."""
    return any(memory.budget for memory in memories.tensors[1:])


def _with_partition(options: Options, memories: MemorySystem, parts: int) -> Options:
    """Options that name the partition; AUTO is `BEST`, where that gains something in due time."""
    if options.partition != AUTO:
        return options
    whole = _banked(memories) or options.objective != CYCLES or parts <= MOST_GROUPED
    several = len(memories.tensors) > 1
    return replace(options, partition=BEST if several and whole else CASCADES, tiles=False)


def frontier_search(
    parts: Parts,
    model: CostModel,
    memories: MemorySystem,
    options: Options,
    limit_bytes: float = math.inf,
    bands: BandSource | None = None,
    others: Sequence[Schedule] = (),
) -> FrontierSearch:
    """Search for proposals that may be Pareto-optimal in (memory after placement, cycles).

    limit_bytes: cascades with more live bytes at the peak are dropped.  A schedule may still exceed
        the limit, because prefetches by accelerators are added after the search.
    bands: creates the bands of a cascade, and the tiles of a group; None: there are none.
    others: schedules found so far for other graphs that compute the same outputs.  Proposals that
        they dominate, as far as that can be told from estimates, may be omitted.

    Raises UsageError if `options.partition` does not support banks of memory, and CapacityError if
    a group of parts does not fit into the second memory region.
    """
    options = _with_partition(options, memories, len(parts.parts))
    banked = _banked(memories)
    if options.partition == BEST and options.objective == CYCLES and not banked:
        # the fastest of cascades and groups
        cascaded = replace(options, partition=CASCADES)
        search = frontier_search(parts, model, memories, cascaded, limit_bytes, bands, others)
        if len(memories.tensors) == 1:
            return search  # no group of whole parts saves a transfer
        return replace(search, grouped=grouped_proposal(search.builder, options, bands))
    found, orders = _orders(parts, options)
    builder = ScheduleBuilder(CostAccounting(parts, model, memories), found, options)
    if options.partition in STRATEGIES:
        grouped = grouped_proposal(builder, options, bands)
        return FrontierSearch(grouped.builder, [grouped.proposal])
    if banked and options.partition == CASCADES:
        raise UsageError(
            "usage-152",
            f"cascades do not assign rows to the banks of {banked[0]}",
            where=f"--partition {CASCADES}",
            why="tensors that are in use at the same time must not share a bank",
            help="use a strategy for groups of layers, such as --partition best",
        )
    if len(memories.tensors) == 1 and all(p.counts_accesses or not p.nodes for p in parts.parts):
        memories = memories.nominal  # costs include what the memories add
    problem = CascadeProblem(parts, model, memories, options)
    nominal = replace(problem, memories=memories.nominal)
    searches = _uniform_searches(nominal, orders, limit_bytes)
    chosen = _chosen_proposals(problem, builder, orders, searches, limit_bytes)
    bound = min((one.peak_bytes for one in others if not one.bands), default=math.inf)
    # Recomputation is of no use if another graph needs less memory without it.
    useful = options.max_recompute > 1 and (not chosen or chosen[0].peak_bytes < bound)
    if parts.least_row_bytes is not None and memories.uniform:
        by_rows = [(one.peak_bytes, one.cost.cycles) for one in others if not one.bands]
        # an alternative graph is searched only where it may help
        chosen = _relevant_proposals(problem, chosen, by_rows)
        useful = useful and bool(chosen)
    if bands is None or not useful or not searches:
        return FrontierSearch(builder, chosen)
    rivals = tuple((one.peak_bytes, one.cost.cycles) for one in others)
    below = BelowRows(builder.accounting, options, bands, found.gap, rivals)
    in_default = [p for p in chosen if _default_peak(p) < math.inf]
    rivals_in_rows = in_default if _others_count(memories) and in_default else chosen
    limit = int(min((limit_bytes + 1, *(p.peak_bytes for p in rivals_in_rows))))

    def with_recomputation() -> FrontierSearch:
        sources, least = below.sources(searches, limit), limit
        if parts.floor_bytes is not None:  # these parts save memory only by recomputation
            least = min((limit, *(one.peak_bytes for one in others)))
        found_below = below.proposals(sources, least)
        return FrontierSearch(builder, chosen, found_below, below, sources, least)

    return attempt("bands of columns", with_recomputation, lambda: FrontierSearch(builder, chosen))


def plans_of_groups(problem: CascadeProblem) -> Mapping[tuple[int, ...], tuple[Candidate, ...]]:
    """Return the plans of each group of parts, Pareto-optimal in (live bytes, time).

    Keys: indices of the parts of a group, which are consecutive in the order of the graph, and at
    most `options.max_parts`.  Tensors from outside of a group are in the default memory region.
    """
    problem = replace(problem, options=replace(problem.options, prune_by_shorter=False))
    order = tuple(range(len(problem.parts.parts)))
    source = _candidates(problem, order, _uniform_searches(problem, (order,), UNBOUNDED))
    states = [(problem.memories.default_assignment,)] * len(order)
    found: dict[tuple[int, ...], list[Candidate]] = {}
    for upper in range(1, len(order) + 1):
        for one in source(upper, states):
            found.setdefault(one.plan.parts, []).append(one)
    return {group: tuple(frontier(every, _peak_and_time)) for group, every in found.items()}


def every_proposal(problem: CascadeProblem) -> tuple[Proposal, ...]:
    """Return the proposals that are Pareto-optimal in (live bytes, time), without recomputation."""
    _, orders = _orders(problem.parts, problem.options)
    searches = _uniform_searches(problem, orders, UNBOUNDED)
    every = (
        one
        for order in orders
        for one in _proposals(problem, order, _candidates(problem, order, searches))
    )
    return tuple(frontier(every, _peak_and_time))


def _chosen_proposals(
    problem: CascadeProblem,
    builder: ScheduleBuilder,
    orders: Sequence[PartOrder],
    searches: Mapping[PartOrder, UniformSearch],
    limit_bytes: float,
) -> list[Proposal]:
    """The proposals by rows from which schedules are built, in ascending order of memory.

    A proposal is dropped if its peak exceeds, by more than the fraction `options.slack`, that of
    one that is at least as fast.
    """
    memories, options = problem.memories, problem.options
    if options.partition != CASCADES:
        return whole_proposals(builder, orders, options)
    every: list[Proposal] = []
    nominal: list[Proposal] = []  # as if all memories were as fast as `searches` assume
    first = replace(problem, memories=replace(memories, tensors=memories.tensors[:1]))
    whole: Sequence[Proposal] = ()
    if len(memories.tensors) > 1:  # whole layers with greedily selected tensors
        whole = whole_proposals(builder, orders, replace(options, partition=RESIDENT))
    for order, resident in zip_longest(orders, whole):
        source = _candidates(problem, order, searches if memories.uniform else {})
        if resident and len(order) > MOST_GROUPED:
            source = RegionSearch(problem, order, given=resident.memory).candidates
        every += _proposals(problem, order, source, limit_bytes)
        found: Iterable[Proposal] = ()
        if searches and not memories.uniform:
            found = tuple(_proposals(problem, order, searches[order].candidates, limit_bytes))
            nominal += found
        if len(memories.tensors) > 1:  # for networks that do not fit the secondary memories
            if first.memories.uniform:  # these are the searches above, in whole cycles
                every += (replace(one, time=FINE * one.time) for one in found)
            else:
                source = _candidates(first, order, {})
                every += _proposals(problem, order, source, limit_bytes)
    chosen = near_frontier(every, _peak_and_time, options.slack)
    if nominal:  # their times leave out accesses to slow memories
        several = len(memories.tensors) > 1
        least = min(map(_default_peak, every)) if several else math.inf
        fast = near_frontier(nominal, _peak_and_time, 0.0 if several else options.slack)
        # they consider more ways to save memory, but leave the second memory unused
        fast = [p for p in fast if p.peak_bytes < least]
        chosen = sorted((*chosen, *(p for p in fast if p not in chosen)), key=_peak_and_time)
    if len(memories.tensors) > 1:
        chosen = _with_variety(problem, builder, orders, [*chosen, *whole], every)
    # A twin may fit a smaller arena: scratch memory that does not raise the peak of the live bytes
    # may still cause fragmentation.
    chosen[1:1] = _least_scratch_twins(chosen[:1], problem.parts)
    return chosen


def _with_variety(
    problem: CascadeProblem,
    builder: ScheduleBuilder,
    orders: Sequence[PartOrder],
    chosen: Sequence[Proposal],
    every: Sequence[Proposal],
) -> list[Proposal]:
    """More proposals for placement, after which memory is known; fewer of large networks.

    Of those that leave the second memory unused, only the fastest is of use if that memory does not
    count."""
    in_default = (p for p in every if _default_peak(p) < math.inf)
    unused = near_frontier(in_default, _peak_and_time, 0.0)
    if not _others_count(problem.memories):
        unused = unused[-1:]
    counted = _least_counted(problem, builder, orders)
    found = dict.fromkeys((*chosen, *unused, *counted))
    if len(problem.parts.parts) > MOST_GROUPED:
        return _spaced(found, problem.options.slack)
    return sorted(found, key=_peak_and_time)


def _spaced(chosen: Iterable[Proposal], slack: float) -> list[Proposal]:
    """Pareto-optimal proposals in ascending order of memory; between the ends, neighbours differ by
    at least the fraction `slack`, since placement, which takes seconds, moves them by more."""
    least, *others = frontier(chosen, _peak_and_time)
    kept: list[Proposal] = []
    for one in reversed(others):
        if not kept or one.peak_bytes * (1 + slack) <= kept[-1].peak_bytes:
            kept.append(one)
    return [least, *reversed(kept)]


def _least_counted(
    problem: CascadeProblem, builder: ScheduleBuilder, orders: Sequence[PartOrder]
) -> list[Proposal]:
    """The proposals that are Pareto-optimal in (live bytes that count towards a budget, time), if
    these are not those in the default region alone."""
    memories = problem.memories.tensors
    counted = [k for k, memory in enumerate(memories) if memory.budget]
    if counted in ([], [0]):
        return []
    start, found = problem.memories.default_assignment, list[Proposal]()
    for order in orders:
        source = RegionSearch(problem, order, counted).candidates
        found += proposals(order, source, start, 0)
    kept = near_frontier(found, _peak_and_time, problem.options.slack)
    return [replace(one, peak_bytes=_default_live_bytes(builder.schedule(one))) for one in kept]


def _default_live_bytes(schedule: Schedule) -> int:
    return int(live_bytes(ExpandedSchedule(schedule)).max())


def _proposals(
    problem: CascadeProblem,
    order: PartOrder,
    source: CandidateSource,
    limit_bytes: float = math.inf,
) -> Iterator[Proposal]:
    start = problem.memories.default_assignment
    return proposals(order, source, start, problem.parts.rows.inputs_bytes, limit_bytes)


def _relevant_proposals(
    problem: CascadeProblem, chosen: Sequence[Proposal], rivals: Sequence[tuple[int, int]]
) -> list[Proposal]:
    """The proposals that no rival dominates in (peak, estimated cycles)."""
    work = problem.work_cycles
    return [p for p in chosen if not is_dominated((p.peak_bytes, work + p.time), rivals)]


def _default_peak(proposal: Proposal) -> float:
    """The peak; infinity if a tensor is not in the default region, to be ignored by `min`."""
    return math.inf if proposal.memory.exceptions else proposal.peak_bytes


def _peak_and_time(one: Proposal | Candidate) -> tuple[int, int]:
    return one.peak_bytes, one.time


def _orders(parts: Parts, options: Options) -> tuple[Order, tuple[PartOrder, ...]]:
    """(the order whose gap schedules report, the orders to split into cascades)."""
    problem = order_problem(parts, keep_inputs=options.keep_input)
    is_least = options.order == LEAST
    width = BEAM_WIDTH if is_least else 0  # only the bound is of use
    found = _least_order(problem, OrderOptions(options.order_states, width))
    if is_least:
        # also the order of the model file, if it is another one
        file_order = tuple(range(len(parts.parts)))
        return found, tuple(dict.fromkeys((found.order, file_order)))
    named = order_by(problem, ORDERS[options.order])
    return replace(named, bound_bytes=found.bound_bytes), (named.order,)


@lru_cache(maxsize=4)
def _least_order(problem: OrderProblem, options: OrderOptions) -> Order:
    """The order of least memory, which schedules of several partitions have in common."""
    return find_order(problem, options)


def _uniform_searches(
    problem: CascadeProblem, orders: Sequence[PartOrder], limit_bytes: float
) -> Mapping[PartOrder, UniformSearch]:
    """The searches of each order; none if `UniformSearch` does not model the memories."""
    parts, model, options = problem.parts, problem.model, problem.options
    if not problem.memories.uniform or options.partition not in (AUTO, CASCADES):
        return {}
    memory = problem.memories.default_assignment
    return {
        order: UniformSearch(parts, order, model, memory, options, limit_bytes) for order in orders
    }


def _candidates(
    problem: CascadeProblem, order: PartOrder, searches: Mapping[PartOrder, UniformSearch]
) -> CandidateSource:
    if order in searches:
        return searches[order].candidates
    return RegionSearch(problem, order).candidates


def _least_scratch_twins(chosen: Sequence[Proposal], parts: Parts) -> list[Proposal]:
    """Copies of proposals with the least possible scratch memory in every cascade, where it
    differs."""
    twins = [
        replace(p, plans=tuple(_with_least_scratch(plan, parts) for plan in p.plans))
        for p in chosen
    ]
    return [twin for twin in twins if twin not in chosen]


def _with_least_scratch(plan: Plan, parts: Parts) -> Plan:
    prefetches = {prefetch.part: prefetch.copy for prefetch in plan.prefetches}

    def least(k: int) -> int:
        part = parts.parts[k]
        if k in prefetches:
            return part.kernel_for(prefetches[k]).scratch_bytes
        return part.least_scratch_bytes

    return plan.with_scratch(max(map(least, plan.parts)))
