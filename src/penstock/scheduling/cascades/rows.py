"""Candidate cascades by rows, where access times do not depend on the memory assignment.

Each interval of at most `Options.max_parts` parts of an execution order is tried with several
stripe heights, and with both values of `Plan.nearest_first` if these differ for a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED
from penstock.frozen import frozen
from penstock.ir.tensor import row_count
from penstock.pareto import efficient_pairs
from penstock.scheduling.cascades.proposals import Candidate, PartOrder
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan, Prefetch, PrefetchStart
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.row_tables import (
    Numbers,
    RowTables,
    read_order_differs,
    row_tables,
    with_whole_requests,
)
from penstock.scheduling.simulate.walk import (
    WHOLE,
    candidates,
    initial_alternatives,
    run_cascade,
    run_whole,
)

SHARES = (2, 3, 4, 5)
"""Numbers of equal stripes to try if a kernel has its own cost function (`Kernel.cycles`)."""


def candidate_heights(parts: Parts, most: int) -> list[int]:
    """The stripe heights to try, in rows, ascending and at most `most`."""
    storages = parts.rows.storages
    heights = {storage.rows for storage in storages}
    below = min(max(heights, default=1) - 1, most)
    found = {1 << k for k in range(below.bit_length())}
    # whole images, of several
    images = ((part.image_rows, storages[part.written].rows) for part in parts.rows.row_parts)
    found |= {image for image, rows in images if image < rows}
    if any(part.kernel.cycles is not None for part in parts.parts):
        # With its own cost function, saving a call may save many cycles: the least heights with
        # which 2, 3, 4 and 5 calls suffice.
        found |= {-(-height // share) for height in heights for share in SHARES}
    return sorted(height for height in found if height <= below)


class UniformSearch:
    """Enumerates candidate cascades of one execution order with all tensors in the default region.

    limit_bytes: cascades with more live bytes at the peak may be left out.
    """

    def __init__(
        self,
        parts: Parts,
        order: PartOrder,
        model: CostModel,
        memory: MemoryAssignment,
        options: Options,
        limit_bytes: float = math.inf,
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._options, self._limit_bytes = options, limit_bytes
        self._memory, self._order = memory, order
        self.calls = 0  # kernel calls simulated so far, a measure of work
        self._tables = tuple(
            row_tables(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        heights = candidate_heights(parts, options.max_stripe)
        known = initial_alternatives(self._tables[0], heights, options.max_parts)
        self._alternatives = known, known.for_other_tables()
        if limit_bytes < UNBOUNDED and options.prune_by_shorter:  # simulations end at the limit
            peaks = known.least_peak
            np.minimum(peaks, int(limit_bytes) + 1, out=peaks)
        # Call overheads are rough where kernels have cost functions, so neither prunes the other.
        own = known.for_other_tables()
        self._alternatives_at_once = own._replace(least_peak=known.least_peak.copy())
        self._kernels = KernelChoices.of(parts, order, model, memory)
        self._found: dict[int, tuple[Candidate, ...]] = {}
        self._reads_constants = parts.can_prefetch
        self._order_choices = np.append(0, np.cumsum(read_order_differs(*self._tables)))

    @property
    def tables(self) -> RowTables:
        return self._tables[0]

    @property
    def tables_by_order(self) -> tuple[tuple[bool, RowTables], ...]:
        """The tables for each `Plan.nearest_first`; only those for False if they are the same."""
        differs = bool(read_order_differs(*self._tables).any())
        return tuple(zip((False, True)[: 1 + differs], self._tables, strict=False))

    def candidates(
        self, upper: int, states: Sequence[Iterable[MemoryAssignment]]
    ) -> tuple[Candidate, ...]:
        """The candidates that end at position `upper`, exclusive; a `CandidateSource`.

        To be called with ascending `upper`: with the option `prune_by_shorter`, a cascade is
        dropped if shorter ones cover the same positions with no higher peak and no more call
        overhead.
        """
        if upper not in self._found:
            self._found[upper] = tuple(self._enumerated(upper))
        return self._found[upper]

    def _enumerated(self, upper: int) -> Iterator[Candidate]:
        memory, order = self._memory, self._order
        alone = Plan(order[upper - 1 : upper], None)
        cost = run_whole(self._tables[0], upper - 1)
        yield from self._kernels.valued(
            Candidate(upper - 1, upper, alone, memory, *cost, memory, memory)
        )
        least = max(0, upper - self._options.max_parts)
        # From this position on, no part of the interval has a choice of the order of its inputs.
        same_order = int(np.searchsorted(self._order_choices, self._order_choices[upper]))
        variants = [(False, False, upper), (True, False, max(least, same_order))]
        if self._reads_constants:  # saving a call saves reading constants
            variants.append((False, True, upper))
        equal_stripes = dict[int, int]()  # cycles of the part that runs alone, by height
        for nearest_first, whole_requests, most in variants:
            tables = self._tables[nearest_first]
            found, calls = candidates(
                with_whole_requests(tables) if whole_requests else tables,
                range(least, most),
                upper,
                self._alternatives_at_once if whole_requests else self._alternatives[nearest_first],
                prune=self._options.prune_by_shorter,
            )
            self.calls += calls
            if not (
                nearest_first or whole_requests
            ):  # cascades without a choice are the same with the other tables
                alike = upper - same_order + 1
                one, other = (each.settled[upper, :alike] for each in self._alternatives)
                other[:] = one
            _, _, peaks, _ = found.T
            found = found[peaks <= self._limit_bytes]
            for lower, stripe, peak, cycles in found[_relevant(found, upper)].tolist():
                if lower == upper - 1:
                    if whole_requests and cycles >= equal_stripes.get(stripe, UNBOUNDED):
                        continue
                    equal_stripes[stripe] = cycles
                plan = Plan(
                    order[lower:upper], stripe, nearest_first, whole_requests=whole_requests
                )
                yield from self._kernels.valued(
                    Candidate(lower, upper, plan, memory, peak, cycles, memory, memory),
                    calls=cycles // max(1, int(tables.call_cycles[upper - 1])),
                )


def _relevant(found: Numbers, upper: int) -> npt.NDArray[np.bool_]:
    """A mask of the candidates to keep, given rows (lower, stripe, peak, cycles)."""
    lower, _, peak, cycles = found.T
    # Prefetches, which are selected later, may make any candidate with a single part the fastest.
    kept = lower == upper - 1
    if not kept.all():
        kept[efficient_pairs(peak, cycles, lower)] = True
    return kept


FEW_ROWS = 8
"""If no tensor has more rows than this, cascades with two rows per call are tried too.  For so few
rows, they may need less memory than cascades with one row per call."""


@frozen
class RowPeak:
    """The peak of the cascades that need the least memory."""

    live_bytes: int
    part: str | None  # that runs at the peak; None if the network's inputs alone need as much


class _LastCascade(NamedTuple):
    lower: int
    tables: RowTables
    stripe: int


def least_row_peak(parts: Parts, options: Options, limit_bytes: int = UNBOUNDED) -> RowPeak | None:
    """The least peak of all divisions of the graph's order into cascades, if below `limit_bytes`.

    To compare graphs before schedules are searched, in a small fraction of the time of that search.
    """
    count, most = len(parts.parts), options.max_parts
    both = [
        row_tables(
            parts.rows,
            tuple(range(count)),
            keep_inputs=options.keep_input,
            nearest_first=nearest,
        )
        for nearest in (False, True)
    ]
    orders = both if read_order_differs(*both).any() else both[:1]
    # cascades of one or two rows per call; a single part also computes all rows in one call
    stripes = [1] if both[0].rows.max() > FEW_ROWS else [1, 2]
    known = initial_alternatives(both[0], stripes, most)
    every_known = known, known.for_other_tables()
    np.minimum(known.least_peak, limit_bytes, out=known.least_peak)  # simulations end there
    inputs_bytes = parts.rows.inputs_bytes
    least = [inputs_bytes]
    last: list[_LastCascade] = []  # at u - 1: of the best division of the parts before position u
    for upper in range(1, count + 1):
        best = max(least[-1], int(known.least_peak[upper, 1, 0]))
        cascade = _LastCascade(upper - 1, orders[0], WHOLE)
        for tables, own in zip(orders, every_known, strict=False):
            lowers = range(max(0, upper - most), upper)
            found, _ = candidates(tables, lowers, upper, own, prune=True)
            for lower, stripe, peak, _ in found.tolist():
                if max(least[lower], peak) < best:
                    best = max(least[lower], peak)
                    cascade = _LastCascade(lower, tables, stripe)
        least.append(best)
        last.append(cascade)
    if least[-1] >= limit_bytes:
        return None
    bounds = [count]
    while bounds[-1]:
        bounds.append(last[bounds[-1] - 1].lower)
    calls = np.empty((int(both[0].rows.sum()) + count, 4), np.int64)
    for lower, upper in pairwise(reversed(bounds)):
        _, tables, stripe = last[upper - 1]
        peak, _, _ = run_cascade(tables, lower, upper, stripe, UNBOUNDED, calls[:0])
        if peak == least[-1] > inputs_bytes:
            # the simulation stops where it reaches the peak: at the last call that it records
            _, made, _ = run_cascade(tables, lower, upper, stripe, peak, calls)
            return RowPeak(peak, parts.parts[calls[made - 1, 0]].name)
    return RowPeak(least[-1], None)


class PrefetchChoice(NamedTuple):
    """A kernel that reads prefetched constants, compared with the part's preferred kernel."""

    prefetch: Prefetch
    scratch_bytes: int
    work_cycles: int  # additional, of all rows of the part and of the copy; may be negative
    call_cycles: int  # additional overhead of each call; may be negative


