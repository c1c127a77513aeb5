"""Search for schedules that need less memory because cascades run in bands of columns.

A band is an interval of columns of a cascade's output; the cascade runs once for each band, and
columns that two neighbouring bands need are computed twice.  A chain is a group of parts that run
as a single part of a cascade, and recompute rows of the tensors between them.  Schedules with bands
or chains need less memory, but are slower, because they compute some elements several times.

The search by dynamic programming (`cascades/proposals.py`) runs once more, with cascades in bands
or with chains as additional candidates.  It keeps only schedules that need less memory than all
schedules found without bands and chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import chain

from penstock.ir.region import Region
from penstock.pareto import near_frontier, thinned
from penstock.scheduling.bands.band_search import BandLimits, BandSearch
from penstock.scheduling.bands.chain_costs import CostedBand, with_chain_costs
from penstock.scheduling.bands.chain_search import MOST_PLANS, ChainSearch, PartCycles
from penstock.scheduling.bands.chain_shape import ChainShapes
from penstock.scheduling.bands.conditions import computes_columns
from penstock.scheduling.bands.ordered_parts import OrderedParts
from penstock.scheduling.bands.variant import BandedCascade, BandSource, with_bands
from penstock.scheduling.cascades.candidate import Candidate, Proposal, ValuedCandidate
from penstock.scheduling.cascades.proposals import CandidateSource, proposals
from penstock.scheduling.cascades.rows import UniformSearch
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import live_bytes
from penstock.scheduling.simulate.walk import WHOLE

WORTH_MEMORY = Fraction(1, 100)
"""Of two proposals, the one with more memory is built only if it saves this fraction of cycles."""
MOST_ROUNDS = 3
"""Number of times that the search runs, each time with the measured peaks of the previous one."""

Sources = Mapping[tuple[int, ...], CandidateSource]
"""The candidate cascades, by execution order (indices of parts)."""


@dataclass(frozen=True, slots=True)
class BelowRows:
    """Searches for schedules in which cascades run in bands of columns or contain chains.

    accounting: computes the costs of the schedules.
    bands: creates the bands of a cascade and of its chains.
    inputs_bytes: live bytes before the first part runs.
    order_gap: optimality gap of the execution order, as a fraction (`Gaps.order`).
    rivals: (live bytes at the peak, cycles) of other schedules; proposals that one of them
        dominates are dropped.
    _known_row_cycles: `BandSource.row_cycles` of the parts, by index.
    _known: cache of the bands of cascades and of chains; None if they cannot be created.  Keys:
        (indices of the parts that run in the bands, cascade).  For a chain, the second element is
        its cascade without the other chains.
    _measured: live bytes at the peak of each cascade with bands or chains that has been built so
        far, by (order, cascade).  They may exceed the estimate of the search: the scratch memory
        of a cascade is live as a whole, with the gaps that remain between the tensors placed in it.
    _costed: cache of the plans of bands with their costs, shared by all schedules.
    """

    accounting: CostAccounting
    options: Options
    bands: BandSource
    inputs_bytes: int
    order_gap: float
    rivals: Sequence[tuple[int, int]] = ()
    _known_row_cycles: dict[int, float] = field(default_factory=dict[int, float])
    _known: dict[tuple[tuple[int, ...], Candidate], tuple[BandedCascade, ...] | None] = field(
        default_factory=dict[tuple[tuple[int, ...], Candidate], tuple[BandedCascade, ...] | None]
    )
    _measured: dict[tuple[tuple[int, ...], Candidate], int] = field(
        default_factory=dict[tuple[tuple[int, ...], Candidate], int]
    )
    _costed: dict[CostedBand, Plan] = field(default_factory=dict[CostedBand, Plan])

    def sources(
        self, searches: Mapping[tuple[int, ...], UniformSearch], limit_bytes: int
    ) -> Sources:
        """Return, for each execution order, a function that yields the candidates of the order.

        The candidates are cascades with and without bands and chains.
        searches: the search for cascades without bands, by execution order (indices of parts).
        limit_bytes: the live bytes at the peak must be below this number.
        """
        return {
            order: self._candidates(order, search, limit_bytes)
            for order, search in searches.items()
        }

    def schedules(
        self, sources: Sources, first: Sequence[Proposal], limit_bytes: int
    ) -> list[Schedule]:
        """Return schedules with fewer live bytes than `limit_bytes`, by ascending memory.

        The search for proposals only estimates the peaks of cascades with bands or chains.  The
        actual peaks are known when the schedule of a proposal has been built.  If a schedule has a
        higher peak than its proposal, or cannot be built, the search is repeated with the actual
        peaks known so far.

        sources: the candidate cascades of each execution order.
        first: the proposals of the first search, which only knows estimates.
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
        """Return Pareto-optimal divisions of the execution orders into cascades.

        They are in ascending order of memory.  Proposals that one of `rivals` dominates, or that
        save too few cycles for their memory (`WORTH_MEMORY`), are dropped.
        sources: the execution orders, with the candidate cascades of each.
        limit_bytes: the live bytes at the peak must be below this number.
        """
        every: list[Proposal] = []
        start = self.accounting.memories.default_assignment
        for order, source in sources.items():
            measured = partial(self._with_measured_peaks, order, source)
            every += proposals(order, measured, start, self.inputs_bytes, limit_bytes - 1)
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
        order: tuple[int, ...],
        source: CandidateSource,
        upper: int,
        states: Sequence[Iterable[MemoryAssignment]],
    ) -> Iterator[ValuedCandidate]:
        """Yield the candidate cascades source(upper, states) of an order, with corrected peaks.

        If a schedule that contains a candidate with bands or chains has been built, the peak of the
        candidate in this schedule replaces the estimate of `source`.
        """
        for valued in source(upper, states):
            peak = self._measured.get((order, valued.candidate))
            yield valued if peak is None else replace(valued, peak_bytes=peak)

    def _candidates(
        self, order: tuple[int, ...], search: UniformSearch, limit_bytes: int
    ) -> CandidateSource:
        """Return a function (upper, states) that yields the candidate cascades of an order.

        It yields the cascades, with and without bands and chains, that end at position `upper`
        (exclusive) of the order.  It does not use `states`.
        limit_bytes: the live bytes at the peak must be below this number.
        """
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
        return lambda upper, _: every[upper]

    def _row_cycles(self, k: int) -> float:
        """Return the fixed cycles of an output row of part k, however many columns it has.

        If n bands divide a row, the part spends these cycles n times (`BandSource.row_cycles`).
        The result is 0.0 if the part cannot run in bands of columns.
        """
        if k not in self._known_row_cycles:
            part = self.accounting.parts.parts[k]
            by_columns = bool(part.nodes) and computes_columns(part)
            self._known_row_cycles[k] = self.bands.row_cycles(part) if by_columns else 0.0
        return self._known_row_cycles[k]

    def _partition_gap(self, peak_bytes: int) -> float:
        """Return the optimality gap of a schedule with a given peak (`Gaps.partition`), at least 0.

        It is (peak - bound) / bound.  The bound is a lower bound of the peak of all schedules: the
        bytes of all network inputs or of all outputs, whichever is larger.
        """
        rows = self.accounting.parts.rows
        outputs = sum(rows.storages[k].size_bytes for k in rows.outputs)
        return max(0.0, peak_bytes / max(1, self.inputs_bytes, outputs) - 1.0)

    @property
    def _necessary_macs(self) -> int:
        """Multiply-accumulates of the network if nothing is computed twice."""
        parts = (part for part in self.accounting.parts.parts if part.nodes)
        return sum(part.macs(Region.whole(part.output.type.shape)) for part in parts)

    def schedule(self, proposal: Proposal, limit_bytes: int) -> Schedule | None:
        """Return the schedule of a proposal (a division of an order into cascades), with costs.

        None if the schedule executes too many multiply-accumulates (`Options.max_recompute`), if
        its live bytes at the peak are not below `limit_bytes`, or if a cascade cannot run in its
        bands.  These live bytes may differ slightly from those that the proposal states.
        """
        found: list[tuple[Plan, Sequence[BandedCascade]]] = []
        for candidate in proposal.cascades:
            plan = _plan(candidate, proposal.order)
            banded = self._banded(plan.parts, candidate) if candidate.in_bands else ()
            if banded is None:
                return None
            found.append((plan, banded))
        parts, plans, bands = with_bands(self.accounting.parts, found)
        memories = self.accounting.memories
        memory = memories.default_assignment
        accounting = self.accounting.for_parts(parts)
        bare = Schedule(
            parts,
            plans,
            memory,
            None if memories.copier is None else memories.copier.name,
            self.options.keep_input,
            proposal.peak_bytes,
            Gaps(self.order_gap, self._partition_gap(proposal.peak_bytes)),
            accounting.update_costs(memory),
            bands,
            self.accounting.parts if bands else None,
        )
        bare = with_chain_costs(bare, accounting.model, memories, self._costed)
        expanded = ExpandedSchedule(bare)
        costed = tuple(accounting.costed(bare, cascade) for cascade in expanded.cascades)
        # The proposal only estimates the scratch memory of chains: the live tensors, each rounded
        # up to a multiple of 4 bytes, plus the scratch memory of a kernel.
        live = live_bytes(expanded)
        for candidate, cascade in zip(proposal.cascades, expanded.cascades, strict=True):
            if candidate.in_bands:
                peak = int(live[cascade.tick : cascade.end].max())
                self._measured[proposal.order, candidate] = peak
        peak = int(live.max())
        schedule = replace(bare, plans=costed, peak_bytes=peak)
        most = self.options.max_recompute * self._necessary_macs
        fits = peak < limit_bytes and schedule.cost.nominal_macs <= most
        return schedule if fits else None

    def _banded(
        self, cascade: tuple[int, ...], candidate: Candidate
    ) -> tuple[BandedCascade, ...] | None:
        """Return the bands of the whole cascade (one entry), or of each of its chains.

        Returns None if a part cannot compute the columns of some band.
        """
        if not candidate.chains:
            return self._known_bands(cascade, candidate)
        found: list[BandedCascade] = []
        for one in candidate.chains:
            alone = replace(candidate, nearest_first=False, chains=(one,))
            banded = self._known_bands(one.parts, alone)
            if banded is None:
                return None
            found += banded
        return tuple(found)

    def _known_bands(
        self, cascade: tuple[int, ...], candidate: Candidate
    ) -> tuple[BandedCascade, ...] | None:
        key = cascade, replace(candidate, lower=0, upper=len(cascade))
        if key not in self._known:
            self._known[key] = self.bands.bands(self.accounting.parts, cascade, candidate)
        return self._known[key]


def _worth_memory(cycles: int, than: int) -> bool:
    """Return whether a proposal saves enough cycles to justify that it needs more memory.

    The saving must be at least the fraction `WORTH_MEMORY` of `cycles`.
    """
    return than - cycles >= WORTH_MEMORY * cycles


def _plan(candidate: Candidate, order: tuple[int, ...]) -> Plan:
    """Convert a candidate cascade into a plan without costs."""
    parts = order[candidate.lower : candidate.upper]
    stripe = None if candidate.stripe == WHOLE else candidate.stripe
    scratch = candidate.scratch_bytes
    return Plan(parts, stripe, candidate.nearest_first, (), scratch_bytes=scratch)
