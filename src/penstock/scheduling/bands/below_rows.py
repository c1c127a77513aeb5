"""Search for schedules that need less memory because cascades run in bands or contain chains.

They are slower than schedules by rows, because they compute some elements several times.  The
dynamic programme (`cascades/proposals.py`) runs once more, with cascades in bands and with chains
as additional candidates.  It keeps only schedules that need less memory than all schedules without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import partial
from itertools import chain

from penstock.frozen import frozen
from penstock.pareto import near_frontier, thinned
from penstock.scheduling.bands.band_schedule import BandKey, BandSource, with_band_costs, with_bands
from penstock.scheduling.bands.band_search import BandLimits, BandSearch, OrderedParts
from penstock.scheduling.bands.chain_search import MOST_PLANS, ChainSearch, PartCycles
from penstock.scheduling.bands.chains import ChainShapes
from penstock.scheduling.bands.columns import computes_columns, necessary_macs
from penstock.scheduling.cascades.proposals import (
    Candidate,
    CandidateSource,
    PartOrder,
    Proposal,
    proposals,
)
from penstock.scheduling.cascades.rows import UniformSearch
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, live_bytes

WORTH_MEMORY = Fraction(1, 100)
"""Of two proposals, the one with more memory is built only if it saves this fraction of cycles."""
MOST_ROUNDS = 3
"""Number of times that the search runs, each time with the measured peaks of the previous one."""

Sources = Mapping[PartOrder, CandidateSource]
"""The candidate cascades of each execution order, with and without bands and chains."""


@frozen
class BelowRows:
    """Searches for schedules in which cascades run in bands of columns or contain chains.

    accounting: computes the costs of the schedules.
    bands: creates the bands of a cascade and of its chains.
    order_gap: optimality gap of the execution order, as a fraction (`Gaps.order`).
    rivals: (live bytes at the peak, cycles) of other schedules; proposals that one of them
        dominates are dropped.
    """

    accounting: CostAccounting
    options: Options
    bands: BandSource
    order_gap: float
    rivals: Sequence[tuple[int, int]] = ()
    _known_row_cycles: dict[int, float] = field(default_factory=dict[int, float])
    # Bands by plan; None if they are impossible.
    _known: dict[Plan, tuple[Bands, ...] | None] = field(
        default_factory=dict[Plan, tuple[Bands, ...] | None]
    )
    # Live bytes at the peak of cascades in schedules that have been built.  They may exceed the
    # estimate of the search, because the scratch memory of a cascade is live as a whole, with the
    # gaps that remain between the tensors placed in it.
    _measured: dict[tuple[PartOrder, Plan], int] = field(
        default_factory=dict[tuple[PartOrder, Plan], int]
    )
    _costed: dict[BandKey, Plan] = field(default_factory=dict[BandKey, Plan])

    def sources(self, searches: Mapping[PartOrder, UniformSearch], limit_bytes: int) -> Sources:
        """The candidates of each order, whose peaks must be below `limit_bytes`."""
        return {
            order: self._candidates(order, search, limit_bytes)
            for order, search in searches.items()
        }

    def schedules(
        self, sources: Sources, first: Sequence[Proposal], limit_bytes: int
    ) -> list[Schedule]:
        """Schedules with fewer live bytes than `limit_bytes`, by ascending memory.

        The search for proposals only estimates the peaks of cascades with bands or chains.  If a
        schedule has a higher peak than its proposal, or cannot be built, the search is repeated
        with the peaks of all schedules that have been built.

        first: the proposals of the first search.
        """
        found: dict[Proposal, Schedule | None] = {}
        chosen = first
        for _ in range(MOST_ROUNDS):
            new = {p: self.schedule(p, limit_bytes) for p in chosen if p not in found}
            found |= new
            if all(s is not None and s.peak_bytes <= p.peak_bytes for p, s in new.items()):
                break
            chosen = self.proposals(sources, limit_bytes)
        schedules = (schedule for schedule in found.values() if schedule is not None)
        return near_frontier(schedules, lambda s: (s.peak_bytes, s.cost.cycles), 0.0)

    def proposals(self, sources: Sources, limit_bytes: int) -> list[Proposal]:
        """The Pareto-optimal proposals with fewer live bytes than a limit, by ascending memory.

        Those that one of `rivals` dominates, or that save too few cycles for their memory
        (`WORTH_MEMORY`), are dropped.
        """
        every: list[Proposal] = []
        start = self.accounting.memories.default_assignment
        inputs_bytes = self.accounting.parts.rows.inputs_bytes
        for order, source in sources.items():
            measured = partial(self._with_measured_peaks, order, source)
            every += proposals(order, measured, start, inputs_bytes, limit_bytes - 1)
        chosen = near_frontier(every, lambda p: (p.peak_bytes, p.time), 0.0)
        work = sum(map(self.accounting.model.work_cycles, self.accounting.parts.parts))
        undominated = (
            p
            for p in chosen
            if all(p.peak_bytes < peak or work + p.time < cycles for peak, cycles in self.rivals)
        )
        return list(thinned(undominated, lambda p: work + p.time, _worth_memory))

    def _with_measured_peaks(
        self,
        order: PartOrder,
        source: CandidateSource,
        upper: int,
        states: Sequence[Iterable[MemoryAssignment]],
    ) -> Iterator[Candidate]:
        """A `CandidateSource` with measured peaks instead of estimates where they are known."""
        for valued in source(upper, states):
            may_be_known = bool(self._measured) and valued.plan.in_bands  # hashes take long
            peak = self._measured.get((order, valued.plan)) if may_be_known else None
            yield valued if peak is None else replace(valued, peak_bytes=peak)

    def _candidates(
        self, order: PartOrder, search: UniformSearch, limit_bytes: int
    ) -> CandidateSource:
        start = self.accounting.memories.default_assignment
        limits = BandLimits(
            limit_bytes,
            (self.options.max_recompute - 1.0) * self._necessary_macs,
            self.options.max_parts,
        )
        ordered, model = OrderedParts(self.accounting.parts, order), self.accounting.model
        in_bands = BandSearch(ordered, search.tables, self.bands.reads, model, start, limits)
        positions = range(1, len(order) + 1)
        plain = {upper: search.candidates(upper, ()) for upper in positions}
        cycles = PartCycles(model, lambda p: self._row_cycles(order[p]))
        shapes = ChainShapes(ordered.in_order, search.tables, self.bands.reads)
        with_chains = [
            ChainSearch(ordered, tables, shapes, cycles, start, limits, nearest_first=nearest)
            for nearest, tables in search.tables_by_order
        ]
        for one in with_chains:
            one.search(chain.from_iterable(plain.values()), MOST_PLANS // len(with_chains))
        every = {
            upper: (
                *plain[upper],
                *in_bands.candidates(upper),
                *(valued for one in with_chains for valued in one.candidates(upper)),
            )
            for upper in positions
        }
        # There is a single state: all tensors are in the default region.
        return lambda upper, _: every[upper]

    def _row_cycles(self, k: int) -> float:
        """`BandSource.row_cycles` of part k; 0.0 if it cannot run in bands of columns."""
        if k not in self._known_row_cycles:
            part = self.accounting.parts.parts[k]
            by_columns = bool(part.nodes) and computes_columns(part)
            self._known_row_cycles[k] = self.bands.row_cycles(part) if by_columns else 0.0
        return self._known_row_cycles[k]

    def _partition_gap(self, peak_bytes: int) -> float:
        # With recomputation, the only lower bound of the peak is what must be live at once: all
        # inputs of the network, or all outputs.
        rows = self.accounting.parts.rows
        return max(0.0, peak_bytes / max(1, rows.inputs_bytes, rows.outputs_bytes) - 1.0)

    @property
    def _necessary_macs(self) -> int:
        return sum(map(necessary_macs, self.accounting.parts.parts))

    def schedule(self, proposal: Proposal, limit_bytes: int) -> Schedule | None:
        """The schedule of a proposal, with costs.

        None if the schedule executes too many multiply-accumulates (`Options.max_recompute`), if
        its live bytes at the peak are not below `limit_bytes`, or if a cascade cannot run in its
        bands.
        """
        found: list[tuple[Plan, Sequence[Bands]]] = []
        for plan in proposal.plans:
            bands = self._bands_of(plan) if plan.in_bands else ()
            if bands is None:
                return None
            # without prefetches, whose stalls are not priced here
            found.append((replace(plan, prefetches=()), bands))
        parts, plans, every = with_bands(self.accounting.parts, found)
        memories = self.accounting.memories
        memory = memories.default_assignment
        accounting = self.accounting.for_parts(parts)
        bare = Schedule(
            parts,
            plans,
            memory,
            self.options.keep_input,
            proposal.peak_bytes,
            Gaps(self.order_gap, self._partition_gap(proposal.peak_bytes)),
            accounting.update_costs(memory),
            every,
            self.accounting.parts if every else None,
        )
        expanded = ExpandedSchedule(bare)
        with_costs = with_band_costs(expanded, accounting.model, memories, self._costed)
        costed = tuple(accounting.costed(with_costs, cascade) for cascade in expanded.cascades)
        # The proposal only estimates the scratch memory of chains: the live tensors, each rounded
        # up to a multiple of 4 bytes, plus the scratch memory of a kernel.
        live = live_bytes(expanded)
        for plan, cascade in zip(proposal.plans, expanded.cascades, strict=True):
            if plan.in_bands:
                peak = int(live[cascade.tick : cascade.end].max())
                self._measured[proposal.order, plan] = peak
        peak = int(live.max())
        schedule = replace(with_costs, plans=costed, peak_bytes=peak)
        most = self.options.max_recompute * self._necessary_macs
        fits = peak < limit_bytes and schedule.cost.nominal_macs <= most
        return schedule if fits else None

    def _bands_of(self, plan: Plan) -> tuple[Bands, ...] | None:
        """The bands of a whole cascade, or of each of its chains; None if one is impossible."""
        if not plan.chains:
            return self._known_bands(plan)
        found: list[Bands] = []
        for one in plan.chains:
            # the bands of a chain depend on nothing else of its cascade
            alone = replace(plan, parts=one.parts, nearest_first=False, chains=(one,))
            bands = self._known_bands(alone)
            if bands is None:
                return None
            found += bands
        return tuple(found)

    def _known_bands(self, plan: Plan) -> tuple[Bands, ...] | None:
        if plan not in self._known:
            self._known[plan] = self.bands.bands(self.accounting.parts, plan)
        return self._known[plan]


def _worth_memory(cycles: int, than: int) -> bool:
    return than - cycles >= WORTH_MEMORY * cycles