@frozen
class KernelChoices:
    """The kernels that each part of an execution order may run; indexed by position."""

    least: tuple[int, ...]  # scratch bytes with which the part can run
    preferred: tuple[int, ...]  # scratch bytes of the preferred kernel, which runs if they suffice
    slowdown: tuple[int, ...]  # cycles that the fallback kernel adds, for all rows
    prefetching: tuple[tuple[PrefetchChoice, ...], ...]
    rows: tuple[int, ...]  # of the output

    @staticmethod
    def of(
        parts: Parts, order: PartOrder, model: CostModel, memory: MemoryAssignment
    ) -> KernelChoices:
        steps = [parts.parts[k] for k in order]
        return KernelChoices(
            tuple(part.least_scratch_bytes for part in steps),
            tuple(part.kernel.scratch_bytes for part in steps),
            tuple(_slowdown(part, model) for part in steps),
            tuple(
                tuple(_prefetch_choices(k, part, model, memory))
                for k, part in zip(order, steps, strict=True)
            ),
            tuple(row_count(part.output.shape) for part in steps),
        )

    def valued(
        self, base: Candidate, units_per_cycle: int = 1, calls: int = 0
    ) -> Iterator[Candidate]:
        """Yield a cascade for each useful size of its scratch buffer.

        A cascade of a single part also comes with each kernel that reads prefetched constants.

        base: the peak is with the least scratch memory, the time with all preferred kernels, in
            units of 1/`units_per_cycle` cycle.
        calls: their number if a single part runs; 0 if its stripes are equal.
        """
        plan, inside = base.plan, slice(base.lower, base.upper)
        least, preferred = max(self.least[inside]), self.preferred[inside]
        if base.upper - base.lower == 1:
            if not calls:
                rows = self.rows[base.lower]
                calls = 1 if plan.stripe is None else -(-rows // min(rows, plan.stripe))
            yield from self._variants_of_part(base, base.peak_bytes - least, units_per_cycle, calls)
        if max(preferred) <= least == plan.scratch_bytes:  # true of most cascades
            yield base
            return
        # The parts use the buffer one after the other: only sizes of preferred kernels matter.
        pairs = zip(preferred, self.slowdown[inside], strict=True)
        wanting = [pair for pair in pairs if pair[0] > least]
        for scratch in sorted({least, *(needed for needed, _ in wanting)}):
            more = sum([slowdown for needed, slowdown in wanting if needed > scratch])
            yield Candidate(
                base.lower,
                base.upper,
                plan.with_scratch(scratch),
                base.memory,
                base.peak_bytes + scratch - least,
                base.time + more * units_per_cycle,
                base.before,
                base.after,
            )

    def _variants_of_part(
        self, base: Candidate, tensors_bytes: int, units_per_cycle: int, calls: int
    ) -> Iterator[Candidate]:
        plan = base.plan
        for choice in self.prefetching[base.lower]:
            more = choice.work_cycles + calls * choice.call_cycles
            size = choice.prefetch.size_bytes
            yield replace(
                base,
                plan=replace(
                    plan, scratch_bytes=choice.scratch_bytes, prefetches=(choice.prefetch,)
                ),
                peak_bytes=tensors_bytes + choice.scratch_bytes + size,
                time=base.time + more * units_per_cycle,
                prefetched_bytes=size,
            )


def _prefetch_choices(
    k: int, part: Part, model: CostModel, memory: MemoryAssignment
) -> Iterator[PrefetchChoice]:
    for kernel in part.prefetching:
        assert kernel.prefetch is not None
        prefetch = Prefetch.of(k, kernel.prefetch, memory, PrefetchStart.OWN_CASCADE)
        other = part.with_kernel(kernel)
        work = model.work_cycles(other) - model.work_cycles(part) + round(kernel.prefetch.cycles)
        calls = model.call_cycles(other) - model.call_cycles(part)
        yield PrefetchChoice(prefetch, kernel.scratch_bytes, work, calls)


def _slowdown(part: Part, model: CostModel) -> int:
    if part.fallback is None:
        return 0
    return model.work_cycles(part.within(0)) - model.work_cycles(part)
