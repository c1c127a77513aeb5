"""Candidate cascades in which chains recompute intermediate tensors, for one execution order.

The search is greedy: for each stripe height and limit of the scratch memory that the chains share,
it begins without recomputation, and repeatedly adds the tensor whose recomputation leads to the
lowest peak memory.  If few tensors can be recomputed, all sets of them are tried, too.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice, product

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.frozen import frozen
from penstock.pareto import frontier
from penstock.scheduling.bands.band_search import NO_CALLS, BandLimits, OrderedParts
from penstock.scheduling.bands.chains import (
    ChainShape,
    ChainShapes,
    Positions,
    Reals,
    call_intervals,
)
from penstock.scheduling.bands.columns import necessary_macs
from penstock.scheduling.cascades.proposals import Candidate
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.plan import Chain, Plan
from penstock.scheduling.simulate.row_tables import Numbers, RowTables
from penstock.scheduling.simulate.walk import run_cascade

STRIPES = (1, 2, 4)
"""Stripe heights (maximum rows per call) to try."""
SCRATCH_SHARES = (64, 32, 24, 16, 12, 8, 4)
"""Limits to try for the scratch buffer of the chains: the limit of the peak, divided by these."""
GROWTH_SHARES = (32, 16, 8)
"""Same as `SCRATCH_SHARES`, for the scratch buffer while a set of recomputed tensors grows."""
MOST_PLANS = 3_000
"""Maximum number of plans to evaluate for an order; the most promising intervals come first."""
MOST_TENSORS = 5
"""Up to this number of tensors that can be recomputed, the search tries all sets of them."""
PATIENCE = 4
"""Number of tensors to add without a gain before the search abandons a set."""
MOST_INTERVALS = 6
"""Maximum number of intervals to search: those that need the least memory without chains."""

MOVE_CYCLES = 3
"""Estimated cycles of moving a byte of a kept column."""


@frozen
class Cascade:
    """The parts at positions [lower, upper) of the order, in calls of at most `stripe` rows."""

    lower: int
    upper: int
    stripe: int


Chains = Mapping[int, ChainShape]
"""The chains of a cascade, by the position of the last part of each."""


@frozen
class ChainPlan:
    """A choice of the tensors that a cascade recomputes, with its peak and costs.

    time: estimated cycles beyond those in which the preferred kernels compute each element once.
    macs: multiply-accumulates that recomputation adds.
    """

    cascade: Cascade
    chains: Chains
    peak_bytes: int
    time: int
    macs: float

    @property
    def members(self) -> frozenset[int]:
        """Positions of the parts whose outputs are recomputed."""
        return frozenset(p for found in self.chains.values() for p in found.chain.parts[:-1])


@frozen
class PartCycles:
    """Cycles of parts; `of_row` gives the `BandSource.row_cycles` of the part at a position."""

    model: CostModel
    of_row: Callable[[int], float]


@frozen(eq=False)
class _ChainCosts:
    """What the parts of a chain cost in its bands, and what they cost without recomputation."""

    inside: Numbers  # positions of the parts
    # [multiply-accumulates or cycles, part]: of computing the output once, in the chain's bands; to
    # be multiplied by the shares that its calls compute
    per_share: Reals
    # [multiply-accumulates or cycles]: of all parts together, with preferred kernels
    once: Reals


class ChainSearch:
    """Enumerates the cascades of an execution order in which chains recompute tensors.

    nearest_first: `Plan.nearest_first` of all plans; `tables` must be made for this value.
    """

    def __init__(
        self,
        ordered: OrderedParts,
        tables: RowTables,
        shapes: ChainShapes,
        cycles: PartCycles,
        memory: MemoryAssignment,
        limits: BandLimits,
        *,
        nearest_first: bool = False,
    ) -> None:
        self._order, self._parts = ordered.order, ordered.in_order
        self._tables, self._memory, self._limits = tables, memory, limits
        self._nearest_first = nearest_first
        model = cycles.model
        self._shapes = shapes
        # The parts of a chain run the kernels with the least scratch memory (`valued`).
        self._work = np.array([model.work_cycles(p.within(0)) for p in self._parts], np.float64)
        self._slower = self._work - [model.work_cycles(p) for p in self._parts]
        self._row_cycles = cycles.of_row
        self._preferred = np.array([p.kernel.scratch_bytes for p in self._parts], np.int64)
        self._macs = np.array([necessary_macs(part) for part in self._parts], np.float64)
        count = len(self._parts)
        self._readers = [self._shapes.readers(p) for p in range(count)]
        self._calls = np.empty((int(tables.rows.sum()) + count, 4), np.int64)
        self._fastest: dict[tuple[Positions, int, int], ChainShape | None] = {}
        self._known_cycles: dict[tuple[Chain, int], float] = {}
        self._known_costs: dict[Chain, _ChainCosts] = {}
        self._evaluated: dict[tuple[Cascade, tuple[Chain, ...]], ChainPlan | None] = {}
        self._found: dict[int, list[Candidate]] = {}

    def candidates(self, upper: int) -> list[Candidate]:
        """The cascades with chains that end at position `upper`, exclusive; after `search`."""
        return self._found.get(upper, [])

    def search(self, plain: Iterable[Candidate], most_plans: int) -> None:
        """Evaluate at most `most_plans` plans; `plain` are the candidates without chains."""
        left, limit = most_plans, self._limits.peak_bytes
        for lower, upper in chain_intervals(self._tables, plain, self._limits):
            found: list[ChainPlan] = []
            for stripe in STRIPES:
                before = len(found)
                for share in GROWTH_SHARES:
                    cascade = Cascade(lower, upper, stripe)
                    grown = list(islice(self.grown(cascade, limit // share), left))
                    left -= len(grown)
                    found += grown
                if all(plan.peak_bytes >= limit for plan in found[before:]):
                    break  # higher stripes need more memory
            every = list(islice(self.every_set(lower, upper), left))
            left -= len(every)
            found += every
            for plan in frontier(found, lambda s: (s.peak_bytes, s.time)):
                if plan.chains and plan.peak_bytes < limit:
                    self._found.setdefault(upper, []).append(self.valued(plan))

    def can_recompute(self, p: int, upper: int) -> bool:
        """Whether a cascade that ends at `upper`, exclusive, can recompute the output of part p."""
        return bool(self._readers[p]) and max(self._readers[p]) < upper

    def grown(self, cascade: Cascade, scratch: int) -> Iterator[ChainPlan]:
        """Yield plans that recompute more and more tensors, starting from none.

        Each iteration yields a plan for each further tensor, and extends the one with the least
        memory; the chains of these plans need at most `scratch` bytes in a call.  The plan to be
        extended is also yielded with the scratch memory limited by each of `SCRATCH_SHARES`.
        """
        limit = self._limits.peak_bytes
        lower, upper = cascade.lower, cascade.upper
        plan = self.evaluated(cascade, {})
        candidates = [(p,) for p in range(lower, upper) if self.can_recompute(p, upper)]
        assert plan is not None
        best, waited = plan.peak_bytes, 0
        while waited < PATIENCE:
            # In a residual block, recomputing a single tensor saves no memory.
            additions = candidates if plan.chains else [*candidates, *_runs(candidates)]
            tried = [
                new
                for added in additions
                if (new := self._with_recomputed(plan, added, scratch)) is not None
            ]
            yield from tried
            if not tried:
                return
            plan = min(tried, key=lambda s: (s.peak_bytes, s.time))
            waited = 0 if plan.peak_bytes < best else waited + 1
            best = min(best, plan.peak_bytes)
            for share in SCRATCH_SHARES:
                other = self._within(plan, limit // share)
                if other is not None:
                    yield other

    def every_set(self, lower: int, upper: int) -> Iterator[ChainPlan]:
        """Yield plans of [lower, upper) for each stripe height and set of recomputed tensors.

        In the fastest bands first, then in the fastest that need less scratch memory, and so on.
        """
        if sum(map(bool, self._readers)) > MOST_TENSORS:  # of the whole order
            return
        # readers before what they read, so that each tensor finds the chain that it joins
        possible = [p for p in reversed(range(lower, upper)) if self.can_recompute(p, upper)]
        sets = [s for k in range(1, len(possible) + 1) for s in combinations(possible, k)]
        for stripe, chosen in product(STRIPES, sets):
            plan = self.evaluated(Cascade(lower, upper, stripe), {})
            assert plan is not None
            scratch = self._limits.peak_bytes
            while found := self._with_recomputed(plan, chosen, scratch):
                yield found
                scratch = max(shape.call_scratch_bytes for shape in found.chains.values()) - 1

    def _with_recomputed(
        self, plan: ChainPlan, added: Sequence[int], scratch: int
    ) -> ChainPlan | None:
        """The plan with the outputs of the parts at `added` recomputed, too; None if impossible."""
        for p in added:
            chains = None if p in plan.members else self.extended(plan, p, scratch)
            if chains is None:
                return None
            plan = replace(plan, chains=chains)
        return self.evaluated(plan.cascade, plan.chains)

    def extended(self, plan: ChainPlan, p: int, scratch: int) -> Chains | None:
        """The chains of a plan, one of them extended by the part at p, which no longer stores its
        output.

        It joins the chain that contains the readers of the output, or forms a new one with a single
        reader.  The figures of the plan are not used.

        None if the part has several readers that are not in one chain, or if a call of the new or
        extended chain needs more than `scratch` bytes in all bands.
        """
        ends = {q: c for c, found in plan.chains.items() for q in found.chain.parts}
        lasts = {ends.get(q, q) for q in self._readers[p]}
        if len(lasts) > 1:
            return None
        (last,) = lasts
        chains = dict(plan.chains)
        # if a chain ends with the part, all parts of that chain join, too
        mine, other = chains.pop(p, None), chains.get(last)
        joined = (one.chain.parts for one in (mine, other) if one is not None)
        parts = tuple(sorted({p, last}.union(*joined)))
        shape = self._shape(parts, plan.cascade.stripe, scratch)
        return None if shape is None else {**chains, last: shape}

    def _shape(self, parts: Positions, stripe: int, scratch: int) -> ChainShape | None:
        key = parts, stripe, scratch
        if key not in self._fastest:
            cycles = partial(self._cycles, stripe)
            self._fastest[key] = min(self._shapes.shapes(*key), key=cycles, default=None)
        return self._fastest[key]

    def _cycles(self, stripe: int, shape: ChainShape) -> float:
        """The estimated cycles of all calls of a chain, if they compute `stripe` rows each."""
        key = shape.chain, stripe
        if key not in self._known_cycles:
            last = shape.chain.parts[-1]
            rows = int(self._tables.rows[self._tables.written[last]])
            image = int(self._tables.image[last]) if stripe < rows else rows
            firsts, ends = call_intervals(rows, image, stripe, stripe)
            work = float(self._costs(shape).per_share[1] @ shape.share(firsts, ends))
            self._known_cycles[key] = work + len(firsts) * self._call_cycles(shape)
        return self._known_cycles[key]

    def _costs(self, shape: ChainShape) -> _ChainCosts:
        chain = shape.chain
        if chain not in self._known_costs:
            inside = np.array(chain.parts)
            rows = self._tables.rows[self._tables.written[inside]]
            of_rows = rows * np.array([self._row_cycles(p) for p in chain.parts])
            macs, work = self._macs[inside], self._work[inside]
            # if n bands divide a row, a part spends `BandSource.row_cycles` n times on the row
            self._known_costs[chain] = _ChainCosts(
                inside,
                np.stack([macs, work + (shape.bands / shape.columns - 1) * of_rows]),
                np.array([macs.sum(), (work - self._slower[inside]).sum()]),
            )
        return self._known_costs[chain]

    def _call_cycles(self, shape: ChainShape) -> int:
        # A copy of kept columns is taken to have the overhead of the part that computes them.
        inside = [*shape.chain.parts, *shape.moves]
        calls = shape.bands * int(self._tables.call_cycles[inside].sum())
        return calls + MOVE_CYCLES * shape.moved_bytes

    def _within(self, plan: ChainPlan, scratch: int) -> ChainPlan | None:
        chains: dict[int, ChainShape] = {}
        for last, found in plan.chains.items():
            shape = self._shape(found.chain.parts, plan.cascade.stripe, scratch)
            if shape is None:
                return None
            chains[last] = shape
        return self.evaluated(plan.cascade, chains)

    def evaluated(self, cascade: Cascade, chains: Chains) -> ChainPlan | None:
        """The plan of a cascade with chains; None if it exceeds `BandLimits.extra_macs`."""
        key = cascade, tuple(shape.chain for _, shape in sorted(chains.items(), key=_last))
        if key not in self._evaluated:
            self._evaluated[key] = self._evaluate(cascade, chains)
        return self._evaluated[key]

    def _evaluate(self, cascade: Cascade, chains: Chains) -> ChainPlan | None:
        costs = {last: self._costs(shape) for last, shape in chains.items()}
        t = self._tables
        begin, end, scratch, calls = (a.copy() for a in (t.begin, t.end, t.scratch, t.call_cycles))
        for last, shape in chains.items():
            inside = costs[last].inside
            end[inside], scratch[inside], begin[last] = last, 0, inside[0]
            scratch[last] = shape.call_scratch_bytes
            calls[last] = self._call_cycles(shape)
        t = t._replace(begin=begin, end=end, scratch=scratch, call_cycles=calls)
        lower, upper, stripe = cascade.lower, cascade.upper, cascade.stripe
        peak, count, cycles = run_cascade(t, lower, upper, stripe, UNBOUNDED, self._calls)
        made = self._calls[:count]
        # The arena of the chains is also the scratch buffer of the parts outside of chains.
        slower = np.where(self._preferred > scratch[lower:upper].max(), self._slower, 0.0)
        added = np.array([0.0, cycles])
        for last, shape in chains.items():
            firsts, ends = made[made[:, 0] == last, 1:3].T
            added += costs[last].per_share @ shape.share(firsts, ends) - costs[last].once
            slower[costs[last].inside] = 0.0
        macs, time = added.tolist()
        if macs > self._limits.extra_macs:
            return None
        time += float(slower[lower:upper].sum())
        return ChainPlan(cascade, chains, int(peak), round(time), macs)

    def valued(self, plan: ChainPlan) -> Candidate:
        """The plan as a candidate, whose chains have indices of parts instead of positions."""
        memory, order, cascade = self._memory, self._order, plan.cascade
        chains = tuple(
            replace(shape.chain, parts=tuple(order[p] for p in shape.chain.parts))
            for _, shape in sorted(plan.chains.items(), key=_last)
        )
        scratch = int(self._tables.scratch[cascade.lower : cascade.upper].max())
        parts, nearest = order[cascade.lower : cascade.upper], self._nearest_first
        found = Plan(parts, cascade.stripe, nearest, scratch_bytes=scratch, chains=chains)
        costs = plan.peak_bytes, plan.time
        return Candidate(cascade.lower, cascade.upper, found, memory, *costs, memory, memory)


def _last(item: tuple[int, ChainShape]) -> int:
    return item[0]


def _runs(candidates: Sequence[tuple[int]]) -> Iterator[tuple[int, ...]]:
    """All tuples of adjacent positions: [(3,), (4,), (7,)] gives only (4, 3)."""
    every = {p for (p,) in candidates}
    for p in sorted(every):
        for size in (2, 3):  # readers before what they read
            run = tuple(range(p, p - size, -1))
            if every.issuperset(run):
                yield run


def chain_intervals(
    tables: RowTables, plain: Iterable[Candidate], limits: BandLimits
) -> list[tuple[int, int]]:
    """The intervals [lower, upper) of positions in which chains may save memory.

    Without chains, they need at least `limits.peak_bytes`, while all parts outside of them may need
    less.  At most `MOST_INTERVALS`, in ascending order of the memory that the interval needs as a
    single cascade with one row per call.

    plain: the candidate cascades without chains.
    """
    count, limit, resident = len(tables.resident) - 1, limits.peak_bytes, tables.resident
    least = _least_peaks(plain, count)
    # What an interval needs at least, with chains: no chain saves what is live before and after it.
    bound = np.where(least < limit, least, np.maximum.outer(resident, resident))
    before, after = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for p in range(1, count + 1):
        before[p] = np.maximum(before[:p], bound[:p, p]).min()
    for p in range(count - 1, -1, -1):
        after[p] = np.maximum(after[p + 1 :], bound[p, p + 1 :]).min()
    rest = np.maximum(np.maximum.outer(before, after), bound)
    positions = np.arange(count + 1)
    lengths = positions[None, :] - positions[:, None]
    searched = (rest < limit) & (limit <= least) & (lengths >= 2) & (lengths <= limits.parts)
    found: list[tuple[int, int, int]] = []
    for a, b in np.argwhere(searched).tolist():
        # A simulation that reaches the highest peak to be kept may stop.
        highest = found[-1][0] if len(found) == MOST_INTERVALS else UNBOUNDED
        insort(found, (run_cascade(tables, a, b, 1, highest, NO_CALLS)[0], a, b))
        del found[MOST_INTERVALS:]
    return [(a, b) for _, a, b in found]


def _least_peaks(plain: Iterable[Candidate], count: int) -> Numbers:
    """[lower, upper]: the least peak of all divisions of [lower, upper) into plain cascades."""
    direct: dict[tuple[int, int], int] = {}
    for candidate in plain:
        key = candidate.upper, candidate.lower
        direct[key] = min(direct.get(key, UNBOUNDED), candidate.peak_bytes)
    # [upper, lower], one row at a time for all first positions: each last cascade [lower, upper)
    # follows the best division of what comes before it.
    found = np.full((count + 1, count + 1), UNBOUNDED)
    np.fill_diagonal(found, 0)
    for (upper, lower), peak in sorted(direct.items()):
        np.minimum(found[upper], np.maximum(found[lower], peak), out=found[upper])
    np.fill_diagonal(found, UNBOUNDED)
    return found.T
