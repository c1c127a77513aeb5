"""chain_intervals: selects the intervals of an execution order in which to search for chains.

These are intervals of parts that need too much memory without chains, but perhaps not with them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.bands.band_search import BandLimits
from penstock.scheduling.cascades.candidate import ValuedCandidate
from penstock.scheduling.simulate.row_kernels import run_cascade
from penstock.scheduling.simulate.row_tables import RowTables

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
    for lower in range(count - 1, -1, -1):
        for upper in range(lower + 2, count + 1):
            both = np.maximum(least[lower, lower + 1 : upper], least[lower + 1 : upper, upper])
            least[lower, upper] = min(least[lower, upper], both.min())
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
