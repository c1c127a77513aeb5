"""call: what the NPU does for a call, in order: operations, and copies of constants.

A call computes as many rows in one operation as lie in two tiles, in rings as in whole tensors;
rows of one window that lie in more pieces are first copied, one under the other.  Where weights
come in segments, each has operations of its own.

`Action`s say this without the compiler that writes register commands: `emission` makes words of
them, `waits` and `timeline` say how long they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.performance import Block, Cycles
from penstock.accelerators.ethos_u.segments import copied_before
from penstock.accelerators.ethos_u.tiles import Tiles, tiles_of
from penstock.accelerators.ethos_u.timeline import Job, operation_job
from penstock.uma import Place

FIRST, SECOND, RESULT, PIECES = range(4)
"""Tensors of a call, by number; those that are put together from PIECES on."""

Placed = tuple[int, Tiles]
"""A region, and the rows in it."""
NOWHERE: Placed = (0, Tiles(0, 0, 0, 0))
"""Of a map that is none."""


class RowsAt(NamedTuple):
    """Rows of a tensor, from number `lower` on: their region, and the offset of each."""

    base: int
    lower: int
    offsets: Sequence[int]

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """The offsets of rows [lower, upper)."""
        return self.offsets[lower - self.lower : upper - self.lower]


class Part(NamedTuple):
    """A segment: `channels` of the output from `first` on, and where their biases lie, and behind
    these their weights; `biases`: where those are, if elsewhere."""

    segment: int
    first: int
    channels: int
    place: Place | None
    bias_bytes: int
    weight_bytes: int
    biases: Place | None = None


class Piece(NamedTuple):
    """Channels of a tensor that is put together with others, and whether it lies in bricks."""

    channels: int
    packed: int


class Computed(NamedTuple):
    """In which block an operation is computed, how long each part of the NPU takes, and how long
    the whole."""

    block: Block
    cycles: Cycles
    job: Job


@lru_cache(maxsize=65536)
def _computed(op: Operation, rows: int, read: int, segment: int, constants: int) -> Computed:
    """So many rows of a segment with so many bytes of constants, from so many rows of the input."""
    given = constants if op.weighted else None
    work = op.work(rows, segment, read=read, constant_bytes=given)
    found = op.soonest(work)
    assert found is not None
    block, cycles = found
    return Computed(block, cycles, operation_job(cycles, work.chip))


class Maps(NamedTuple):
    """Where the rows lie that an operation reads and writes."""

    source: Placed
    second: Placed | None
    result: Placed


class Cut(NamedTuple):
    """Rows [first, end) that one operation computes; no maps: one row, whose window's rows are
    copied to the working memory before."""

    first: int
    end: int
    maps: Maps | None


class Compute(NamedTuple):
    """An operation computes rows [first, end) of a part's channels."""

    op: Operation
    first: int
    end: int
    maps: Maps
    part: Part

    @property
    def computed(self) -> Computed:
        """How it is computed."""
        lower, upper = self.op.reads(self.first, self.end)
        constants = self.part.bias_bytes + self.part.weight_bytes
        rows = self.end - self.first, upper - lower
        return _computed(self.op, *rows, self.part.segment, constants)


class ConstantsCopy(NamedTuple):
    """Constants are copied into the memory of tensors."""

    source: Place
    target: Place
    size_bytes: int


class TableCopy(NamedTuple):
    """The table of an activation is copied into the NPU."""

    op: Operation
    source: Place


Action = Compute | ConstantsCopy | TableCopy


