"""Chains: parts that run as a single part of a cascade and recompute the tensors between them.

A call of a chain computes a few rows of the output of its last part.  In the same call, band by
band of columns, every other part (a member) computes the rows and columns that this needs.  So the
tensors between the parts have memory only during the call, which all chains of a cascade share.

`ChainShapes` determines what the parts of a chain compute and how much memory a call needs;
`walk.run_cascade` simulates cascades that contain chains.  Parts are given by their positions in
the execution order; in `Chain.parts`, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.frozen import frozen
from penstock.ir.tensor import Interval
from penstock.scheduling.bands.columns import (
    PartColumnReads,
    SampledBands,
    column_count,
    computes_columns,
    kept_spans,
    locations,
)
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.plan import Chain
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

Reals = npt.NDArray[np.float64]
Positions = tuple[int, ...]
"""Positions of parts in an execution order, ascending."""

MOST_ANALYSED = 8
"""If bands keep halos and a chain has more bands than this, only some of them are analysed."""


class RowWindow(NamedTuple):
    """Which rows a part computes in a call of a chain.

    If the call computes rows [first, end) of the chain's output, the part computes rows
    [lower[first], upper[end]) of its own output.  Before a last part that is a 3x3 convolution with
    padding of 8 rows, lower = [0, 0, 1, 2, ..] and upper = [0, 2, 3, 4, ..].
    """

    lower: Numbers
    upper: Numbers
    image: int  # output rows of an image of the chain

    def heights(self, call_rows: int) -> Numbers:
        """The numbers of rows that calls of at most `call_rows` output rows compute."""
        rows = len(self.lower) - 1
        firsts, ends = call_intervals(rows, self.image if call_rows < rows else rows, call_rows, 1)
        return self.upper[ends] - self.lower[firsts]

    def most_rows(self, call_rows: int) -> int:
        """The maximum of `heights`."""
        return int(self.heights(call_rows).max())


def call_intervals(rows: int, image: int, stripe: int, step: int) -> tuple[Numbers, Numbers]:
    """The rows [first, end) of calls of at most `stripe` rows of an image, which begin with every
    `step`th row of it."""
    firsts = (np.arange(0, rows, image)[:, None] + np.arange(0, image, step)).ravel()
    return firsts, np.minimum(firsts + stripe, firsts - firsts % image + image)


def row_windows(tables: RowTables, parts: Positions) -> tuple[RowWindow, ...]:
    """One window for each part of a chain.

    All but the last of `parts` write a storage that only later ones read.
    """
    last = int(tables.written[parts[-1]])
    counts = np.arange(int(tables.rows[last]) + 1)
    # By storage, not by part: in a band that keeps columns, several parts write one storage.
    image = int(tables.image[parts[-1]])
    found = {last: RowWindow(counts, counts, image)}
    for k in reversed(parts):
        lower, upper, _ = found[int(tables.written[k])]
        for e in range(tables.reads[k], tables.reads[k + 1]):
            storage = int(tables.storage[e])
            one = RowWindow(
                tables.done[tables.table[e] + lower],
                tables.needed[tables.table[e] + upper],
                image,
            )
            other = found.get(storage, one)
            found[storage] = RowWindow(
                np.minimum(one.lower, other.lower), np.maximum(one.upper, other.upper), image
            )
    return tuple(found[int(tables.written[k])] for k in parts)


@frozen
class _Width:
    """How many columns of one part's output the bands of a chain compute, hold and move."""

    widest: int  # of one band, including kept columns
    total: int  # that all bands together compute
    kept: int = 0  # that a band holds without computing them, at most
    moves: int = 0  # copies with which a band moves kept columns in memory, at most


_Widths = dict[int, _Width]


@frozen
class ChainShape:
    """What the parts of a chain compute, and how much memory a call needs.

    call_scratch_bytes: the maximum, over the parts, of the bytes of the live intermediate tensors
        plus the scratch memory of the part's kernel.
    lower, upper: [part of `chain.parts`, output rows of the chain].  In a call that computes rows
        [first, end) of the chain's output, part k computes, in all bands together, the share
        upper[k, end] - lower[k, first] of its output: 0.5 for half of the elements, where an
        element that two bands compute counts twice.
    bands: number of bands.
    columns: for each part, how often it computes a column of its output on average: 1.25 if two
        bands compute a quarter of the columns.
    moves: for each copy with which a band moves kept columns, the position of the part that
        computes the tensor.
    moved_bytes: bytes of all these copies during a call, in all bands together.
    """

    chain: Chain
    call_scratch_bytes: int
    lower: Reals
    upper: Reals
    bands: int
    columns: Reals
    moves: Positions = ()
    moved_bytes: int = 0

    def share(self, firsts: Numbers, ends: Numbers) -> Reals:
        """How often calls for rows [first, end) compute an element of each part, on average.

        1.0 if they compute each element once, 1.5 if they compute half of them twice.
        """
        return (self.upper[:, ends] - self.lower[:, firsts]).sum(axis=1)


