"""Candidate cascades where access times do not depend on the memory assignment.

A candidate is an interval of an execution order, with a stripe height (the maximum number of rows
that a call computes).  Each interval of at most `Options.max_parts` parts is tried with several
stripe heights.  A part's inputs may be produced in one of two orders (`Plan.nearest_first`).  If
the two orders differ for any part of the interval, both are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED
from penstock.ir.op import row_count
from penstock.pareto import efficient_pairs
from penstock.scheduling.cascades.candidate import Candidate, ValuedCandidate
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.prefetch import Prefetch, PrefetchStart
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.row_tables import (
    Numbers,
    RowTables,
    read_order_differs,
    row_tables,
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
    """Return the stripe heights to try, in rows, in ascending order.

    A stripe height is the maximum number of rows that a kernel call computes.
    The powers of two are tried.  If any kernel has its own cost function, so are 1/2, 1/3, 1/4 and
    1/5 of the rows of each tensor, rounded up.  These are the least heights with which 2, 3, 4 and
    5 calls suffice; with such a cost function, saving a call may save many cycles.

    All heights are less than the largest number of rows of a tensor.
    most: largest height to try.
    """
    heights = {storage.rows for storage in parts.rows.storages}
    below = min(max(heights, default=1) - 1, most)
    found = {1 << k for k in range(below.bit_length())}
    if any(part.kernel.cycles is not None for part in parts.parts):
        found |= {-(-height // share) for height in heights for share in SHARES}
    return sorted(height for height in found if height <= below)


class UniformSearch:
    """Enumerates candidate cascades of one execution order with all tensors in the default region.

    It is used if access times do not depend on the memory assignment.

    order: the execution order, as indices of the parts.
    memory: the assignment of all tensors to the default region.
    limit_bytes: cascades with more live bytes at the peak are not needed, and may be left out; by
        default, there is no limit.
    calls: number of kernel calls simulated so far, a measure of work.
    """

    def __init__(
        self,
        parts: Parts,
        order: tuple[int, ...],
        model: CostModel,
        memory: MemoryAssignment,
        options: Options,
        limit_bytes: float = math.inf,
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._options, self._limit_bytes = options, limit_bytes
        self._memory = memory
        self.calls = 0
        self._tables = tuple(
            row_tables(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        heights = candidate_heights(parts, options.max_stripe)
        self._alternatives = initial_alternatives(self._tables[0], heights, options.max_parts)
        if limit_bytes < UNBOUNDED and options.prune_by_shorter:  # simulations end at the limit
            peaks = self._alternatives.least_peak
            np.minimum(peaks, int(limit_bytes) + 1, out=peaks)
        self._kernels = KernelChoices.of(parts, order, model, memory)
        self._found: dict[int, tuple[ValuedCandidate, ...]] = {}
        self._order_choices = np.append(0, np.cumsum(read_order_differs(*self._tables)))

    @property
    def tables(self) -> RowTables:
        """Arrays with the rows that each part reads, for plans whose `nearest_first` is False: of
        several inputs, they first compute the one of highest advance."""
        return self._tables[0]

    @property
    def tables_by_order(self) -> tuple[tuple[bool, RowTables], ...]:
        """The arrays `tables` for each value of `Plan.nearest_first`, as pairs (value, arrays).

        The value defines which input of a part is computed first if several lack rows.  The pair
        for False comes first; the pair for True is left out if its arrays are the same.
        """
        differs = bool(read_order_differs(*self._tables).any())
        return tuple(zip((False, True)[: 1 + differs], self._tables, strict=False))

    def candidates(
        self, upper: int, states: Sequence[Iterable[MemoryAssignment]]
    ) -> tuple[ValuedCandidate, ...]:
        """Return the candidate cascades that end at position `upper` (exclusive) of the order.

        If the option `prune_by_shorter` is set, a cascade is dropped if shorter ones cover the same
        positions with no higher peak and no more call overhead.  This method must be called with
        ascending values of `upper`; its results are memoised.
        states: not used, since all tensors are in the default region.
        """
        if upper not in self._found:
            self._found[upper] = tuple(self._enumerated(upper))
        return self._found[upper]

    def _enumerated(self, upper: int) -> Iterator[ValuedCandidate]:
        """Simulate the cascades that end at position `upper` (exclusive) of the order, and yield
        candidates.

        A cascade of several parts is a candidate unless another stripe height dominates it in
        (peak, call overhead).  Cascades of a single part are all candidates.
        """
        memory = self._memory
        alone = Candidate(upper - 1, upper, WHOLE, False, memory)
        peak, cycles = run_whole(self._tables[0], upper - 1)
        yield from self._kernels.valued(alone, peak, cycles, (memory, memory))
        least = max(0, upper - self._options.max_parts)
        same_order = int(np.searchsorted(self._order_choices, self._order_choices[upper]))
        for nearest_first, most in ((False, upper), (True, max(least, same_order))):
            found, calls = candidates(
                self._tables[nearest_first],
                range(least, most),
                upper,
                self._alternatives,
                prune=self._options.prune_by_shorter,
            )
            self.calls += calls
            found = found[found[:, 2] <= self._limit_bytes]
            for lower, stripe, peak, cycles in found[_relevant(found, upper)].tolist():
                cascade = Candidate(lower, upper, stripe, nearest_first, memory)
                yield from self._kernels.valued(cascade, peak, cycles, (memory, memory))


def _relevant(found: Numbers, upper: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the candidates that are worth keeping.

    Among the candidates of each interval [lower, `upper`), those that are Pareto-optimal in (peak,
    call overhead) are kept; of several with equal values, only one.  All candidates with a single
    part are kept, because prefetches, which are selected later, may make any of them the fastest.

    found: the candidates at positions [lower, `upper`), one per row.  Columns: lower, stripe
        height, live bytes at the peak, call overhead in cycles.
    """
    lower, _, peak, cycles = found.T
    kept = lower == upper - 1
    if not kept.all():
        kept[efficient_pairs(peak, cycles, lower)] = True
    return kept


