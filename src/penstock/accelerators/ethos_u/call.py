"""call: what the NPU does for a call, in order: operations, and copies of constants.

A call computes as many rows in one operation as lie in two tiles, in rings as in whole tensors; rows
of one window that lie in more pieces are first copied, one under the other.  Where weights come in
segments, each has operations of its own.

`Action`s say this without the compiler that writes register commands: `emission` makes words of
them, `waits` and `timeline` say how long they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.performance import Block, Cycles
from penstock.accelerators.ethos_u.segments import copied_before
from penstock.accelerators.ethos_u.tiles import Tiles, tiles_of
from penstock.accelerators.ethos_u.work import Work
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


class Maps(NamedTuple):
    """Where the rows lie that an operation reads and writes."""

    source: Placed
    second: Placed | None
    result: Placed


class Compute(NamedTuple):
    """An operation computes rows [first, end) of a part's channels."""

    op: Operation
    first: int
    end: int
    maps: Maps
    part: Part

    @property
    def work(self) -> Work:
        """What it is to buffers and multipliers."""
        lower, upper = self.op.reads(self.first, self.end)
        constants = self.part.bias_bytes + self.part.weight_bytes
        return self.op.work(
            self.end - self.first,
            self.part.segment,
            read=upper - lower,
            constant_bytes=constants if self.op.weighted else None,
        )

    @property
    def soonest(self) -> tuple[Block, Cycles]:
        """The block in which it is computed, and how long it takes."""
        found = self.op.soonest(self.work)
        assert found is not None
        return found


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
            yield from self._put_together(first, end)
            return
        if self.op.function == Function.LOOKUP:
            yield TableCopy(self.op, self.places[0])
        parts = self._parts()
        for k, part in enumerate(parts):
            for other in self.op.buffered:
                if copied_before(self.op, other) == k:
                    yield self._copied(parts[other])
            yield from self._rows(first, end, self._near(part))

    def _put_together(self, first: int, end: int) -> Iterator[Action]:
        """Piece by piece, what copies its rows to its channels of the output."""
        channel = 0
        for k, (channels, packed) in enumerate(self.pieces):
            op = replace(self.op, in_c=channels, slice_channels=channels, packed_in=packed)
            rows = {FIRST: self.rows[PIECES + k], RESULT: self.rows[RESULT]}
            part = Part(0, channel, channels, None, 0, 0)
            yield from replace(self, op=op, rows=rows)._rows(first, end, part)
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
            place = replace(place, offset_bytes=place.offset_bytes + segment.size_bytes)
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
        return part._replace(place=replace(place, offset_bytes=place.offset_bytes + offset))

    def _rows(self, first: int, end: int, part: Part) -> Iterator[Compute]:
        """Of one part, as many rows at a time as lie in two pieces."""
        while first < end:
            until = self._until(first, end)
            if until == first:
                until = first + 1
                yield from self._gathered(first, part)
            else:
                yield Compute(self.op, first, until, self._maps(first, until), part)
            first = until

    def _until(self, first: int, end: int) -> int:
        """Up to which row all that rows from `first` on touch lies in two pieces each."""
        if self._possible(first, end):
            return end
        until = first
        while self._possible(first, until + 1):
            until += 1
        return until

    def _possible(self, first: int, end: int) -> bool:
        return all(self._tiles(k, first, end) is not None for k in self.rows)

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

    def _maps(self, first: int, end: int) -> Maps:
        found = [self._tiles(k, first, end) for k in (FIRST, SECOND, RESULT) if k in self.rows]
        source, *second, result = (tiles for tiles in found if tiles is not None)
        return Maps(source, second[0] if second else None, result)

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