@frozen
class _CallColumn:
    """The memory that one column of an intermediate tensor needs during a call of a chain."""

    size_bytes: int  # for the maximum number of rows that a call computes
    end: int  # the tensor is live until the first `end` parts of the chain have run


@frozen
class ChainShapes:
    """Determines the shapes of chains of an execution order, and caches them."""

    parts: Sequence[Part]  # in execution order
    # for either value of `Plan.nearest_first`, since the order of reads does not matter here
    tables: RowTables
    reads: PartColumnReads
    _readers: dict[int, Positions] = field(default_factory=dict[int, Positions])
    _windows: dict[Positions, tuple[RowWindow, ...]] = field(
        default_factory=dict[Positions, tuple[RowWindow, ...]]
    )
    _calls: dict[tuple[Positions, int], tuple[_CallColumn, ...]] = field(
        default_factory=dict[tuple[Positions, int], tuple[_CallColumn, ...]]
    )
    _columns: dict[Chain, _Widths | None] = field(default_factory=dict[Chain, _Widths | None])
    _known: dict[tuple[Chain, int], ChainShape | None] = field(
        default_factory=dict[tuple[Chain, int], ChainShape | None]
    )

    def readers(self, p: int) -> Positions:
        """The parts that read the output of the part at p; none if no chain can recompute it.

        A chain can recompute an output that need not survive the run, has at least two rows, is not
        read through an alias, and whose part and readers can all be in a chain.
        """
        if p not in self._readers:
            self._readers[p] = self._found_readers(p)
        return self._readers[p]

    def _found_readers(self, p: int) -> Positions:
        t = self.tables
        s = t.written[p]
        found = tuple(int(t.reader[e]) for e in t.read[t.users[s] : t.users[s + 1]])
        if t.last[s] >= len(t.written) or t.rows[s] < 2:
            return ()
        name = self.parts[p].name
        possible = all(name in (v.name for v in self.parts[q].variable_inputs) for q in found)
        return found if possible and all(map(self._joins, (p, *found))) else ()

    def _joins(self, p: int) -> bool:
        part = self.parts[p]
        # a streamed input has no nodes
        return bool(part.nodes) and not self.tables.whole[p] and computes_columns(part)

    def shapes(
        self, parts: Positions, call_rows: int, call_scratch_bytes: int
    ) -> tuple[ChainShape, ...]:
        """The shapes with the widest bands whose calls need at most `call_scratch_bytes`.

        There are at most two: with bands that compute halos again, and with bands that keep them.
        A call computes at most `call_rows` rows of the chain's output.
        """
        found: list[ChainShape] = []
        columns = column_count(self.parts[parts[-1]].output)
        for keeps in (False, True):
            for width in _widths(columns)[int(keeps) :]:  # a single band has no halo to keep
                shape = self._shape(Chain(parts, width, keeps), call_rows)
                if shape is None:  # assume that narrower bands are impossible, too
                    break
                if shape.call_scratch_bytes <= call_scratch_bytes:
                    found.append(shape)
                    break
        return tuple(found)

    def _shape(self, chain: Chain, call_rows: int) -> ChainShape | None:
        key = chain, call_rows
        if key not in self._known:
            self._known[key] = self._found_shape(chain, call_rows)
        return self._known[key]

    def _found_shape(self, chain: Chain, call_rows: int) -> ChainShape | None:
        columns, every = self._band_columns(chain), chain.parts
        if columns is None or not self._are_calls(every, call_rows):
            return None
        bands = -(-column_count(self.parts[every[-1]].output) // chain.columns)
        sizes, moved_bytes = [0] * len(every), 0
        for k, one in enumerate(self._call_columns(every, call_rows)):
            width = columns[every[k]]
            size = -(-one.size_bytes * width.widest // 4) * 4  # placement aligns to words
            # kept columns must outlive the band
            for position in range(len(every)) if width.kept else range(k, one.end):
                sizes[position] += size
            moved_bytes += bands * one.size_bytes * width.kept
        scratch = max(
            size + self.parts[p].least_scratch_bytes for p, size in zip(every, sizes, strict=True)
        )
        shares = np.array([[columns[p].total / self._elements(p)] for p in every])
        windows = self._row_windows(every)
        lower = np.array([window.lower for window in windows], np.float64) * shares
        upper = np.array([window.upper for window in windows], np.float64) * shares
        factors = np.array([columns[p].total / column_count(self.parts[p].output) for p in every])
        moves = tuple(p for p in every[:-1] for _ in range(columns[p].moves))
        return ChainShape(chain, scratch, lower, upper, bands, factors, moves, moved_bytes)

    def _are_calls(self, parts: Positions, call_rows: int) -> bool:
        """Whether the rows that each part computes in a call are all rows, or some of one image.

        They are some: not if a reader may need only padding."""
        windows, t = self._row_windows(parts), self.tables
        rows, image = len(windows[-1].lower) - 1, windows[-1].image
        ends = [(window.lower[0], window.upper[-1]) for window in windows]
        every = [(0, t.rows[t.written[p]]) for p in parts]
        of_one_image = image == rows or call_rows < rows or ends == every
        return of_one_image and all((w.heights(call_rows) > 0).all() for w in windows)

    def _call_columns(self, parts: Positions, call_rows: int) -> tuple[_CallColumn, ...]:
        """For each member: the memory of a column; the same for bands of all widths."""
        key = (parts, call_rows)
        if key not in self._calls:
            t, found = self.tables, list[_CallColumn]()
            for p, window in zip(parts[:-1], self._row_windows(parts), strict=False):
                row_bytes = t.row_bytes[t.written[p]] // column_count(self.parts[p].output)
                end = parts.index(max(self.readers(p))) + 1
                found.append(_CallColumn(int(window.most_rows(call_rows) * row_bytes), end))
            self._calls[key] = tuple(found)
        return self._calls[key]

    def _elements(self, p: int) -> int:
        return int(self.tables.rows[self.tables.written[p]]) * column_count(self.parts[p].output)

    def _row_windows(self, parts: Positions) -> tuple[RowWindow, ...]:
        if parts not in self._windows:
            self._windows[parts] = row_windows(self.tables, parts)
        return self._windows[parts]

    def _band_columns(self, chain: Chain) -> _Widths | None:
        """By position of the part.  None if a part cannot run in such bands, or no halo is kept."""
        if chain not in self._columns:
            derive = self._kept_columns if chain.keeps_halos else self._recomputed_columns
            self._columns[chain] = derive(chain)
        return self._columns[chain]

    def _recomputed_columns(self, chain: Chain) -> _Widths | None:
        output = self.parts[chain.parts[-1]].output
        sample = SampledBands.of(column_count(output), chain.columns)
        wanted = sample.wanted(output.name)
        found: _Widths = {}
        for p in reversed(chain.parts):
            part = self.parts[p]
            if not all(self.reads.add(part, band) for band in wanted):
                return None
            found[p] = _Width(*sample.widths(part.name, wanted))
        return found

    def _kept_columns(self, chain: Chain) -> _Widths | None:
        columns = column_count(self.parts[chain.parts[-1]].output)
        count = -(-columns // chain.columns)
        # A band's spans depend on the next band, the moves on the two bands before: groups of
        # adjacent bands at both ends and in the middle stand for all.
        some = {0, 1, 2, count // 2 - 1, count // 2, count - 2, count - 1}
        numbers = range(count) if count <= MOST_ANALYSED else sorted(some)
        parts = {self.parts[p].name: p for p in chain.parts}

        def needs(name: str, interval: Interval) -> Sequence[tuple[str, Interval]] | None:
            reads = self.reads.columns(self.parts[parts[name]], interval)
            return None if reads is None else [read for read in reads if read[0] in parts]

        bands = kept_spans(tuple(parts), columns, chain.columns, numbers, needs)
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
    """The widths of 1, 2, 3 and more bands, rounded up: (5, 3, 2, 1) for 5 columns."""
    return tuple(dict.fromkeys(-(-columns // share) for share in range(1, columns + 1)))
