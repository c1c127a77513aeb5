"""Candidate cascades in which chains recompute intermediate tensors, for one execution order.

A chain computes a few rows of its output per call, in bands of columns, and recomputes what it
needs of its intermediate tensors.  These have memory only during the call, so all chains of a
cascade share one scratch buffer.  The search is greedy: for each stripe height and limit of this
buffer, it begins without recomputation, and repeatedly adds the tensor whose recomputation leads to
the lowest peak memory.  If few tensors can be recomputed, all sets of them are tried, too.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, islice, product

import numpy as np

from penstock.compiled import UNBOUNDED, compiled
from penstock.pareto import frontier
from penstock.scheduling.bands.band_search import BandLimits, necessary_macs
from penstock.scheduling.bands.chain_shape import ChainShape, ChainShapes
from penstock.scheduling.bands.chain_tables import chain_shares, run_chains
from penstock.scheduling.bands.ordered_parts import OrderedParts
from penstock.scheduling.cascades.candidate import Candidate, Chain, ValuedCandidate
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.simulate.row_tables import Numbers, RowTables, advances
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

MOVE_CYCLES = 3
"""Estimated cycles of moving a byte of a kept column."""
_Key = tuple[int, int, int, tuple[tuple[int, tuple[int, ...], int, bool], ...]]
"""Cascade [lower, upper), stripe height, and (last, members, width, keeps halos) of each chain."""


class ChainSearch:
    """Enumerates the cascades of an execution order in which chains recompute tensors.

    tables: the parts of the order and the rows that they read.
    shapes: the shapes of the chains of the order.
    nearest_first: the value of `Plan.nearest_first` (the order in which missing rows of several
        inputs are computed) in all plans of the search; `tables` must be made for this value.
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
        self._advance = np.array(advances(ordered.parts.rows, ordered.order)) * (
            -1 if nearest_first else 1
        )
        model = cycles.model
        self._shapes = shapes
        self._work = np.array([model.work_cycles(p.within(0)) for p in self._parts], np.float64)
        self._slower = self._work - [model.work_cycles(p) for p in self._parts]
        self._row_cycles = cycles.of_row
        self._preferred = np.array([p.kernel.scratch_bytes for p in self._parts], np.int64)
        self._macs = np.array([necessary_macs(part) for part in self._parts], np.float64)
        count = len(self._parts)
        self._readers = [self._shapes.readers(p) for p in range(count)]
        self._calls = np.empty((int(tables.rows.sum()) + count, 4), np.int64)
        self._alone = np.stack([np.arange(count), tables.scratch, tables.call_cycles])
        self._fastest: dict[tuple[int, tuple[int, ...], int, int], ChainShape | None] = {}
        self._known_cycles: dict[tuple[int, tuple[int, ...], int, int, bool], float] = {}
        self._known_costs: dict[tuple[int, tuple[int, ...], int, bool], ChainCosts] = {}
        self._evaluated: dict[_Key, ChainPlan | None] = {}
        self._found: dict[int, list[ValuedCandidate]] = {}

    def candidates(self, upper: int) -> list[ValuedCandidate]:
        """Return the cascades with chains that end at position `upper` of the execution order."""
        return self._found.get(upper, [])

    def search(self, plain: Iterable[ValuedCandidate], most_plans: int) -> None:
        """Search for cascades with chains, which `candidates` then returns.

        plain: the candidate cascades without chains.
        most_plans: maximum number of plans to evaluate.
        """
        left, limit = most_plans, self._limits.peak_bytes
        for lower, upper in chain_intervals(self._tables, plain, self._limits):
            found: list[ChainPlan] = []
            for stripe in STRIPES:
                before = len(found)
                for share in GROWTH_SHARES:
                    scratch = limit // share
                    grown = list(islice(self.grown(lower, upper, stripe, scratch), left))
                    left -= len(grown)
                    found += grown
                if all(plan.peak_bytes >= limit for plan in found[before:]):
                    break  # higher stripes need more memory
            every = list(islice(self.every_set(lower, upper), left))
            left -= len(every)
            found += every
            for state in frontier(found, lambda s: (s.peak_bytes, s.time)):
                if state.chains and state.peak_bytes < limit:
                    valued = self.valued(lower, upper, state)
                    self._found.setdefault(upper, []).append(valued)

    def can_recompute(self, p: int, upper: int) -> bool:
        """Return whether a cascade that ends at `upper` can recompute the output of the part at p.

        All readers of the output must be before `upper`, and the output must meet the conditions
        that `ChainShapes.readers` states; for example, it must have at least two rows.
        p, upper: positions in the execution order; `upper` is exclusive.
        """
        return bool(self._readers[p]) and max(self._readers[p]) < upper

    def grown(self, lower: int, upper: int, stripe: int, scratch: int) -> Iterator[ChainPlan]:
        """Yield plans that recompute more and more tensors, starting from none.

        Each iteration extends one plan: for each further tensor, it yields a plan that recomputes
        this tensor, too.  The first iteration also yields plans that recompute two or three
        consecutive tensors.  The next iteration extends the new plan with the least memory.

        This plan is also yielded with limited scratch memory, once for each n in `SCRATCH_SHARES`:
        its chains then run in the fastest bands for which a call needs at most
        `BandLimits.peak_bytes` / n scratch bytes.
        lower, upper: the cascade consists of the parts at positions [lower, upper) of the order.
        stripe: maximum number of rows per call.
        scratch: maximum scratch bytes of a call of a chain, in the plans that are extended.
        """
        limit = self._limits.peak_bytes
        state = self.evaluated(lower, upper, stripe, {})
        candidates = [(p,) for p in range(lower, upper) if self.can_recompute(p, upper)]
        assert state is not None
        best, waited = state.peak_bytes, 0
        while waited < PATIENCE:
            additions = candidates if state.chains else [*candidates, *_runs(candidates)]
            tried: list[ChainPlan] = []
            for added in additions:
                new = self._with_recomputed(lower, upper, state, added, scratch)
                tried += [] if new is None else [new]
            yield from tried
            if not tried:
                return
            state = min(tried, key=lambda s: (s.peak_bytes, s.time))
            waited = 0 if state.peak_bytes < best else waited + 1
            best = min(best, state.peak_bytes)
            for share in SCRATCH_SHARES:
                other = self._within(lower, upper, state, limit // share)
                if other is not None:
                    yield other

    def every_set(self, lower: int, upper: int) -> Iterator[ChainPlan]:
        """Yield plans for each height in `STRIPES` and each set of tensors that can be recomputed.

        The plans are for the cascade [lower, upper).  Plans of the same height and set differ in
        the widths of bands.  The first plan has the fastest bands; each later one has the fastest
        bands that need less scratch memory than those of the plan before.

        No plans if more than `MOST_TENSORS` tensors of the order can be recomputed.
        """
        if sum(map(bool, self._readers)) > MOST_TENSORS:
            return
        possible = [p for p in reversed(range(lower, upper)) if self.can_recompute(p, upper)]
        sets = [s for k in range(1, len(possible) + 1) for s in combinations(possible, k)]
        for stripe, chosen in product(STRIPES, sets):
            state = self.evaluated(lower, upper, stripe, {})
            assert state is not None
            scratch = self._limits.peak_bytes
            while found := self._with_recomputed(lower, upper, state, chosen, scratch):
                yield found
                scratch = max(shape.call_scratch_bytes for shape in found.chains.values()) - 1

    def _with_recomputed(
        self, lower: int, upper: int, state: ChainPlan, added: tuple[int, ...], scratch: int
    ) -> ChainPlan | None:
        """Return the plan `state`, changed to also recompute the outputs of the parts at `added`.

        state: plan of the cascade [lower, upper).

        Returns None in three cases: `state` already recomputes one of these outputs, one of the
        parts cannot be added to a chain (`extended`), or the new plan recomputes more
        multiply-accumulates than `BandLimits.extra_macs`.
        """
        for p in added:
            chains = None if p in state.members else self.extended(state, p, state.stripe, scratch)
            if chains is None:
                return None
            state = replace(state, chains=chains)
        return self.evaluated(lower, upper, state.stripe, state.chains)

    def extended(
        self, state: ChainPlan, p: int, stripe: int, scratch: int
    ) -> dict[int, ChainShape] | None:
        """Return all chains of `state`, one of them extended by the part at position `p`.

        As a member of the chain, the part no longer stores its output, but recomputes it.  It joins
        the chain that contains the readers of the output.  If a single part that is in no chain
        reads the output, both form a new chain.  If a chain ends with the part at `p`, all parts of
        that chain join, too.
        Keys of the result: positions of the last parts of the chains.
        state: a plan, of which only the chains are used.
        stripe: maximum number of rows per call.
        scratch: maximum scratch bytes of a call of the new or extended chain.

        Returns None if the part has several readers that are not in one chain, or if no bands of
        the new or extended chain fit into `scratch`.
        """
        ends = {q: c for c, chain in state.chains.items() for q in chain.members}
        lasts = {ends.get(q, q) for q in self._readers[p]}
        if len(lasts) > 1:
            return None
        (last,) = lasts
        chains = dict(state.chains)
        mine = chains.pop(p, None)
        other = chains.get(last)
        members = {p}.union(mine.members if mine else (), other.members if other else ())
        shape = self._shape(last, tuple(sorted(members)), stripe, scratch)
        return None if shape is None else {**chains, last: shape}

    def _shape(
        self, last: int, members: tuple[int, ...], stripe: int, scratch: int
    ) -> ChainShape | None:
        """Return the shape of a chain in its fastest bands of columns; None if no bands fit.

        last, members: positions of the last part, and of the others in ascending order.
        scratch: maximum scratch bytes of a call; bands that need more do not fit.
        """
        key = last, members, stripe, scratch
        if key not in self._fastest:
            shapes = self._shapes.shapes(*key)
            cycles = partial(self._cycles, last, stripe)
            self._fastest[key] = min(shapes, key=cycles, default=None)
        return self._fastest[key]

    def _cycles(self, last: int, stripe: int, chain: ChainShape) -> float:
        """Return the estimated cycles of all calls of a chain, which compute `stripe` rows each."""
        key = last, chain.members, stripe, chain.width, chain.keeps_halos
        if key not in self._known_cycles:
            self._known_cycles[key] = self._found_cycles(last, stripe, chain)
        return self._known_cycles[key]

    def _found_cycles(self, last: int, stripe: int, chain: ChainShape) -> float:
        rows = int(self._tables.rows[self._tables.written[last]])
        firsts = np.arange(0, rows, stripe)
        ends = np.minimum(firsts + stripe, rows)
        share = (chain.upper[:, ends] - chain.lower[:, firsts]).sum(axis=1)
        work = float(self._costs(last, chain).per_share[1] @ share)
        return work + len(firsts) * self._call_cycles(last, chain)

    def _costs(self, last: int, chain: ChainShape) -> ChainCosts:
        """Return the costs of a chain's parts in its bands, and without recomputation."""
        key = last, chain.members, chain.width, chain.keeps_halos
        if key not in self._known_costs:
            inside = np.array([*chain.members, last])
            rows = self._tables.rows[self._tables.written[inside]]
            of_rows = rows * np.array([self._row_cycles(p) for p in inside.tolist()])
            macs, work = self._macs[inside], self._work[inside]
            # if n bands divide a row, a part spends `BandSource.row_cycles` n times on the row
            self._known_costs[key] = ChainCosts(
                inside,
                np.stack([macs, work + (chain.bands / chain.columns - 1) * of_rows]),
                np.array([macs.sum(), (work - self._slower[inside]).sum()]),
            )
        return self._known_costs[key]

    def _call_cycles(self, last: int, chain: ChainShape) -> int:
        """Return the overhead, in cycles, of a call of a chain whose last part has position `last`.

        A call runs all bands.  In each band, every part and every copy that moves kept columns has
        an overhead.  The overhead of a copy is estimated as the call overhead of the part that
        computes the moved columns, plus `MOVE_CYCLES` for each byte.
        """
        inside = [*chain.members, *chain.moves, last]
        calls = chain.bands * int(self._tables.call_cycles[inside].sum())
        return calls + MOVE_CYCLES * chain.moved_bytes

    def _within(self, lower: int, upper: int, state: ChainPlan, scratch: int) -> ChainPlan | None:
        """Return the plan `state` with other bands, so that its chains need less scratch memory.

        Each chain recomputes the same outputs, in the fastest of those bands that fit `scratch`.
        state: plan of the cascade [lower, upper).

        Returns None if no bands of a chain fit, or if the new plan recomputes more
        multiply-accumulates than `BandLimits.extra_macs`.
        """
        chains: dict[int, ChainShape] = {}
        for last, chain in state.chains.items():
            shape = self._shape(last, chain.members, state.stripe, scratch)
            if shape is None:
                return None
            chains[last] = shape
        return self.evaluated(lower, upper, state.stripe, chains)

    def evaluated(
        self, lower: int, upper: int, stripe: int, chains: dict[int, ChainShape]
    ) -> ChainPlan | None:
        """Return the plan of the cascade [lower, upper) with the given chains; results are cached.

        stripe: maximum number of rows per call.
        chains: shape of each chain, by the position of its last part.

        Returns None if the chains recompute more multiply-accumulates than `BandLimits.extra_macs`.
        """
        shapes = (
            (last, chain.members, chain.width, chain.keeps_halos)
            for last, chain in sorted(chains.items())
        )
        key = lower, upper, stripe, tuple(shapes)
        if key not in self._evaluated:
            self._evaluated[key] = self._evaluate(lower, upper, stripe, chains)
        return self._evaluated[key]

    def _evaluate(
        self, lower: int, upper: int, stripe: int, chains: dict[int, ChainShape]
    ) -> ChainPlan | None:
        t, numbers, made = self._tables, self._alone.copy(), self._calls
        end, scratch, call_cycles = numbers
        costs = {last: self._costs(last, chain) for last, chain in chains.items()}
        for last, chain in chains.items():
            inside = costs[last].inside
            end[inside], scratch[inside], call_cycles[inside] = last, 0, 0
            scratch[last] = chain.call_scratch_bytes
            call_cycles[last] = self._call_cycles(last, chain)
        interval = lower, upper
        peak, count, cycles = run_chains(t, numbers, self._advance, interval, stripe, made)
        most = int(scratch[lower:upper].max())
        slower = np.where(self._preferred > most, self._slower, 0.0)
        added = np.array([0.0, cycles])
        for last, chain in chains.items():
            share = chain_shares(made[:count], last, chain.lower, chain.upper)
            added += costs[last].per_share @ share - costs[last].once
            slower[costs[last].inside] = 0.0
        macs, time = added.tolist()
        if macs > self._limits.extra_macs:
            return None
        time += float(slower[lower:upper].sum())
        return ChainPlan(chains, int(peak), round(time), macs, stripe)

    def valued(self, lower: int, upper: int, state: ChainPlan) -> ValuedCandidate:
        memory, order = self._memory, self._order
        chains = tuple(
            Chain(tuple(order[p] for p in (*chain.members, last)), chain.width, chain.keeps_halos)
            for last, chain in sorted(state.chains.items())
        )
        scratch = int(self._tables.scratch[lower:upper].max())
        cascade = lower, upper, state.stripe, self._nearest_first
        candidate = Candidate(*cascade, memory, scratch_bytes=scratch, chains=chains)
        return ValuedCandidate(candidate, state.peak_bytes, state.time, memory, memory)


def _runs(candidates: Sequence[tuple[int]]) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of two or three adjacent positions, in descending order, such as (4, 3).

    The search recomputes the outputs at such positions together: in a residual block, for example,
    recomputing a single tensor saves no memory.
    candidates: the positions of recomputable outputs, each as a tuple (p,).  [(3,), (4,), (7,)]
        gives only (4, 3).
    """
    every = {p for (p,) in candidates}
    for p in sorted(every):
        for size in (2, 3):
            run = tuple(range(p, p - size, -1))
            if every.issuperset(run):
                yield run


@dataclass(frozen=True, slots=True)
class PartCycles:
    """Cycles of the parts of an execution order.

    model: estimates the cycles of parts.
    of_row: returns, for the part at a position, the fixed cycles that it spends on each row of each
        band, however many columns the band has (`BandSource.row_cycles`).
    """

    model: CostModel
    of_row: Callable[[int], float]


@dataclass(frozen=True, slots=True, eq=False)
class ChainCosts:
    """What the parts of a chain cost in its bands, and what they cost without recomputation.

    inside: positions of its parts, in ascending order.
    per_share: two rows, multiply-accumulates and cycles, with one entry per part: the cost of
        computing its output once, in the bands of the chain.  A part whose share of its output in
        all calls is 1.5 (`chain_shares`), because it computes half of it twice, costs 1.5 times as
        much.
    once: [multiply-accumulates, cycles] that all parts together need if they do not run as a chain,
        compute each element once, and run their preferred kernels.
    """

    inside: np.ndarray
    per_share: np.ndarray
    once: np.ndarray


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """A choice of the tensors that a cascade recomputes, with the cascade's memory and cycles.

    chains: shape of each chain, by the position of its last part.
    peak_bytes: live bytes at the peak of the cascade.
    time: estimated cycles of the overhead of calls, of recomputation, and of the delay by fallback
        kernels.  Left out are the cycles in which the preferred kernels compute each element once;
        they are the same for all plans of the cascade.
    macs: multiply-accumulates that recomputation adds.
    stripe: maximum number of rows per call.
    """

    chains: dict[int, ChainShape]
    peak_bytes: int
    time: int
    macs: float
    stripe: int

    @property
    def members(self) -> frozenset[int]:
        """Positions of the parts whose outputs are recomputed."""
        return frozenset(p for chain in self.chains.values() for p in chain.members)


MOST_INTERVALS = 6
"""Maximum number of intervals to search: those that need the least memory without chains."""
_NO_CALLS = np.empty((0, 4), np.int64)


def chain_intervals(
    tables: RowTables, plain: Iterable[ValuedCandidate], limits: BandLimits
) -> list[tuple[int, int]]:
    """Return the intervals [lower, upper) of positions in which to search for chains.

    In these intervals, cascades without chains need at least `limits.peak_bytes`, but a cascade
    with chains may need less.  The result contains at most `MOST_INTERVALS` intervals, in ascending
    order of the memory that the interval needs as a single cascade with one row per call.

    tables: the parts of the order and the rows that they read.
    plain: the candidate cascades without chains.
    """
    count, limit, resident = len(tables.resident) - 1, limits.peak_bytes, tables.resident
    least = np.full((count + 1, count + 1), UNBOUNDED)
    for valued in plain:
        c = valued.candidate
        least[c.lower, c.upper] = min(least[c.lower, c.upper], valued.peak_bytes)
    _compose(least)
    bound = np.where(least < limit, least, np.maximum.outer(resident, resident))
    before, after = least[0].copy(), least[:, count].copy()
    before[0] = after[count] = 0
    for p in range(1, count + 1):
        before[p] = np.maximum(before[:p], bound[:p, p]).min()
    for p in range(count - 1, -1, -1):
        after[p] = np.maximum(after[p + 1 :], bound[p, p + 1 :]).min()
    found: list[tuple[int, int, int]] = []
    for a in range(count):
        for b in range(a + 2, min(count, a + limits.parts) + 1):
            if max(before[a], bound[a, b], after[b]) < limit <= least[a, b]:
                # A simulation that reaches the highest peak to be kept may stop.
                highest = found[-1][0] if len(found) == MOST_INTERVALS else UNBOUNDED
                insort(found, (run_cascade(tables, a, b, 1, highest, _NO_CALLS)[0], a, b))
                del found[MOST_INTERVALS:]
    return [(a, b) for _, a, b in found]


@compiled
def _compose(least: Numbers) -> None:
    """Lower the memory of each interval to that of the best sequence of intervals."""
    for lower in range(len(least) - 1, -1, -1):
        for middle in range(lower + 1, len(least)):
            for upper in range(middle + 1, len(least)):
                both = max(least[lower, middle], least[middle, upper])
                least[lower, upper] = min(least[lower, upper], both)
