"""Search for cascades that run once for each band, an interval of columns of their output.

To compute a band, each part of the cascade computes only some columns of its output.  Which columns
these are depends on the last part of the cascade and on the width of the bands, but not on the
first part.  So the columns are derived once for each last part and width, backwards from the last
part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.frozen import frozen
from penstock.ir.tensor import Interval
from penstock.scheduling.bands.columns import (
    PartColumnReads,
    SampledBands,
    column_count,
    computes_columns,
    necessary_macs,
)
from penstock.scheduling.cascades.proposals import Candidate, PartOrder
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.simulate.row_tables import Numbers, RowTables
from penstock.scheduling.simulate.walk import run_cascade

SHARES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of bands to try, besides one band per column."""
STRIPES = (1, 4)
"""Stripe heights (maximum rows per call) to try inside bands."""
NO_CALLS = np.empty((0, 4), np.int64)
"""Passed to `run_cascade` where its calls are not needed."""


@frozen
class OrderedParts:
    parts: Parts
    order: PartOrder

    @property
    def in_order(self) -> list[Part]:
        return [self.parts.parts[k] for k in self.order]


@frozen
class BandLimits:
    """Limits that a cascade with recomputation must respect.

    peak_bytes: exclusive limit of the live bytes at the peak.
    extra_macs: maximum number of multiply-accumulates in addition to those without recomputation.
    parts: maximum number of parts of the cascade.
    """

    peak_bytes: int
    extra_macs: float
    parts: int


@frozen
class _Widths:
    """How many output columns each part computes, given the last part and the width of bands."""

    # If the cascade began before this position, a part could not run in bands, or the cascade would
    # exceed `BandLimits.extra_macs`.
    least: int
    widest: Numbers  # by position: in the widest band
    computed: Numbers  # by position: in all bands together
    count: int  # of bands


class BandSearch:
    """Enumerates the cascades of one execution order that can run in bands of columns."""

    def __init__(
        self,
        ordered: OrderedParts,
        tables: RowTables,
        reads: PartColumnReads,
        model: CostModel,
        memory: MemoryAssignment,
        limits: BandLimits,
    ) -> None:
        self._parts, self._owners = ordered.in_order, ordered.parts.owners
        self._order = ordered.order
        self._reads = reads
        self._tables, self._memory = tables, memory
        self._limits = limits
        self._work = np.array([model.work_cycles(part) for part in self._parts], np.int64)
        self._macs = np.array([necessary_macs(part) for part in self._parts], np.int64)
        self._columns = np.array([column_count(part.output) for part in self._parts], np.int64)
        self._by_columns = [bool(p.nodes) and computes_columns(p) for p in self._parts]
        self._makers = {part.output.name: p for p, part in enumerate(self._parts)}
        self._least_begins = [self._least_begin(part) for part in self._parts]
        self._sizes = tables.rows * tables.row_bytes
        self._read_makers = tables.maker[tables.storage]
        self._nothing_resident = np.zeros_like(tables.resident)

    def candidates(self, upper: int) -> Iterator[Candidate]:
        """Yield the cascades in bands that end at position `upper` of the order, exclusive."""
        output = self._parts[upper - 1].output
        columns = column_count(output)
        if columns < 2 or self._sizes[self._tables.written[upper - 1]] >= self._limits.peak_bytes:
            return
        shares = (*(share for share in SHARES if share < columns), columns)
        for width in dict.fromkeys(-(-columns // share) for share in shares):
            widths = self._widths(upper, width)
            if widths is not None:
                yield from self._of_width(upper, width, widths)

    def _of_width(self, upper: int, width: int, widths: _Widths) -> Iterator[Candidate]:
        t = self._tables
        last = int(t.written[upper - 1])
        least = max(widths.least, upper - self._limits.parts)
        for lower in range(upper - 2, least - 1, -1):
            held = int(t.resident[lower] + self._sizes[last])
            if held >= self._limits.peak_bytes:
                continue
            inside = slice(lower, upper)
            share = widths.computed[inside] / self._columns[inside] - 1.0
            tables = self._banded_tables(lower, upper, widths)
            for stripe in STRIPES:
                ceiling = self._limits.peak_bytes - held
                peak, _, overhead = run_cascade(tables, lower, upper, stripe, ceiling, NO_CALLS)
                if held + peak >= self._limits.peak_bytes or peak == UNBOUNDED:
                    continue
                time = round(float(self._work[inside] @ share)) + overhead * widths.count
                scratch = int(t.scratch[inside].max())
                parts, memory = self._order[lower:upper], self._memory
                plan = Plan(parts, stripe, scratch_bytes=scratch, columns=width)
                yield Candidate(lower, upper, plan, memory, held + peak, time, memory, memory)

    def _banded_tables(self, lower: int, upper: int, widths: _Widths) -> RowTables:
        t = self._tables
        # Only the tensors between two parts have bytes.  All others are live during all bands, and
        # `_of_width` counts them.
        row_bytes = np.zeros_like(t.row_bytes)
        inner = t.written[lower : upper - 1]
        columns = self._columns[lower : upper - 1]
        row_bytes[inner] = t.row_bytes[inner] // columns * widths.widest[lower : upper - 1]
        # Only these may be overwritten in place: later bands read the inputs again, and the output
        # of the last part has the columns of all bands.
        inside = (lower <= self._read_makers) & (t.reader < upper - 1)
        joint = np.where(inside, t.joint, 0)
        return t._replace(row_bytes=row_bytes, joint=joint, resident=self._nothing_resident)

    def _widths(self, upper: int, width: int) -> _Widths | None:
        """None if no cascade that ends at `upper`, exclusive, can run in bands of this width."""
        output = self._parts[upper - 1].output
        sample = SampledBands.of(column_count(output), width)
        wanted = sample.wanted(output.name)
        widest = np.zeros(upper, np.int64)
        computed = np.zeros(upper, np.int64)
        least, macs = 0, 0.0
        for p in range(upper - 1, max(0, upper - self._limits.parts) - 1, -1):
            if p < least or not self._enter(p, upper, wanted):
                least = max(least, p + 1)
                break
            widest[p], computed[p] = sample.widths(self._parts[p].output.name, wanted)
            macs += float(self._macs[p] * (computed[p] / self._columns[p] - 1.0))
            if macs > self._limits.extra_macs:
                least = p + 1
                break
            least = max(least, self._least_begins[p])
        return _Widths(least, widest, computed, sample.count) if least <= upper - 2 else None

    def _least_begin(self, part: Part) -> int:
        """The first position at which a cascade in bands with this part may begin."""
        # An alias has the bytes of another tensor in another shape, so its columns are not columns
        # of that tensor: the cascade begins after the part that computes it.
        makers = (
            self._makers.get(self._owners[v.name], -1)
            for v in part.variable_inputs
            if self._owners[v.name] != v.name
        )
        return max(makers, default=-1) + 1

    def _enter(self, p: int, upper: int, wanted: Sequence[dict[str, Interval]]) -> bool:
        """Add the columns that a part reads to `wanted`; False if it cannot run in bands."""
        part = self._parts[p]
        if not self._by_columns[p]:
            return False
        # all but the last part must be read, and only by parts of the cascade
        if p < upper - 1 and not p < self._tables.last[self._tables.written[p]] < upper:
            return False
        return all(self._reads.add(part, band) for band in wanted)
