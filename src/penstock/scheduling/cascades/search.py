"""Search for schedules: divide execution orders of the parts into cascades.

A part is one or more nodes that run as a unit.  A cascade is an interval of an execution order
whose parts run interleaved, a few rows at a time.  Cascades that cover the order form a proposal.

For each order, dynamic programming finds the proposals that are Pareto-optimal in peak live bytes
and estimated time.  It tries several stripe heights (rows per call) and memory assignments.  A
cascade has at most `Options.max_parts` parts, or `Options.max_region_parts` if access times depend
on the memory region.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge

from penstock.errors import UsageError
from penstock.optional import attempt, attempt_each
from penstock.pareto import is_dominated, near_frontier
from penstock.scheduling.bands.below_rows import BelowRows, Sources
from penstock.scheduling.bands.variant import BandSource
from penstock.scheduling.cascades.candidate import Candidate, Proposal
from penstock.scheduling.cascades.groups import grouped_proposal, whole_proposals
from penstock.scheduling.cascades.proposals import CandidateSource, proposals
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.cascades.rows import UniformSearch
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.grouping.orders import ORDERS
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import CASCADES, LEAST, RESIDENT, Options
from penstock.scheduling.order.order import Order, OrderOptions, find_order, order_by
from penstock.scheduling.order.part_steps import order_problem
from penstock.scheduling.row_copies.estimates import row_copy_estimates
from penstock.scheduling.simulate.cost_accounting import CostAccounting


@dataclass(frozen=True, slots=True)
class FrontierSearch:
    """The proposals for the schedules of a frontier; a schedule is built on demand.

    builder: builds the schedules of `by_rows`.
    by_rows: proposals without recomputation.
    below_rows: proposals with bands of columns or chains, which recompute, in ascending order of
        memory.  They need less memory than those of `by_rows`.
    recomputing: builds the schedules of `below_rows`; None if `below_rows` is empty.
    sources: the candidate cascades, by execution order, with which `recomputing` repeats the search
        for `below_rows` if a schedule needs more memory than its proposal.
    limit_bytes: schedules of `below_rows` with at least this number of live bytes are dropped.
    """

    builder: ScheduleBuilder
    by_rows: Sequence[Proposal]
    below_rows: Sequence[Proposal] = ()
    recomputing: BelowRows | None = None
    sources: Sources = field(default_factory=dict[tuple[int, ...], CandidateSource])
    limit_bytes: int = 0

    def schedules(self) -> Iterator[Schedule]:
        """Yield the schedules of all proposals.

        If `options.partition` is `CASCADES`, they come in ascending order of memory.
        """
        found = attempt("bands of columns", self._schedules_below_rows, tuple)
        return merge(found, self.schedules_by_rows(), key=lambda schedule: schedule.peak_bytes)

    def _schedules_below_rows(self) -> Sequence[Schedule]:
        if self.recomputing is None:
            return ()
        return self.recomputing.schedules(self.sources, self.below_rows, self.limit_bytes)

    @property
    def parts(self) -> Parts:
        """The parts that the search schedules."""
        return self.builder.accounting.parts

    def schedules_by_rows(self) -> Iterator[Schedule]:
        """Yield the schedules of `by_rows`, the proposals without recomputation."""
        builder, found = self.builder, False
        if builder.options.partition == CASCADES and self.parts.can_prefetch:
            prefetched = partial(builder.with_accelerator_prefetches, self.by_rows)
            for schedule in attempt_each("prefetches by accelerators", prefetched):
                found = True
                yield schedule
        if not found:
            yield from builder.every_schedule(self.by_rows)

    def schedule_below_rows(self, proposal: Proposal) -> Schedule | None:
        """Return the schedule of a proposal with recomputation.

        None if the schedule exceeds a limit or cannot run in its bands (`BelowRows.schedule`).

        proposal: an element of `below_rows`.
        """
        assert self.recomputing is not None
        return self.recomputing.schedule(proposal, self.limit_bytes)

    def estimated_cycles(self, proposal: Proposal) -> int:
        """Return the estimated cycles of a proposal, without building its schedule.

        The estimate leaves out some of the overhead of calls in bands, so it is usually too low.

        proposal: an element of `below_rows`, the proposals that recompute.
        """
        work_cycles = self.builder.accounting.model.work_cycles
        return proposal.time + sum(map(work_cycles, self.parts.parts))


def frontier_search(
    parts: Parts,
    model: CostModel,
    memories: MemorySystem,
    options: Options,
    limit_bytes: float = math.inf,
    bands: BandSource | None = None,
    others: Sequence[Schedule] = (),
) -> FrontierSearch:
    """Return proposals for the schedules that may be Pareto-optimal in (memory, cycles).

    Here, memory means the size after placement, which assigns an address to each tensor.

    limit_bytes: the search drops cascades with more live bytes at the peak.  A schedule may still
        exceed the limit, because prefetches by accelerators are added after the search.
    bands: creates the bands (intervals of columns) of a cascade, and the tiles of a group; None: no
        cascade runs in bands and no group in tiles.
    others: schedules found so far for other graphs that compute the same outputs.  Because of them,
        the search omits proposals:

        - It may omit a proposal that one of `others` dominates.
        - It omits all proposals with bands or chains if a schedule in `others` without bands and
          chains needs at most as much memory as each proposal without bands and chains.
        - If `parts` saves memory only by recomputation (`Parts.floor_bytes`), it omits a proposal
          with bands or chains unless this proposal needs less memory than all `others`.

    Raises UsageError if the options need a second memory region for tensors and the target has
    none, and CapacityError if a group of parts does not fit there.
    """
    found, orders = _orders(parts, options)
    row_copies = row_copy_estimates(parts, memories, options)
    builder = ScheduleBuilder(CostAccounting(parts, model, memories), found, options, row_copies)
    if options.partition not in (CASCADES, RESIDENT):
        grouped = grouped_proposal(builder, options, bands)
        return FrontierSearch(grouped.builder, [grouped.proposal])
    banked = [memory.name for memory in memories.tensors if memory.bank_bytes]
    if banked and options.partition == CASCADES:
        raise UsageError(
            "usage-152",
            f"cascades do not assign rows to the banks of {banked[0]}",
            where=f"--partition {CASCADES}",
            why="tensors that are in use at the same time must not share a bank",
            help="use a strategy for groups of layers, such as --partition best",
        )
    searches = _uniform_searches(parts, orders, model, memories.nominal, options, limit_bytes)
    chosen = _chosen_proposals(builder, orders, searches, options, limit_bytes)
    bound = min((one.peak_bytes for one in others if not one.bands), default=math.inf)
    useful = options.max_recompute > 1 and (not chosen or chosen[0].peak_bytes < bound)
    if parts.least_row_bytes is not None and memories.uniform:
        by_rows = [(one.peak_bytes, one.cost.cycles) for one in others if not one.bands]
        chosen = _relevant_proposals(chosen, parts, model, by_rows)
        useful = useful and bool(chosen)
    if bands is None or not useful or not searches:
        return FrontierSearch(builder, chosen)
    rivals = tuple((one.peak_bytes, one.cost.cycles) for one in others)
    below = BelowRows(builder.accounting, options, bands, _inputs_bytes(parts), found.gap, rivals)
    limit = int(min((limit_bytes + 1, *map(_default_peak, chosen))))

    def with_recomputation() -> FrontierSearch:
        sources, least = below.sources(searches, limit), limit
        if parts.floor_bytes is not None:
            least = min((limit, *(one.peak_bytes for one in others)))
        found_below = below.proposals(sources, least)
        return FrontierSearch(builder, chosen, found_below, below, sources, least)

    return attempt("bands of columns", with_recomputation, lambda: FrontierSearch(builder, chosen))


def _chosen_proposals(
    builder: ScheduleBuilder,
    orders: Sequence[tuple[int, ...]],
    searches: Mapping[tuple[int, ...], UniformSearch],
    options: Options,
    limit_bytes: float,
) -> list[Proposal]:
    """Return the proposals from which schedules are built.

    A proposal divides an execution order into cascades, and selects the tensors in the second
    memory.  `options.partition` determines both:

        CASCADES               the search selects cascades and tensors together
        RESIDENT               each part runs alone, in a single call; the tensors in the second
                               memory are selected greedily, as long as they fit

    With `CASCADES`, the proposals come in ascending order of memory.  A proposal is dropped if its
    peak exceeds, by more than the fraction `options.slack`, the peak of a proposal that is at least
    as fast.  The result contains these proposals, too:

    - With a second memory: those of `RESIDENT`; the Pareto front of those that leave the second
      memory unused; and, with a copy engine, the Pareto-optimal ones with row copies.
    - With a second memory, or a memory slower than `searches` assume: those of `searches`, which
      consider more ways to save memory.  With a second memory, each must need less memory than all
      others that leave it unused.
    - A variant of the first proposal, inserted after it, that uses the least possible scratch
      memory, unless the first proposal does so itself.
    """
    accounting = builder.accounting
    parts, model, memories = accounting.parts, accounting.model, accounting.memories
    if options.partition != CASCADES:
        return whole_proposals(builder, orders, options)
    every: list[Proposal] = []
    nominal: list[Proposal] = []
    inputs_bytes = _inputs_bytes(parts)
    start = memories.default_assignment
    without = replace(options, row_copies=False)
    for order in orders:
        uniform = searches if memories.uniform else {}
        source = _candidates(parts, order, uniform, model, memories, without)
        every += proposals(order, source, start, inputs_bytes, limit_bytes)
        if searches and not memories.uniform:
            source = searches[order].candidates
            nominal += proposals(order, source, start, inputs_bytes, limit_bytes)
        if len(memories.tensors) > 1:  # for networks that do not fit the secondary memories
            first = replace(memories, tensors=memories.tensors[:1])
            alone = _uniform_searches(parts, (order,), model, first, options, limit_bytes)
            source = _candidates(parts, order, alone, model, first, without)
            every += proposals(order, source, start, inputs_bytes, limit_bytes)
    chosen = near_frontier(every, _peak_and_time, options.slack)
    if nominal:  # their times leave out accesses to slow memories
        several = len(memories.tensors) > 1
        least = min(map(_default_peak, every)) if several else math.inf
        fast = near_frontier(nominal, _peak_and_time, 0.0 if several else options.slack)
        fast = [p for p in fast if p.peak_bytes < least]
        chosen = sorted((*chosen, *(p for p in fast if p not in chosen)), key=_peak_and_time)
    if len(memories.tensors) > 1:
        in_default = (p for p in every if _default_peak(p) < math.inf)
        first = near_frontier(in_default, _peak_and_time, 0.0)
        resident_only = replace(options, partition=RESIDENT)
        whole = whole_proposals(builder, orders, resident_only)
        chosen += [p for p in (*first, *whole) if p not in chosen]
        known = {(p.order, p.cascades) for p in chosen}
        copying = near_frontier(
            _copying(parts, orders, model, memories, options), _peak_and_time, 0.0
        )
        chosen += [p for p in copying if (p.order, p.cascades) not in known]
        chosen.sort(key=_peak_and_time)
    chosen[1:1] = _least_scratch_twins(chosen[:1], parts)
    return chosen


def _copying(
    parts: Parts,
    orders: Sequence[tuple[int, ...]],
    model: CostModel,
    memories: MemorySystem,
    options: Options,
) -> Iterator[Proposal]:
    """Yield the Pareto-optimal proposals of each order, if cascades use row copies.

    The estimated time of a cascade is reduced by the time that row copies save in it.  Yields
    nothing if no single part can use a row copy.
    """
    estimates = row_copy_estimates(parts, memories, options)
    if estimates is None or not any(any(estimates.tensors((k,))) for k in range(len(parts.parts))):
        return
    for order in orders:
        search = RegionSearch(parts, order, model, memories, options)
        start, inputs = memories.default_assignment, _inputs_bytes(parts)
        yield from proposals(order, search.candidates, start, inputs)


def _relevant_proposals(
    chosen: Sequence[Proposal],
    parts: Parts,
    model: CostModel,
    rivals: Sequence[tuple[int, int]],
) -> list[Proposal]:
    """Return the proposals that no rival dominates in (peak, estimated cycles)."""
    work = sum(map(model.work_cycles, parts.parts))
    return [p for p in chosen if not is_dominated((p.peak_bytes, work + p.time), rivals)]


def _default_peak(proposal: Proposal) -> float:
    """Return the peak of a proposal in bytes; infinity if a tensor is not in the default region.

    So the minimum over several proposals ignores those that use other regions.
    """
    return math.inf if any(c.memory.exceptions for c in proposal.cascades) else proposal.peak_bytes


def _peak_and_time(proposal: Proposal) -> tuple[int, int]:
    return proposal.peak_bytes, proposal.time


def _orders(parts: Parts, options: Options) -> tuple[Order, tuple[tuple[int, ...], ...]]:
    """Return (reported, orders): the order whose gap schedules report, and the orders to split.

    reported: if `options.order` is `LEAST`, the order of least peak memory that the search finds;
        otherwise the order that the option names.
    orders: the execution orders to split into cascades, as tuples of part indices.  The first is
        that of `reported`.  With `LEAST`, the order of the model file follows if it is different.
    """
    problem = order_problem(parts, keep_inputs=options.keep_input)
    found = find_order(problem, OrderOptions(max_states=options.order_states))
    if options.order == LEAST:
        file_order = tuple(range(len(parts.parts)))
        return found, tuple(dict.fromkeys((found.order, file_order)))
    named = order_by(problem, ORDERS[options.order])
    return replace(named, bound_bytes=found.bound_bytes), (named.order,)


def _inputs_bytes(parts: Parts) -> int:
    return sum(parts.rows.storages[k].size_bytes for k in parts.rows.inputs)


def _uniform_searches(
    parts: Parts,
    orders: Sequence[tuple[int, ...]],
    model: CostModel,
    memories: MemorySystem,
    options: Options,
    limit_bytes: float,
) -> Mapping[tuple[int, ...], UniformSearch]:
    """Return a search for the candidate cascades of each execution order; the keys are the orders.

    The result is empty if `options.partition` is not `CASCADES`.  It is also empty if there are
    several regions for tensors, or if accesses to a region take longer than the engine's cycle
    estimates assume (`MemorySystem.uniform`), because a `UniformSearch` models neither.

    limit_bytes: the searches may leave out cascades with more live bytes at the peak.
    """
    if not memories.uniform or options.partition != CASCADES:
        return {}
    memory = memories.default_assignment
    return {
        order: UniformSearch(parts, order, model, memory, options, limit_bytes) for order in orders
    }


def _candidates(
    parts: Parts,
    order: tuple[int, ...],
    searches: Mapping[tuple[int, ...], UniformSearch],
    model: CostModel,
    memories: MemorySystem,
    options: Options,
) -> CandidateSource:
    """Return the function (upper, states) that yields the candidate cascades of an execution order.

    The function yields the cascades [lower, upper) for every `lower`.  states[lower] contains the
    memory assignments of the tensors that are live when such a cascade begins.
    """
    if order in searches:
        return searches[order].candidates
    return RegionSearch(parts, order, model, memories, options).candidates


def _least_scratch_twins(chosen: Sequence[Proposal], parts: Parts) -> list[Proposal]:
    """Return copies of proposals, with the least possible scratch memory in every cascade.

    Proposals that already have the least scratch memory are not copied.  A copy may fit a smaller
    arena: scratch memory that does not raise the peak of the live bytes may still cause
    fragmentation.
    """
    twins = [
        replace(p, cascades=tuple(_with_least_scratch(c, p.order, parts) for c in p.cascades))
        for p in chosen
    ]
    return [twin for twin in twins if twin not in chosen]


def _with_least_scratch(cascade: Candidate, order: tuple[int, ...], parts: Parts) -> Candidate:
    copies = [p.accelerator for p in cascade.prefetches if p.accelerator is not None]
    prefetches = {copy.part: copy.prefetch for copy in copies}

    def least(k: int) -> int:
        part = parts.parts[k]
        if k in prefetches:
            return part.kernel_for(prefetches[k]).scratch_bytes
        return part.least_scratch_bytes

    return cascade.with_scratch(max(map(least, order[cascade.lower : cascade.upper])))