@dataclass(frozen=True, slots=True)
class Call:
    """A call: what it computes, where its constants, its working memory and what was fetched lie,
    what is put together, the rows of each tensor, and what it copies for calls to come."""

    op: Operation
    places: tuple[Place, ...]
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    rows: Mapping[int, RowsAt]
    fetches: tuple[ConstantsCopy, ...] = ()

    def actions(self, first: int, end: int) -> Iterator[Action]:
        """What is done for rows [first, end) of the output."""
        yield from self.fetches
        if self.pieces:
            for one, part in self._put_together():
                yield from one._rows(one.cuts(first, end), part)
            return
        if self.op.function == Function.LOOKUP:
            yield TableCopy(self.op, self.places[0])
        parts, cuts = self._parts(), self.cuts(first, end)
        for k, part in enumerate(parts):
            for other in self.op.buffered:
                if copied_before(self.op, other) == k:
                    yield self._copied(parts[other])
            yield from self._rows(cuts, self._near(part))

    def lengths(self, first: int, end: int) -> tuple[tuple[int, ...], ...]:
        """Into how many rows at a time rows [first, end) are cut, those of each piece that is put
        together; 0 for a row whose window is copied first."""
        calls = [one for one, _ in self._put_together()] if self.pieces else [self]
        return tuple(
            tuple(0 if cut.maps is None else cut.end - cut.first for cut in one.cuts(first, end))
            for one in calls
        )

    def _put_together(self) -> Iterator[tuple[Call, Part]]:
        """Piece by piece, the call that copies it to its channels of the output."""
        channel = 0
        for k, (channels, packed) in enumerate(self.pieces):
            op = replace(self.op, in_c=channels, slice_channels=channels, packed_in=packed)
            rows = {FIRST: self.rows[PIECES + k], RESULT: self.rows[RESULT]}
            part = Part(0, channel, channels, None, 0, 0)
            yield Call(op, (), (), (), rows), part
            channel += channels

    def _parts(self) -> list[Part]:
        """The channels of each segment, and where its constants lie."""
        if not self.segments:
            return [Part(0, 0, self.op.out_c, None, 0, 0)]
        found: list[Part] = []
        channel, place = 0, self.places[0]
        for k, segment in enumerate(self.segments):
            found.append(Part(k, channel, segment.channels, place, *segment[1:]))
            channel += segment.channels
            place = Place(place.base, place.offset_bytes + segment.size_bytes)
        return found

    def _copied(self, part: Part) -> ConstantsCopy:
        """What copies the constants of a part into their buffer."""
        target = self._near(part).place
        assert part.place is not None
        assert target is not None
        return ConstantsCopy(part.place, target, part.bias_bytes + part.weight_bytes)

    @property
    def _scratch(self) -> Place:
        return self.places[-2 if self.op.fetched else -1]

    def _near(self, part: Part) -> Part:
        """The part with its constants where they are used."""
        op = self.op
        if op.biases_ahead:
            return part._replace(biases=self.places[-1])
        if not op.near(part.segment):
            return part
        if part.segment < op.ahead:
            assert part.place is not None
            at = self.places[-1], part.place.offset_bytes - self.places[0].offset_bytes
        else:
            buffers = op.scratch_bytes - op.buffers * op.buffer_bytes
            at = self._scratch, buffers + part.segment % op.buffers * op.buffer_bytes
        place, offset = at
        return part._replace(place=Place(place.base, place.offset_bytes + offset))

    def _rows(self, cuts: Sequence[Cut], part: Part) -> Iterator[Compute]:
        """The operations of one part."""
        for cut in cuts:
            if cut.maps is None:
                yield from self._gathered(cut.first, part)
            else:
                yield Compute(self.op, cut.first, cut.end, cut.maps, part)

    def cuts(self, first: int, end: int) -> tuple[Cut, ...]:
        """Rows [first, end), as many at a time as lie in two pieces."""
        found: list[Cut] = []
        while first < end:
            until, maps = end, self._maps(first, end)
            if maps is None:
                until = first
                while more := self._maps(first, until + 1):
                    until, maps = until + 1, more
            until = max(until, first + 1)
            found.append(Cut(first, until, maps))
            first = until
        return tuple(found)

    def _maps(self, first: int, end: int) -> Maps | None:
        """Where all that rows [first, end) of the output touch lies; None unless it lies in two
        pieces each."""
        found: dict[int, Placed] = {}
        for tensor in self.rows:
            tiles = self._tiles(tensor, first, end)
            if tiles is None:
                return None
            found[tensor] = tiles
        return Maps(found[FIRST], found.get(SECOND), found[RESULT])

    def _tiles(self, tensor: int, first: int, end: int) -> Placed | None:
        """The base and the pieces of what rows [first, end) of the output touch of a tensor."""
        rows = self.rows[tensor]
        offsets = rows.between(*touched(self.op, tensor, first, end))
        alone = tensor == FIRST and end - first == 1  # more rows could be cut
        found = tiles_of(offsets, self._row_bytes(tensor), backwards=alone)
        return None if found is None else (rows.base, found)

    def _row_bytes(self, tensor: int) -> int:
        op = self.op
        return (op.in_row_bytes, op.second_row_bytes, op.out_row_bytes)[tensor]

    def _gathered(self, row: int, part: Part) -> Iterator[Compute]:
        """The operations of one row whose window's rows are copied to the working memory before."""
        lower, upper = self.op.reads(row, row + 1)
        size, scratch = self.op.in_row_bytes, self._scratch
        source = self.rows[FIRST]
        for k, offset in enumerate(source.between(lower, upper)):
            at = scratch.offset_bytes + k * size
            maps = Maps(
                (source.base, Tiles(size, 1, offset, 0)),
                None,
                (scratch.base, Tiles(size, 1, at, 0)),
            )
            like = one_row(self.op)
            yield Compute(like, 0, 1, maps, Part(0, 0, like.out_c, None, 0, 0))
        result = self._tiles(RESULT, row, row + 1)
        assert result is not None
        window = (scratch.base, Tiles(size, upper - lower, scratch.offset_bytes, 0))
        yield Compute(self.op, row, row + 1, Maps(window, None, result), part)


def touched(op: Operation, tensor: int, first: int, end: int) -> tuple[int, int]:
    """Rows of a tensor that rows [first, end) of the output touch."""
    if tensor == FIRST or tensor >= PIECES:
        return op.reads(first, end)
    return op.second_rows(first, end) if tensor == SECOND else (first, end)


def one_row(op: Operation) -> Operation:
    """What copies a row of an operation's input as it is: the largest of one element."""
    return Operation(
        op.chip, op.sram_only, Function.COPY, *(1, op.in_w, op.in_c) * 2,
        packed_in=op.packed_in, packed_out=op.packed_in,
    )  # fmt: skip
