"""Live ranges of the rows of all tensors under a schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.scheduling.simulate.row_tables import Numbers, RowTables, starts
from penstock.scheduling.simulate.walk import enter_live_ranges


class RowLiveRanges(NamedTuple):
    """The live range of every row of every storage, in ticks.

    starts: start of each storage in the other arrays: row r of storage s has index starts[s] + r.
    born, dead: the row is live in ticks [born, dead).
    over: for row r of a storage, the index of the storage whose row r it overwrites in place; -1
        if it overwrites none.

    If all rows of a storage share the memory of one row, each has the live range of that memory.

    Time is counted in ticks, one per call: at tick 0 the application writes the inputs, at tick
    k + 1 call k runs, and at the last tick the application reads the outputs.
    """

    starts: Numbers
    born: Numbers
    dead: Numbers
    over: Numbers


def row_live_ranges(
    tables: RowTables, cascades: list[tuple[int, int, Numbers]], region: Numbers
) -> RowLiveRanges:
    """Return the live ranges of all rows, and which rows they overwrite in place.

    cascades: (lower, upper, calls) of each cascade, in execution order.  A cascade consists of the
        parts at positions [lower, upper) of the order; together, the cascades cover the order.
        calls[i] is (position of the part, first row, end row, position of the part that requested
        the rows) of call i.
    region[s]: index of the memory region of storage s.  A row overwrites a row in place only if
        both are in the same region.
    """
    first = starts(tables.rows.tolist())
    born, dead, over = (np.full(first[-1], value, np.int64) for value in (0, -1, -1))
    tick = 1
    for lower, upper, calls in cascades:
        enter_live_ranges(tables, lower, upper, calls, tick, region, first, born, dead, over)
        tick += len(calls)
    for s in np.flatnonzero(tables.slots < tables.rows):
        rows = slice(first[s], first[s + 1])
        born[rows], dead[rows] = born[first[s]], dead[first[s + 1] - 1]
    at_end = np.repeat(tables.last == len(tables.written), tables.rows)
    dead[at_end] = tick + 1
    return RowLiveRanges(first, born, np.maximum(dead, born + 1), over)
