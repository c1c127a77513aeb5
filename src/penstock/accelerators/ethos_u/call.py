"""call: the operations and copies that the NPU executes for one call, in order.

A call is split into intervals of rows.  An interval is one operation if its rows lie in at most two
tiles in every tensor, as in a ring; otherwise the rows of a window are first copied to scratch.  If
weights are encoded in segments, each segment has operations of its own.

`Action`s state this independently of the compiler that writes register commands: `emission` turns
them into commands, `waits` and `timeline` predict their timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from penstock.accelerators.ethos_u.encoding import ConstantSegment
from penstock.accelerators.ethos_u.operation import NpuFunction, Operation
from penstock.accelerators.ethos_u.performance import Block, Cycles
from penstock.accelerators.ethos_u.segments import copied_before
from penstock.accelerators.ethos_u.tiles import MapTiles, tiles_of
from penstock.accelerators.ethos_u.timeline import Job, operation_job
from penstock.uma import Place, StreamRows, StreamTransfer

MapPlace = tuple[int, MapTiles]
"""A region, and the tiles of a feature map in it."""
NOWHERE: MapPlace = (0, MapTiles(0, 0, 0, 0))
"""The place of an absent feature map."""


class ChannelPart(NamedTuple):
    """A segment: `channels` output channels from number `first` on.

    The biases lie at `place`, followed by the weights, unless `biases` states another place for the
    biases.  `place` is None if there are no weights."""

    segment: int
    first: int
    channels: int
    place: Place | None
    bias_bytes: int
    weight_bytes: int
    biases: Place | None = None


class ConcatPiece(NamedTuple):
    """The channels of an input of a concatenation, and whether its layout is NHCWB16."""

    channels: int
    packed: bool


class Computed(NamedTuple):
    """The block size of an operation, its cycles by unit of the NPU, and its job on the clock."""

    block: Block
    cycles: Cycles
    job: Job


@lru_cache(maxsize=65536)
def _computed(op: Operation, rows: int, read: int, segment: int, constants: int) -> Computed:
    """How the NPU computes `rows` rows of a segment from `read` input rows and `constants` bytes of
    weights and biases."""
    given = constants if op.weighted else None
    work = op.work(rows, segment, read=read, constant_bytes=given)
    found = op.soonest(work)
    assert found is not None
    block, cycles = found
    return Computed(block, cycles, operation_job(cycles, work.chip))


class Maps(NamedTuple):
    """The feature maps of an operation."""

    source: MapPlace
    second: MapPlace | None
    result: MapPlace


class RowCut(NamedTuple):
    """Rows [first, end) that one operation computes; `maps` is None for a single row whose window
    is first copied to scratch."""

    first: int
    end: int
    maps: Maps | None


class Compute(NamedTuple):
    """Computes rows [first, end) of the channels of a part."""

    op: Operation
    first: int
    end: int
    maps: Maps
    part: ChannelPart

    @property
    def computed(self) -> Computed:
        """Block size and timing."""
        lower, upper = self.op.reads(self.first, self.end)
        constants = self.part.bias_bytes + self.part.weight_bytes
        rows = self.end - self.first, upper - lower
        return _computed(self.op, *rows, self.part.segment, constants)


class TableCopy(NamedTuple):
    """Copies the look-up table of an activation into the NPU."""

    op: Operation
    source: Place


Action = Compute | StreamTransfer | TableCopy


@dataclass(frozen=True, slots=True)
class EncodedOperation:
    """An operation with the segments of its encoded constants; a concatenation has `pieces`
    instead."""

    operation: Operation
    segments: tuple[ConstantSegment, ...] = ()
    pieces: tuple[ConcatPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class NpuCall:
    """An operation and the memory that a call of it uses.

    `inputs` are the first input and the second, if it is a tensor; or the pieces of a
    concatenation.  `constants` is the place of encoded weights or of a look-up table.
    `transfers` copy constants for this call and later ones before the operation begins."""

    encoded: EncodedOperation
    inputs: tuple[StreamRows, ...]
    result: StreamRows
    constants: Place | None = None
    scratch: Place | None = None
    prefetched: Place | None = None
    transfers: tuple[StreamTransfer, ...] = ()

    @property
    def op(self) -> Operation:
        """The operation."""
        return self.encoded.operation

    def actions(self, first: int, end: int) -> Iterator[Action]:
        """The actions that compute rows [first, end) of the output, after the transfers."""
        yield from self.transfers
        if self.encoded.pieces:
            for one, part in self._copies_of_pieces():
                yield from one._rows(one.cuts(first, end), part)
            return
        if self.op.function is NpuFunction.LOOKUP:
            assert self.constants is not None
            yield TableCopy(self.op, self.constants)
        parts, cuts = self._parts(), self.cuts(first, end)
        for k, part in enumerate(parts):
            for other in self.op.buffered:
                if copied_before(self.op, other) == k:
                    yield self._copied(parts[other])
            yield from self._rows(cuts, self._near(part))

    def lengths(self, first: int, end: int) -> tuple[tuple[int, ...], ...]:
        """The number of rows of each interval into which rows [first, end) are split, for each
        piece; 0 for a row whose window is first copied to scratch."""
        pieces = self.encoded.pieces
        calls = [one for one, _ in self._copies_of_pieces()] if pieces else [self]
        return tuple(
            tuple(0 if cut.maps is None else cut.end - cut.first for cut in one.cuts(first, end))
            for one in calls
        )

    def _copies_of_pieces(self) -> Iterator[tuple[NpuCall, ChannelPart]]:
        """For each piece, the call that copies it to its channels of the output."""
        channel = 0
        for (channels, packed), rows in zip(self.encoded.pieces, self.inputs, strict=True):
            op = replace(self.op, in_c=channels, slice_channels=channels, packed_in=packed)
            yield (
                NpuCall(EncodedOperation(op), (rows,), self.result),
                ChannelPart(0, channel, channels, None, 0, 0),
            )
            channel += channels

    def _parts(self) -> list[ChannelPart]:
        """The parts, with their constants where they are stored."""
        if not self.encoded.segments:
            return [ChannelPart(0, 0, self.op.out_c, None, 0, 0)]
        found: list[ChannelPart] = []
        channel, place = 0, self.constants
        assert place is not None
        for k, segment in enumerate(self.encoded.segments):
            found.append(ChannelPart(k, channel, segment.channels, place, *segment[1:]))
            channel += segment.channels
            place = Place(place.base, place.offset_bytes + segment.size_bytes)
        return found

    def _copied(self, part: ChannelPart) -> StreamTransfer:
        """The copy of a part's constants into its buffer."""
        target = self._near(part).place
        assert part.place is not None
        assert target is not None
        return StreamTransfer(part.place, target, part.bias_bytes + part.weight_bytes)

    def _near(self, part: ChannelPart) -> ChannelPart:
        """The part, with its constants where the operation reads them."""
        op = self.op
        if op.prefetched_biases:
            return part._replace(biases=self.prefetched)
        if not op.near(part.segment):
            return part
        if part.segment < op.prefetched_segments:
            assert part.place is not None
            assert self.constants is not None
            at = self.prefetched, part.place.offset_bytes - self.constants.offset_bytes
        else:
            buffers = op.scratch_bytes - op.buffers * op.buffer_bytes
            at = self.scratch, buffers + part.segment % op.buffers * op.buffer_bytes
        place, offset = at
        assert place is not None
        return part._replace(place=Place(place.base, place.offset_bytes + offset))

    def _rows(self, cuts: Sequence[RowCut], part: ChannelPart) -> Iterator[Compute]:
        """The operations of one part."""
        for cut in cuts:
            if cut.maps is None:
                yield from self._gathered(cut.first, part)
            else:
                yield Compute(self.op, cut.first, cut.end, cut.maps, part)

    def cuts(self, first: int, end: int) -> tuple[RowCut, ...]:
        """Rows [first, end), split greedily into intervals of one operation each."""
        found: list[RowCut] = []
        while first < end:
            until, maps = end, self._maps(first, end)
            if maps is None:
                until = first
                while more := self._maps(first, until + 1):
                    until, maps = until + 1, more
            until = max(until, first + 1)
            found.append(RowCut(first, until, maps))
            first = until
        return tuple(found)

    def _maps(self, first: int, end: int) -> Maps | None:
        """The feature maps of rows [first, end) of the output; None if one needs more than two
        tiles."""
        op = self.op
        # Several rows can be split, so only a single row may be read backwards.
        source = _map(
            self.inputs[0], op.reads(first, end), op.in_row_bytes, backwards=end - first == 1
        )
        if source is None:
            return None
        second = None
        if op.second_tensor is not None:
            size = op.second_tensor.row_bytes
            second = _map(self.inputs[1], op.second_rows(first, end), size)
            if second is None:
                return None
        result = _map(self.result, (first, end), op.out_row_bytes)
        return None if result is None else Maps(source, second, result)

    def _gathered(self, row: int, part: ChannelPart) -> Iterator[Compute]:
        """The operations that copy the window of one row to scratch and compute the row."""
        lower, upper = self.op.reads(row, row + 1)
        size, source, scratch = self.op.in_row_bytes, self.inputs[0], self.scratch
        assert scratch is not None
        for k, offset in enumerate(source.between(lower, upper)):
            at = scratch.offset_bytes + k * size
            maps = Maps(
                (source.base, MapTiles(size, 1, offset, 0)),
                None,
                (scratch.base, MapTiles(size, 1, at, 0)),
            )
            like = one_row(self.op)
            yield Compute(like, 0, 1, maps, ChannelPart(0, 0, like.out_c, None, 0, 0))
        result = _map(self.result, (row, row + 1), self.op.out_row_bytes)
        assert result is not None
        window = (scratch.base, MapTiles(size, upper - lower, scratch.offset_bytes, 0))
        yield Compute(self.op, row, row + 1, Maps(window, None, result), part)


def _map(
    rows: StreamRows, interval: tuple[int, int], row_bytes: int, *, backwards: bool = False
) -> MapPlace | None:
    """The feature map of an interval of rows; None if it needs more than two tiles."""
    found = tiles_of(rows.between(*interval), row_bytes, backwards=backwards)
    return None if found is None else (rows.base, found)


def rows_read(op: Operation, tensor: int, first: int, end: int) -> tuple[int, int]:
    """Rows [lower, upper) of input number `tensor` that rows [first, end) of the output depend
    on."""
    if tensor == 0 or op.function is NpuFunction.COPY:
        return op.reads(first, end)
    return op.second_rows(first, end)


def one_row(op: Operation) -> Operation:
    """The operation that copies one row of the input: a maximum over windows of one element."""
    return Operation(
        op.configuration, NpuFunction.COPY, 1, op.in_w, op.in_c, 1, op.in_w, op.in_c,
        packed_in=op.packed_in, packed_out=op.packed_in,
    )  # fmt: skip
