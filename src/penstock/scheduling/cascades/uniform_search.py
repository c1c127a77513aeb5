"""Candidate cascades where access times do not depend on the memory assignment.

A candidate is an interval of an execution order, with a stripe height (the maximum number of rows
that a call computes).  Each interval of at most `Options.max_parts` parts is tried with several
stripe heights.  A part's inputs may be produced in one of two orders (`Plan.nearest_first`).  If
the two orders differ for any part of the interval, both are tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED
from penstock.pareto import efficient_pairs
from penstock.scheduling.cascades.candidate import Candidate, ValuedCandidate
from penstock.scheduling.cascades.kernel_choices import KernelChoices
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.execution import WHOLE
from penstock.scheduling.simulate.peak import candidates, initial_alternatives, run_whole
from penstock.scheduling.simulate.row_tables import (
    Numbers,
    RowTables,
    read_order_differs,
    row_tables,
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