FEW_ROWS = 8
"""If no tensor has more rows than this, cascades with two rows per call are tried too.  For so few
rows, they may need less memory than cascades with one row per call."""


@dataclass(frozen=True, slots=True)
class RowPeak:
    """The peak of the cascades that need the least memory.

    live_bytes: live bytes at the peak.
    part: name of the part that runs at the peak; None if the network's inputs alone need as much.
    """

    live_bytes: int
    part: str | None


def least_row_peak(parts: Parts, options: Options, limit_bytes: int = UNBOUNDED) -> RowPeak | None:
    """Return the least peak of all divisions of the graph's order into cascades.

    None if this peak is not below `limit_bytes`.

    The cascades compute one or two rows per call, and each row once; a cascade of a single part may
    also compute all rows in one call.  This function serves to compare graphs before schedules are
    searched: it takes a small fraction of the time of that search, which also compares stripe
    heights, execution orders and cycles.
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
    stripes = [1] if both[0].rows.max() > FEW_ROWS else [1, 2]
    known = initial_alternatives(both[0], stripes, most)
    np.minimum(known.least_peak, limit_bytes, out=known.least_peak)  # simulations end there
    inputs_bytes = sum(parts.rows.storages[k].size_bytes for k in parts.rows.inputs)
    least = [inputs_bytes]
    last: list[tuple[int, int, int]] = []
    """Entry u - 1: the last cascade of the best division of the parts before position u, as (first
    position, index in `orders`, stripe height)."""
    for upper in range(1, count + 1):
        best = max(least[-1], int(known.least_peak[upper, 1, 0]))
        cascade = upper - 1, 0, WHOLE
        for k, tables in enumerate(orders):
            lowers = range(max(0, upper - most), upper)
            found, _ = candidates(tables, lowers, upper, known, prune=True)
            for lower, stripe, peak, _ in found.tolist():
                if max(least[lower], peak) < best:
                    best, cascade = max(least[lower], peak), (lower, k, stripe)
        least.append(best)
        last.append(cascade)
    if least[-1] >= limit_bytes:
        return None
    bounds = [count]
    while bounds[-1]:
        bounds.append(last[bounds[-1] - 1][0])
    calls = np.empty((int(both[0].rows.sum()) + count, 4), np.int64)
    for lower, upper in pairwise(reversed(bounds)):
        _, k, stripe = last[upper - 1]
        peak, _, _ = run_cascade(orders[k], lower, upper, stripe, UNBOUNDED, calls[:0])
        if peak == least[-1] > inputs_bytes:
            _, made, _ = run_cascade(orders[k], lower, upper, stripe, peak, calls)
            return RowPeak(peak, parts.parts[calls[made - 1, 0]].name)
    return RowPeak(least[-1], None)


class PrefetchChoice(NamedTuple):
    """A kernel that reads prefetched constants, compared with the part's preferred kernel.

    prefetch: the copy of the constants that the kernel reads.
    scratch_bytes: scratch memory of the kernel.
    work_cycles: additional cycles of computing all rows of the part, plus the cycles of the copy;
        negative if the kernel saves more cycles than the copy takes.
    call_cycles: additional overhead of each call; may be negative.
    """

    prefetch: Prefetch
    scratch_bytes: int
    work_cycles: int
    call_cycles: int


@dataclass(frozen=True, slots=True)
class KernelChoices:
    """The kernels that each part of an execution order may run.

    A part runs its preferred kernel if there is enough scratch memory, else its fallback kernel.
    All fields are indexed by the part's position in the order.

    least: fewest scratch bytes with which the part can run.
    preferred: scratch bytes of the preferred kernel.
    slowdown: how many more cycles the fallback kernel takes for all rows than the preferred one; 0
        if there is no fallback kernel.
    prefetching: the kernels that read prefetched constants.
    rows: number of output rows.
    """

    least: tuple[int, ...]
    preferred: tuple[int, ...]
    slowdown: tuple[int, ...]
    prefetching: tuple[tuple[PrefetchChoice, ...], ...]
    rows: tuple[int, ...]

    @staticmethod
    def of(
        parts: Parts, order: tuple[int, ...], model: CostModel, memory: MemoryAssignment
    ) -> KernelChoices:
        """Return the kernels that the parts of an execution order may run.

        order: indices of the parts.
        memory: defines the region of constants, and the default region, to which constants are
            prefetched.
        """
        steps = [parts.parts[k] for k in order]
        return KernelChoices(
            tuple(part.least_scratch_bytes for part in steps),
            tuple(part.kernel.scratch_bytes for part in steps),
            tuple(_slowdown(part, model) for part in steps),
            tuple(
                tuple(_prefetch_choices(k, part, model, memory))
                for k, part in zip(order, steps, strict=True)
            ),
            tuple(row_count(part.output.type.shape) for part in steps),
        )

    def valued(
        self,
        cascade: Candidate,
        peak_bytes: int,
        time: int,
        states: tuple[MemoryAssignment, MemoryAssignment],
        units_per_cycle: int = 1,
    ) -> Iterator[ValuedCandidate]:
        """Yield the cascade, with its estimated cost, for each useful size of its scratch buffer.

        The parts use the buffer one after the other.  The useful sizes are the least one with which
        all parts can run, and each larger one that the preferred kernel of some part needs.  A
        cascade of a single part is also yielded with each of the part's kernels that read
        prefetched constants.

        peak_bytes: live bytes at the peak with the least scratch memory.
        time: time if all parts run their preferred kernels, in units of 1/`units_per_cycle` cycle.
        states: (before, after): memory assignments of the tensors that are live when the cascade
            begins, and when it ends.
        """
        inside = slice(cascade.lower, cascade.upper)
        least, preferred = max(self.least[inside]), self.preferred[inside]
        if cascade.upper - cascade.lower == 1:
            others = peak_bytes - least
            yield from self._variants_of_part(cascade, others, time, states, units_per_cycle)
        if max(preferred) <= least == cascade.scratch_bytes:  # true of most cascades
            yield ValuedCandidate(cascade, peak_bytes, time, *states)
            return
        for scratch in sorted({least, *(n for n in preferred if n > least)}):
            pairs = zip(preferred, self.slowdown[inside], strict=True)
            more = sum(slowdown for needed, slowdown in pairs if needed > scratch)
            candidate = (
                cascade if scratch == cascade.scratch_bytes else cascade.with_scratch(scratch)
            )
            peak = peak_bytes + scratch - least
            yield ValuedCandidate(candidate, peak, time + more * units_per_cycle, *states)

    def _variants_of_part(
        self,
        cascade: Candidate,
        others_bytes: int,
        time: int,
        states: tuple[MemoryAssignment, MemoryAssignment],
        units_per_cycle: int,
    ) -> Iterator[ValuedCandidate]:
        """Yield a variant of a cascade for each kernel of its part that reads prefetched constants.

        A variant includes the prefetch that the kernel needs.
        """
        position, rows = cascade.lower, self.rows[cascade.lower]
        calls = -(-rows // min(rows, cascade.stripe))
        for choice in self.prefetching[position]:
            more = choice.work_cycles + calls * choice.call_cycles
            prefetches = (*cascade.prefetches, choice.prefetch)
            variant = replace(cascade, scratch_bytes=choice.scratch_bytes, prefetches=prefetches)
            size = choice.prefetch.size_bytes
            peak = others_bytes + choice.scratch_bytes + size
            yield ValuedCandidate(variant, peak, time + more * units_per_cycle, *states, size)


def _prefetch_choices(
    k: int, part: Part, model: CostModel, memory: MemoryAssignment
) -> Iterator[PrefetchChoice]:
    for kernel in part.prefetching:
        assert kernel.prefetch is not None
        prefetch = Prefetch.by_accelerator(k, kernel.prefetch, memory, PrefetchStart.OWN_CASCADE)
        other = part.with_kernel(kernel)
        work = model.work_cycles(other) - model.work_cycles(part) + round(kernel.prefetch.cycles)
        calls = model.call_cycles(other) - model.call_cycles(part)
        yield PrefetchChoice(prefetch, kernel.scratch_bytes, work, calls)


def _slowdown(part: Part, model: CostModel) -> int:
    """Return how many more cycles a part's fallback kernel takes than its preferred kernel.

    The cycles are those of all rows.  The result is 0 if there is no fallback kernel.
    """
    if part.fallback is None:
        return 0
    return model.work_cycles(part.within(0)) - model.work_cycles(part)
