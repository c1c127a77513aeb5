"""The shapes of chains: which rows and columns they compute, and how much memory this takes.

A chain is a sequence of parts that run as a single part of a cascade, in bands of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from penstock.ir.region import Interval
from penstock.scheduling.bands.band_search import column_count
from penstock.scheduling.bands.columns import PartColumnReads, kept_spans, locations
from penstock.scheduling.bands.conditions import computes_columns
from penstock.scheduling.model.part import Part
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

MOST_ANALYSED = 8
"""If bands keep halos and a chain has more bands than this, only some of them are analysed."""


@dataclass(frozen=True, slots=True)
class _Width:
    """How many columns of one part's output the bands of a chain compute, hold and move.

    widest: number of columns that the widest band holds, including kept ones.
    total: number of columns that all bands together compute.
    kept: maximum number of columns that a band holds without computing them, because the band
        before has kept them.
    moves: maximum number of copies with which a band moves kept columns in memory.
    """

    widest: int
    total: int
    kept: int = 0
    moves: int = 0


_Widths = dict[int, _Width]


@dataclass(frozen=True, slots=True)
class ChainShape:
    """A chain that runs in bands of a given width.

    members: positions of its parts except the last one, in ascending order.
    width: number of columns of a band.
    call_scratch_bytes: scratch memory that a call needs: the maximum, over its parts, of the bytes
        of the live intermediate tensors plus the scratch memory of the part's kernel.  The bands of
        a call use this memory one after the other.
    lower, upper: arrays that determine which share of its output each part computes in a call, in
        all bands together.  Row k is for part k of (*members, last part).  If the call computes
        rows [first, end) of the chain's output, the share is upper[k, end] - lower[k, first].  It
        is 0.5 for half of the elements; an element that two bands compute counts twice.
    bands: number of bands.
    columns: for each of (*members, last part), how often the part computes a column of its output,
        on average: 1.25 if two bands compute a quarter of the columns.
    keeps_halos: whether each band keeps those of its columns that the next band also needs.  If
        not, both bands compute them.
    moves: one entry for each copy with which a band moves kept columns in memory: the position of
        the part that computes the tensor.  (3, 3, 5): two copies of columns of the tensor that the
        part at 3 computes, and one of the tensor of the part at 5.
    moved_bytes: bytes of all these copies during a call, in all bands together.
    """

    members: tuple[int, ...]
    width: int
    call_scratch_bytes: int
    lower: np.ndarray
    upper: np.ndarray
    bands: int
    columns: np.ndarray
    keeps_halos: bool = False
    moves: tuple[int, ...] = ()
    moved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _CallColumn:
    """The memory that one column of an intermediate tensor needs during a call of a chain.

    size_bytes: bytes of the column, for the maximum number of rows that a call computes.
    end: the tensor is live until the first `end` parts of the chain have run, in execution order.
    """

    size_bytes: int
    end: int


@dataclass(frozen=True, slots=True)
class ChainShapes:
    """Determines the shapes of chains, and caches them.

    parts: the parts in execution order.
    tables: the rows that the parts read.  The order of the reads, which `Plan.nearest_first`
        determines, does not matter here.
    reads: the columns that the parts read.
    """

    parts: Sequence[Part]
    tables: RowTables
    reads: PartColumnReads
    _windows: dict[tuple[int, tuple[int, ...]], dict[int, tuple[Numbers, Numbers]]] = field(
        default_factory=dict[tuple[int, tuple[int, ...]], dict[int, tuple[Numbers, Numbers]]]
    )
    _readers: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _calls: dict[tuple[int, tuple[int, ...], int], tuple[_CallColumn, ...]] = field(
        default_factory=dict[tuple[int, tuple[int, ...], int], tuple[_CallColumn, ...]]
    )
    _columns: dict[tuple[int, int, tuple[int, ...], bool], _Widths | None] = field(
        default_factory=dict[tuple[int, int, tuple[int, ...], bool], _Widths | None]
    )
    _known: dict[tuple[int, tuple[int, ...], int, int, bool], ChainShape | None] = field(
        default_factory=dict[tuple[int, tuple[int, ...], int, int, bool], ChainShape | None]
    )

    def readers(self, p: int) -> tuple[int, ...]:
        """Return the positions of the parts that read the output of the part at p.

        The result is empty if no chain can recompute the output.  A chain can recompute an output
        that meets four conditions: it need not survive the run; it has at least two rows; no part
        reads it through an alias; the part at p and all readers can be in a chain (`_joins`).
        """
        if p not in self._readers:
            self._readers[p] = self._found_readers(p)
        return self._readers[p]

    def _found_readers(self, p: int) -> tuple[int, ...]:
        t = self.tables
        s = t.written[p]
        found = tuple(int(t.reader[e]) for e in t.read[t.users[s] : t.users[s + 1]])
        if t.last[s] >= len(t.written) or t.rows[s] < 2:
            return ()
        name = self.parts[p].name
        possible = all(name in (v.name for v in self.parts[q].variable_inputs) for q in found)
        return found if possible and all(map(self._joins, (p, *found))) else ()

    def _joins(self, p: int) -> bool:
        """Return whether a part may be in a chain.

        The part must consist of nodes (a streamed input has none), must not compute all its rows in
        one call, and must be able, in principle, to compute some columns without the rest
        (`computes_columns`).  A chain may still be impossible: an operator may be unable to compute
        the columns of a certain band.
        """
        part = self.parts[p]
        return bool(part.nodes) and not self.tables.whole[p] and computes_columns(part)

    def shapes(
        self, last: int, members: tuple[int, ...], call_rows: int, call_scratch_bytes: int
    ) -> tuple[ChainShape, ...]:
        """Return the shapes of a chain with the widest bands that need no more scratch memory than
        `call_scratch_bytes`.

        There are at most two: one with bands that compute halos again, one with bands that keep
        them.

        last: position of the last part of the chain.
        members: positions of the other parts, in ascending order.
        call_rows: maximum number of rows of the chain's output that a call computes.
        call_scratch_bytes: maximum scratch memory of a call.
        """
        found = (
            self._widest(last, members, call_rows, call_scratch_bytes, keeps_halos=keeps)
            for keeps in (False, True)
        )
        return tuple(shape for shape in found if shape is not None)

    def _widest(
        self,
        last: int,
        members: tuple[int, ...],
        call_rows: int,
        call_scratch_bytes: int,
        *,
        keeps_halos: bool,
    ) -> ChainShape | None:
        columns = column_count(self.parts[last].output)
        for width in _widths(columns):
            if keeps_halos and width == columns:
                continue
            key = (last, members, call_rows, width, keeps_halos)
            if key not in self._known:
                self._known[key] = self._found(*key)
            found = self._known[key]
            if found is None:
                return None
            if found.call_scratch_bytes <= call_scratch_bytes:
                return found
        return None

    def _found(
        self, last: int, members: tuple[int, ...], call_rows: int, width: int, keeps_halos: bool
    ) -> ChainShape | None:
        columns = self._band_columns(last, members, width, keeps_halos)
        if columns is None:
            return None
        every = (*members, last)
        bands = -(-column_count(self.parts[last].output) // width)
        sizes, moved_bytes = [0] * len(every), 0
        for k, (p, one) in enumerate(
            zip(members, self._call_columns(last, members, call_rows), strict=True)
        ):
            size = -(-one.size_bytes * columns[p].widest // 4) * 4
            live = range(len(every)) if columns[p].kept else range(k, one.end)
            for position in live:
                sizes[position] += size
            moved_bytes += bands * one.size_bytes * columns[p].kept
        scratch = max(
            size + self.parts[p].least_scratch_bytes for p, size in zip(every, sizes, strict=True)
        )
        shares = np.array([[columns[p].total / self._elements(p)] for p in every])
        windows = self._row_windows(last, members)
        lower, upper = (np.array([windows[p][k] for p in every]) * shares for k in (0, 1))
        moves = tuple(p for p in members for _ in range(columns[p].moves))
        factors = np.array([columns[p].total / column_count(self.parts[p].output) for p in every])
        return ChainShape(
            members, width, scratch, lower, upper, bands, factors, keeps_halos, moves, moved_bytes
        )

    def _call_columns(
        self, last: int, members: tuple[int, ...], call_rows: int
    ) -> tuple[_CallColumn, ...]:
        """Return how much memory one column of each member's output takes in a call of a chain, and
        how long it is live.  The result applies to bands of all widths.

        last, members: positions of the chain's last part, and of the others in ascending order.
        """
        key = (last, members, call_rows)
        if key not in self._calls:
            t, windows, every = self.tables, self._row_windows(last, members), (*members, last)
            found: list[_CallColumn] = []
            for p in members:
                lower, upper = windows[p]
                firsts = np.arange(len(lower) - 1)
                slots = (upper[np.minimum(firsts + call_rows, len(firsts))] - lower[firsts]).max()
                row_bytes = t.row_bytes[t.written[p]] // column_count(self.parts[p].output)
                end = every.index(max(self.readers(p))) + 1
                found.append(_CallColumn(int(slots * row_bytes), end))
            self._calls[key] = tuple(found)
        return self._calls[key]

    def _elements(self, p: int) -> int:
        """Return rows * columns of the output of the part at position p."""
        return int(self.tables.rows[self.tables.written[p]]) * column_count(self.parts[p].output)

    def _row_windows(
        self, last: int, members: tuple[int, ...]
    ) -> dict[int, tuple[Numbers, Numbers]]:
        """Return which rows each part computes in a call: two arrays (lower, upper) for each part.

        If a call of the chain computes rows [first, end) of the chain's output, a part computes
        rows [lower[first], upper[end]) of the part's output.  Keys: the positions of the parts.
        last, members: positions of the chain's last part, and of the others in ascending order.
        """
        if (last, members) not in self._windows:
            t = self.tables
            counts = np.arange(int(t.rows[t.written[last]]) + 1)
            found = {last: (counts, counts)}
            for p in reversed(members):
                s = t.written[p]
                taken = [
                    (t.done[t.table[e] + found[q][0]], t.needed[t.table[e] + found[q][1]])
                    for e in t.read[t.users[s] : t.users[s + 1]]
                    for q in [int(t.reader[e])]
                ]
                lowers, uppers = zip(*taken, strict=True)
                found[p] = np.min(lowers, axis=0), np.max(uppers, axis=0)
            self._windows[last, members] = found
        return self._windows[last, members]

    def _band_columns(
        self, last: int, members: tuple[int, ...], width: int, keeps_halos: bool
    ) -> _Widths | None:
        """Return how many columns the bands of a chain compute and hold, for each part by position.

        last, members: positions of the chain's last part, and of the others in ascending order.

        If there are many bands, only some of them are examined.  The others are assumed to be like
        the middle band.

        Returns None if a part cannot run in bands of this width, or if `keeps_halos` is True and no
        band would keep any columns.
        """
        key = (last, width, members, keeps_halos)
        if key not in self._columns:
            derive = self._kept_columns if keeps_halos else self._recomputed_columns
            self._columns[key] = derive(last, members, width)
        return self._columns[key]

    def _recomputed_columns(
        self, last: int, members: tuple[int, ...], width: int
    ) -> _Widths | None:
        output = self.parts[last].output
        columns = column_count(output)
        count = -(-columns // width)
        numbers = sorted({0, count // 2, count - 1})
        repeats = [1] * len(numbers) if count <= 2 else [1, count - 2, 1]
        wanted = [{output.name: (k * width, min((k + 1) * width, columns))} for k in numbers]
        found: _Widths = {}
        for p in (last, *reversed(members)):
            part = self.parts[p]
            if not all(self.reads.add(part, band) for band in wanted):
                return None
            spans = [band[part.name][1] - band[part.name][0] for band in wanted]
            total = sum(a * b for a, b in zip(spans, repeats, strict=True))
            found[p] = _Width(max(spans), total)
        return found

    def _kept_columns(self, last: int, members: tuple[int, ...], width: int) -> _Widths | None:
        """Return how many columns of each part's output the bands of a chain compute and keep.

        For bands that keep halos.  Keys of the result: positions of the parts.
        last, members: positions of the chain's last part, and of the others in ascending order.

        None if a part cannot run in bands of this width, or if no band would keep any columns.
        """
        columns = column_count(self.parts[last].output)
        count = -(-columns // width)
        some = {0, 1, 2, count // 2 - 1, count // 2, count - 2, count - 1}
        numbers = range(count) if count <= MOST_ANALYSED else sorted(some)
        parts = {self.parts[p].name: p for p in (*members, last)}

        def needs(name: str, interval: Interval) -> Sequence[tuple[str, Interval]] | None:
            reads = self.reads.columns(self.parts[parts[name]], interval)
            return None if reads is None else [read for read in reads if read[0] in parts]

        bands = kept_spans(tuple(parts), columns, width, numbers, needs)
        if bands is None:
            return None
        found: _Widths = {}
        for name, p in parts.items():
            spans = [band[name] for band in bands if name in band]
            total = spans[-1].upper - spans[0].begin
            kept = max(span.kept for span in spans)
            where = zip(locations(spans), spans, strict=True)
            moves = max(len(location.moves(span)) for location, span in where)
            found[p] = _Width(max(span.width for span in spans), total, kept, moves)
        return found if any(width.kept for width in found.values()) else None


@cache
def _widths(columns: int) -> tuple[int, ...]:
    """Return the widths of bands that divide a tensor into 1, 2, 3 and more bands.

    Widths are rounded up, and each occurs once.  For 5 columns, the result is (5, 3, 2, 1): of 3
    bands, two have 2 columns, and the last one has the rest.
    """
    return tuple(dict.fromkeys(-(-columns // share) for share in range(1, columns + 1)))
