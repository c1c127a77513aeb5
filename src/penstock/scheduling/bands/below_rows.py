"""Search for schedules that need less memory because cascades run in bands of columns.

A band is an interval of columns of a cascade's output; the cascade runs once for each band.
Columns that two neighbouring bands need are computed twice, so these schedules are slower.  The
search by dynamic programming (`cascades/proposals.py`) runs once more, with cascades in bands as
additional candidates; only schedules below the least memory found without bands are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.ir.region import Region
from penstock.pareto import near_frontier
from penstock.scheduling.bands.band_search import BandLimits, BandSearch
from penstock.scheduling.bands.variant import BandedCascade, BandSource, with_bands
from penstock.scheduling.cascades.candidate import Candidate, Proposal, ValuedCandidate
from penstock.scheduling.cascades.proposals import proposals
from penstock.scheduling.cascades.uniform_search import UniformSearch
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.execution import WHOLE
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


@dataclass(frozen=True, slots=True)
class BelowRows:
    """Searches for schedules in which at least one cascade runs in bands of columns.

    bands: function that creates the bands of a cascade.
    inputs_bytes: live bytes before the first part runs.
    order_gap: optimality gap of the execution order, as a fraction (`Gaps.order`).
    _known: bands created so far, by (part indices, candidate); None for a candidate that cannot run
        in its bands.
    """

    parts: Parts
    model: CostModel
    memories: MemorySystem
    options: Options
    bands: BandSource
    inputs_bytes: int
    order_gap: float
    _known: dict[tuple[tuple[int, ...], Candidate], BandedCascade | None] = field(
        default_factory=dict[tuple[tuple[int, ...], Candidate], BandedCascade | None]
    )

    def schedules(
        self, searches: Mapping[tuple[int, ...], UniformSearch], limit_bytes: int
    ) -> list[Schedule]:
        """Return schedules with fewer live bytes than `limit_bytes`, by ascending memory.

        searches: the search for cascades without bands, by execution order (indices of parts).
        """
        every: list[Proposal] = []
        for order, search in searches.items():
            every += self._proposals(order, search, limit_bytes)
        chosen = near_frontier(every, lambda p: (p.peak_bytes, p.time), 0.0)
        built = (self._schedule(proposal) for proposal in chosen)
        return [schedule for schedule in built if schedule is not None]

    def _proposals(
        self, order: tuple[int, ...], search: UniformSearch, limit_bytes: int
    ) -> Iterator[Proposal]:
        """Yield the Pareto-optimal divisions of an execution order into cascades.

        Cascades with and without bands compete.
        order: the execution order, as indices of the parts.
        search: yields the candidate cascades without bands.
        limit_bytes: the live bytes at the peak must be below this number.
        """
        start = self.memories.default_assignment
        in_bands = BandSearch(
            self.parts,
            order,
            search.tables,
            self.model,
            start,
            BandLimits(
                limit_bytes,
                (self.options.max_recompute - 1.0) * self._necessary_macs,
                self.options.max_parts,
            ),
        )

        def candidates(
            upper: int, states: Sequence[Iterable[MemoryAssignment]]
        ) -> Iterator[ValuedCandidate]:
            yield from search.candidates(upper, states)
            yield from in_bands.candidates(upper)

        return proposals(order, candidates, start, self.inputs_bytes, limit_bytes - 1)

    def _partition_gap(self, peak_bytes: int) -> float:
        """Return the optimality gap of a peak: (peak - lower bound) / lower bound, at least 0.

        The lower bound is the bytes of all network inputs or of all outputs, whichever is larger.
        """
        rows = self.parts.rows
        outputs = sum(rows.storages[k].size_bytes for k in rows.outputs)
        return max(0.0, peak_bytes / max(1, self.inputs_bytes, outputs) - 1.0)

    @property
    def _necessary_macs(self) -> int:
        """Multiply-accumulates of the network if nothing is computed twice."""
        parts = (part for part in self.parts.parts if part.nodes)
        return sum(part.macs(Region.whole(part.output.type.shape)) for part in parts)

    def _schedule(self, proposal: Proposal) -> Schedule | None:
        """Return the schedule of a proposal (a division of an order into cascades).

        None if the schedule executes too many multiply-accumulates (`Options.max_recompute`), or if
        a cascade cannot run in its bands.
        """
        found: list[tuple[Plan, BandedCascade | None]] = []
        for candidate in proposal.cascades:
            plan, banded = _plan(candidate, proposal.order), None
            if candidate.band_columns is not None:
                banded = self._banded(plan.parts, candidate)
                if banded is None:
                    return None
            found.append((plan, banded))
        parts, plans, bands = with_bands(self.parts, found)
        memory = self.memories.default_assignment
        accounting = CostAccounting(parts, self.model, self.memories)
        bare = Schedule(
            parts,
            plans,
            memory,
            None,
            self.options.keep_input,
            proposal.peak_bytes,
            Gaps(self.order_gap, self._partition_gap(proposal.peak_bytes)),
            accounting.update_costs(memory),
            bands,
            self.parts if bands else None,
        )
        expanded = ExpandedSchedule(bare)
        costed = tuple(accounting.costed(bare, cascade) for cascade in expanded.cascades)
        schedule = replace(bare, plans=costed)
        most = self.options.max_recompute * self._necessary_macs
        return schedule if schedule.cost.nominal_macs <= most else None

    def _banded(self, cascade: tuple[int, ...], candidate: Candidate) -> BandedCascade | None:
        key = cascade, replace(candidate, lower=0, upper=len(cascade))
        if key not in self._known:
            self._known[key] = self.bands(self.parts, cascade, candidate)
        return self._known[key]


def _plan(candidate: Candidate, order: tuple[int, ...]) -> Plan:
    """Convert a candidate cascade into a plan without costs.

    order: the execution order that contains the candidate, as indices of the parts.
    """
    parts = order[candidate.lower : candidate.upper]
    stripe = None if candidate.stripe == WHOLE else candidate.stripe
    scratch = candidate.scratch_bytes
    return Plan(parts, stripe, candidate.nearest_first, (), scratch_bytes=scratch)
