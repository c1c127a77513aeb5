"""Peak memory and call overhead of candidate cascades, in one memory region."""

from __future__ import annotations

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.simulate.execution import WHOLE
from penstock.scheduling.simulate.row_kernels import (
    Alternatives,
    enter_candidates,
    run_cascade,
)
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

_NO_CALLS = np.empty((0, 4), np.int64)


def initial_alternatives(tables: RowTables, stripes: list[int], most_parts: int) -> Alternatives:
    """Return the table of known peaks with which a search begins.

    It contains the peak of each part that runs alone, in a single call.  All other peaks are
    unknown (`UNBOUNDED`).
    stripes: stripe heights (maximum rows per call) that the search tries.
    most_parts: maximum number of parts in a cascade.
    """
    count = len(tables.written)
    rows = tables.rows[tables.written]
    heights = np.array(sorted(stripes, reverse=True), np.int64)
    calls = np.where(tables.whole, 1, -(-rows // heights[:, None]))
    before = np.zeros((len(heights), 1), np.int64)
    least_cycles = np.hstack([before, np.cumsum(calls * tables.call_cycles, axis=1)])
    least_peak = np.full((count + 1, min(most_parts, count) + 1, len(heights)), UNBOUNDED)
    for p in range(count):
        least_peak[p + 1, 1] = run_whole(tables, p)[0]
    return Alternatives(heights, least_cycles, least_peak)


def run_whole(tables: RowTables, position: int) -> tuple[int, int]:
    """Simulate one part alone, in a single call.

    position: position of the part in the execution order.

    Returns the live bytes at the peak, and the call overhead in cycles.
    """
    peak, _, cycles = run_cascade(tables, position, position + 1, WHOLE, UNBOUNDED, _NO_CALLS)
    return peak, cycles


def candidates(
    tables: RowTables, lowers: range, upper: int, alternatives: Alternatives, *, prune: bool
) -> tuple[Numbers, int]:
    """Simulate candidate cascades: the parts at positions [lower, upper) of the execution order.

    There is a candidate for each `lower` in `lowers` and each stripe height.
    lowers: a range with step 1.
    alternatives: the stripe heights, and the peaks of the cascades simulated so far; this function
        adds those of the candidates.
    prune: whether to drop dominated candidates.  A candidate is dominated if its parts run with no
        higher peak and no more call overhead in a cascade, or a sequence of cascades, that has been
        simulated before.

    Returns an array, and the number of simulated calls as a measure of work.  The array has one row
    for each candidate that is not dropped: (lower, stripe height, live bytes at the peak, call
    overhead in cycles).
    """
    found = np.empty((len(lowers) * len(alternatives.stripes), 4), np.int64)
    count, work = enter_candidates(
        tables, lowers.start, lowers.stop, upper, alternatives, prune, found
    )
    return found[:count], work
