"""Execution of a cascade on demand: the sequence of kernel calls.

Each part whose output is needed outside the cascade computes its rows in order, at most `stripe`
rows per call.  Before a call, the missing input rows are computed in the same way by other parts of
the cascade.  So every row is computed once, as late as possible.  Rows that no call requests are
computed at the end.  A row is live from its computation until its last read; a row that is read
after the cascade stays live.
"""

from __future__ import annotations

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.scheduling.simulate.row_kernels import run_cascade
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

WHOLE = 1 << 30
"""Stripe height that stands for all rows of any tensor."""


def expand(tables: RowTables, lower: int, upper: int, stripe: int) -> Numbers:
    """Return the calls of the parts at positions [lower, upper), interleaved as one cascade.

    lower, upper: positions in the execution order.
    stripe: maximum number of output rows per call.

    The result has shape (calls, 4), with columns: position of the part, first row, end row, and
    position of the part that requested the rows (the part itself if no other part did).
    """
    most = int(tables.rows[tables.written[lower:upper]].sum())
    calls = np.empty((most, 4), np.int64)
    _, count, _ = run_cascade(tables, lower, upper, stripe, UNBOUNDED, calls)
    return calls[:count]
