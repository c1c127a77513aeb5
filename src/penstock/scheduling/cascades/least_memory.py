"""Least memory of cascades that run row by row, and the part that determines it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.execution import WHOLE
from penstock.scheduling.simulate.peak import candidates, initial_alternatives
from penstock.scheduling.simulate.row_kernels import run_cascade
from penstock.scheduling.simulate.row_tables import read_order_differs, row_tables

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
