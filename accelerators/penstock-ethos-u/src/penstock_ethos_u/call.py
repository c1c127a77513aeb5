"""call: the operations and copies that the NPU executes for one kernel call, in order. A kernel
call computes some rows of an operator's output. Scratch is the working memory of a call; a segment
holds the weights and biases of consecutive output channels.

A call is split into intervals of output rows, each of which a single operation computes. An
operation can access a tensor only if the accessed rows form at most two tiles. A tile is a sequence
of rows at a constant pitch; the rows of a ring buffer that wraps around, for example, form two
tiles. If the input rows of a single output row form more than two tiles, they are first copied to
scratch. If weights are divided into segments, each segment has its own operations.

An `Action` is one such operation or copy, in a form that does not depend on Arm's compiler Vela.
`emission` converts actions to operations of Vela's API; `waits` and `timeline` predict their
timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from penstock.uma import Place, StreamRows, StreamTransfer
from penstock_ethos_u.blocks import micro_block
from penstock_ethos_u.configurations import MapShape
from penstock_ethos_u.encoding import NO_SEGMENT, ConstantSegment
from penstock_ethos_u.operation import (
    TABULATED,
    NpuFunction,
    Operation,
    copied_before,
    fastest_copy,
)
from penstock_ethos_u.performance import Block, Cycles
from penstock_ethos_u.steps import CONSTANTS, RESULT, Step, Steps, View
from penstock_ethos_u.tiles import MapTiles, tiles_of
from penstock_ethos_u.timeline import Job, operation_job

# The number of a memory region, and the tiles of a feature map in that region.
MapPlace = tuple[int, MapTiles]
# Placeholder for the place of a feature map that an operation does not have.
NOWHERE: MapPlace = (0, MapTiles(0, 0, 0, 0))


class ChannelPart(NamedTuple):
    """The output channels that one operation computes, and the encoded constants of these channels.

    number: index of the segment.
    first: index of the first output channel.
    channels: number of output channels.
    place: address of the segment, or of a look-up table; None if the operation has no constants.
    segment: sizes of the segment; empty if the operation has no weights.
    biases: address of a copy of the biases that an earlier call has made; None if the operation
        reads the biases that are stored in the segment."""

    number: int
    first: int
    channels: int
    place: Place | None = None
    segment: ConstantSegment = NO_SEGMENT
    biases: Place | None = None


class ComputeTiming(NamedTuple):
    """The block size of an operation, and its timing with this block size.

    block: rows, columns and channels of the output that the NPU computes at a time.
    cycles: cycles of the operation on each unit of the NPU; each field is an array with one
        element.
    job: the operation as a job of the simulation in `timeline`.
    micro_block: rows, columns and channels of the output that the multipliers compute at a time."""

    block: Block
    cycles: Cycles
    job: Job
    micro_block: MapShape


@lru_cache(maxsize=65536)
def _compute_timing(
    op: Operation, rows: int, read: int, segment: int, constants: int
) -> ComputeTiming:
    given = constants if op.weighted else None
    work = op.work(rows, segment, read=read, constant_bytes=given)
    found = op.fastest_block_and_cycles(work)
    assert found is not None
    block, cycles = found
    return ComputeTiming(block, cycles, operation_job(cycles, work.chip), micro_block(work))


class Maps(NamedTuple):
    """The locations of an operation's feature maps. A location consists of the number of a memory
    region, and of one or two tiles (sequences of rows at a constant pitch) in this region.

    source: location of the first input.
    second: location of the second input; None if there is none, or if it is a scalar.
    result: location of the output."""

    source: MapPlace
    second: MapPlace | None
    result: MapPlace


class RowInterval(NamedTuple):
    """Output rows [first, end) that a single operation computes.

    maps: locations of the operation's feature maps; None if the interval is a single row whose
        input rows must first be copied to scratch."""

    first: int
    end: int
    maps: Maps | None


class Compute(NamedTuple):
    """An operation of the NPU that computes rows [first, end) of some output channels.

    op: the operation that would compute the whole output.
    maps: locations of the input and output rows that are accessed.
    part: the output channels, and the addresses of their constants."""

    op: Operation
    first: int
    end: int
    maps: Maps
    part: ChannelPart

    @property
    def timing(self) -> ComputeTiming:
        """The fastest block size of this operation, and its cycles."""
        lower, upper = self.op.reads(self.first, self.end)
        rows = self.end - self.first, upper - lower
        return _compute_timing(self.op, *rows, self.part.number, self.part.segment.size_bytes)


class TableCopy(NamedTuple):
    """A copy of the look-up table of operation `op` from `source` into the NPU."""

    op: Operation
    source: Place

    @property
    def size_bytes(self) -> int:
        """Size of the table: an entry for each int8 element."""
        return 256 * self.op.out_bytes


Action = Compute | StreamTransfer | TableCopy  # One operation or copy of a call.


@dataclass(frozen=True, slots=True)
class EncodedOperation:
    """An operation, and the sizes of its encoded constants.

    segments: sizes of each segment; empty if there are no weights or if they are not encoded yet.
    steps: the operations that compute the operator, if a single one does not."""

    operation: Operation
    segments: tuple[ConstantSegment, ...] = ()
    steps: Steps | None = None


@dataclass(frozen=True, slots=True)
class NpuCall:
    """A kernel call: an operation, and the addresses of the rows and constants that it accesses.

    encoded: the operation, and the sizes of its encoded constants.
    inputs: addresses of the rows of each input that is a tensor, not a scalar.
    result: addresses of the rows of the output.
    constants: address of the encoded weights or of the look-up table.
    scratch: address of the working memory.
    prefetched: address to which an earlier call has copied constants for this one.
    transfers: copies of constants that this call makes, for itself or for later calls.

    `constants`, `scratch` and `prefetched` may be None if the call does not use them."""

    encoded: EncodedOperation
    inputs: tuple[StreamRows, ...]
    result: StreamRows
    constants: Place | None = None
    scratch: Place | None = None
    prefetched: Place | None = None
    transfers: tuple[StreamTransfer, ...] = ()

    @property
    def op(self) -> Operation:
        """Shorthand for `encoded.operation`."""
        return self.encoded.operation

    def actions(self, first: int, end: int) -> Iterator[Action]:
        """Yield the operations and copies of a call that computes output rows [first, end), in
        order of issue. Each copy precedes the operations that read it. Those of the field
        `transfers` that later calls read follow all other copies, so that no operation of this call
        waits for them, but precede the last operations, with which they overlap."""
        later = [each for each in self.transfers if each.target != self.prefetched]
        yield from (each for each in self.transfers if each.target == self.prefetched)
        if self.encoded.steps is not None:
            actions = list(self._actions_of_steps(self.encoded.steps, first, end))
            copies = [k for k, each in enumerate(actions) if isinstance(each, TableCopy)]
            after_copies = copies[-1] + 1 if copies else 0
            yield from (*actions[:after_copies], *later, *actions[after_copies:])
            return
        if self.op.function in TABULATED:
            yield self._table_copy(self.op, 0)
        parts, row_intervals = self._stored_parts(), self.row_intervals(first, end)
        copied = [copied_before(self.op, other) for other in self.op.buffered]
        after_copies = min(max(copied, default=-1) + 1, len(parts) - 1)
        for k, part in enumerate(parts):
            for other in self.op.buffered:
                if copied_before(self.op, other) == k:
                    yield self._copy_to_buffer(parts[other])
            if k == after_copies:
                yield from later
            yield from self._row_operations(row_intervals, self._with_read_addresses(part))

    def lengths(self, first: int, end: int) -> tuple[int, ...]:
        """Return the number of rows of each operation that computes output rows [first, end), or of
        each interval of `row_intervals`, for the cache key in `placed`. The number 0 marks a row
        whose input rows must first be copied to scratch."""
        if self.encoded.steps is not None:
            actions = self._actions_of_steps(self.encoded.steps, first, end)
            return tuple(one.end - one.first for one in actions if isinstance(one, Compute))
        return tuple(
            0 if interval.maps is None else interval.end - interval.first
            for interval in self.row_intervals(first, end)
        )

    def scratch_bytes(self, first: int, end: int) -> int:
        """Return the size of the scratch of a call that computes output rows [first, end)."""
        op, gathered = self.op, 0
        if self.encoded.steps is not None:
            return self.encoded.steps.scratch_bytes
        if op.gather_bytes:
            for interval in self.row_intervals(first, end):
                if interval.maps is None:
                    lower, upper = op.reads(interval.first, interval.end)
                    gathered = max(gathered, (upper - lower) * op.in_row_bytes)
        return op.gather_offset + gathered if gathered else op.scratch_bytes

    def _actions_of_steps(self, steps: Steps, first: int, end: int) -> Iterator[Action]:
        """The operations of all steps for output rows [first, end), and the copies of tables."""
        for begin, stop in steps.chunks(first, end):
            for step in steps.steps:
                lower, upper = step.rows(begin, stop)
                part = self._part_of_step(steps, step)
                if step.op.function in TABULATED and lower < upper:
                    offset = steps.constants_offset(step) - len(steps.numbers)
                    yield self._table_copy(step.op, offset, len(steps.numbers))
                    part = part._replace(place=None)
                while lower < upper:
                    until, maps = upper, self._maps_of_step(step, lower, upper, begin, stop)
                    if maps is None:
                        until = lower
                        while more := self._maps_of_step(step, lower, until + 1, begin, stop):
                            until, maps = until + 1, more
                    assert maps is not None, "a row needs more than two tiles"
                    yield Compute(step.op, lower, until, maps, part)
                    lower = until

    def _table_copy(self, op: Operation, offset: int, begin: int = 0) -> TableCopy:
        """The copy of a look-up table into the NPU.

        offset: that of the table in all tables.
        begin: that of all tables in the constants, unless an earlier call has copied them."""
        place = self.constants
        if self.op.prefetched:
            op, place, begin = replace(op, prefetched_segments=1), self.prefetched, 0
        assert place is not None
        return TableCopy(op, Place(place.base, place.offset_bytes + begin + offset))

    def _part_of_step(self, steps: Steps, step: Step) -> ChannelPart:
        """All output channels of a step, with the address of its constants."""
        if not step.constants:
            return ChannelPart(0, 0, step.op.out_c)
        assert self.constants is not None
        at = self.constants.offset_bytes + steps.constants_offset(step)
        place = Place(self.constants.base, at)
        return ChannelPart(0, 0, step.op.out_c, place, step.segment)

    def _maps_of_step(
        self, step: Step, lower: int, upper: int, first: int, end: int
    ) -> Maps | None:
        """The locations of the feature maps of an operation that computes rows [lower, upper) of
        the box of a step, in a call for output rows [first, end), or None if the rows of a box form
        more than two tiles."""
        op, found = step.op, list[MapPlace]()
        second = 0 if op.second is None else op.second.row_bytes * op.in_bytes
        sizes = op.in_row_bytes * op.in_bytes, second, op.out_row_bytes * op.out_bytes
        views = [*step.views(lower, upper), (step.target, lower, upper)]
        for k, (view, low, high) in enumerate(views):
            rows = self._rows_of(view, first, end)
            size = sizes[-1 if k == len(views) - 1 else k]
            tiles = view.tiles(rows, low, high, size, backwards=k < len(views) - 1)
            if tiles is None:
                return None
            found.append((rows.base, tiles))
        return Maps(found[0], found[1] if len(found) > 2 else None, found[-1])

    def _rows_of(self, view: View, first: int, end: int) -> StreamRows:
        """The addresses of the rows of a tensor, of scratch for output rows [first, end)."""
        if view.tensor == RESULT:
            return self.result
        if view.tensor >= 0:
            return self.inputs[view.tensor]
        steps, scratch = self.encoded.steps, self.scratch
        assert steps is not None
        if view.tensor == CONSTANTS:
            assert self.constants is not None
            return StreamRows(self.constants.base, 0, (self.constants.offset_bytes,))
        assert scratch is not None
        return steps.scratch_rows(scratch.base, scratch.offset_bytes, view.tensor, first, end)

    def _stored_parts(self) -> list[ChannelPart]:
        """The output channels of each segment of constants, with the address at which the
        segment is stored. For an operation without segments, the result is a single `ChannelPart`
        with all output channels and no constants."""
        if not self.encoded.segments:
            return [ChannelPart(0, 0, self.op.out_c)]
        found: list[ChannelPart] = []
        channel, place = 0, self.constants
        assert place is not None
        for k, segment in enumerate(self.encoded.segments):
            found.append(ChannelPart(k, channel, segment.channels, place, segment))
            channel += segment.channels
            place = Place(place.base, place.offset_bytes + segment.size_bytes)
        return found

    def _copy_to_buffer(self, part: ChannelPart) -> StreamTransfer:
        """The transfer that copies the constants of `part` from `part.place`, where they are
        stored, into a buffer in scratch."""
        target = self._with_read_addresses(part).place
        assert part.place is not None
        assert target is not None
        return StreamTransfer(part.place, target, part.segment.size_bytes)

    def _with_read_addresses(self, part: ChannelPart) -> ChannelPart:
        """Return `part` with the addresses from which the operation reads its constants: those of
        a copy if an earlier call has made one, or if this call makes one in a buffer in scratch."""
        op = self.op
        if op.prefetched_biases:
            return part._replace(biases=self.prefetched)
        if part.place is None or not op.reads_copy(part.number):
            return part
        if part.number < op.prefetched_segments:
            assert self.constants is not None
            at = self.prefetched, part.place.offset_bytes - self.constants.offset_bytes
        else:
            at = self.scratch, sum(op.buffer_sizes[: part.number % op.buffers])
        place, offset = at
        assert place is not None
        return part._replace(place=Place(place.base, place.offset_bytes + offset))

    def _row_operations(
        self, row_intervals: Sequence[RowInterval], part: ChannelPart
    ) -> Iterator[Compute]:
        """The operations that compute `row_intervals` for the output channels of `part`. If
        the input rows of an interval are scattered in memory (`RowInterval.maps` is None), its
        first operations copy them to scratch."""
        for interval in row_intervals:
            if interval.maps is None:
                yield from self._gathering_operations(interval.first, part)
            else:
                yield Compute(self.op, interval.first, interval.end, interval.maps, part)

    def row_intervals(self, first: int, end: int) -> tuple[RowInterval, ...]:
        """Split output rows [first, end) into intervals, each as long as a single operation can
        compute."""
        # An output row that no single operation can compute is an interval of its own, whose
        # `RowInterval.maps` is None.  `_gathering_operations` returns the operations for such a
        # row, which first copy its input rows to scratch.
        found: list[RowInterval] = []
        while first < end:
            until, maps = end, self._feature_maps(first, end)
            if maps is None:
                until = first
                while more := self._feature_maps(first, until + 1):
                    until, maps = until + 1, more
            until = max(until, first + 1)
            found.append(RowInterval(first, until, maps))
            first = until
        return tuple(found)

    def _feature_maps(self, first: int, end: int) -> Maps | None:
        """The locations of the feature maps of the operation that computes output rows
        [first, end), or None if a single operation cannot compute them because the rows of a tensor
        form more than two tiles (sequences of rows at a constant pitch)."""
        op = self.op
        # An interval of several rows can be split instead, so only a single row may be read
        # backwards.
        source = _feature_map(
            self.inputs[0], op.reads(first, end), op.in_row_bytes, backwards=end - first == 1
        )
        if source is None:
            return None
        second = None
        if op.second_tensor is not None:
            size = op.second_tensor.row_bytes
            second = _feature_map(self.inputs[1], op.second_rows(first, end), size)
            if second is None:
                return None
        result = _feature_map(self.result, (first, end), op.out_row_bytes)
        return None if result is None else Maps(source, second, result)

    def _gathering_operations(self, row: int, part: ChannelPart) -> Iterator[Compute]:
        """The operations that compute the output row with index `row` from input rows that
        are scattered in memory. Each operation but the last copies one input row to scratch. The
        last one computes the channels `part` of the output row."""
        lower, upper = self.op.reads(row, row + 1)
        size, source, scratch = self.op.in_row_bytes, self.inputs[0], self.scratch
        assert scratch is not None
        begin = scratch.offset_bytes + self.op.gather_offset
        for k, offset in enumerate(source.between(lower, upper)):
            at = begin + k * size
            maps = Maps(
                (source.base, MapTiles(size, 1, offset, 0)),
                None,
                (scratch.base, MapTiles(size, 1, at, 0)),
            )
            copy = row_copy(self.op)
            yield Compute(copy, 0, 1, maps, ChannelPart(0, 0, copy.out_c))
        result = _feature_map(self.result, (row, row + 1), self.op.out_row_bytes)
        assert result is not None
        window = (scratch.base, MapTiles(size, upper - lower, begin, 0))
        yield Compute(self.op, row, row + 1, Maps(window, None, result), part)


def _feature_map(
    rows: StreamRows, interval: tuple[int, int], row_bytes: int, *, backwards: bool = False
) -> MapPlace | None:
    """The memory region and the tiles of some rows of a tensor, or None if the rows form
    more than two tiles (sequences of rows at a constant pitch)."""
    found = tiles_of(rows.between(*interval), row_bytes, backwards=backwards)
    return None if found is None else (rows.base, found)


def rows_read(encoded: EncodedOperation, tensor: int, first: int, end: int) -> tuple[int, int]:
    """Return the rows [lower, upper) of an input that output rows [first, end) depend on.

    tensor: index of the input. An element-wise operation has up to two inputs; operators of several
        steps may have more."""
    if encoded.steps is not None:
        return encoded.steps.rows_read(tensor, first, end)
    op = encoded.operation
    return op.reads(first, end) if tensor == 0 else op.second_rows(first, end)


def row_copy(op: Operation) -> Operation:
    """Return the operation that copies one row of the input of `op`, with all its columns and
    channels, to gather scattered rows in scratch."""
    plain = Operation(
        op.configuration, NpuFunction.COPY, 1, op.in_w, op.in_c, 1, op.in_w, op.in_c,
        packed_in=op.packed_in, packed_out=op.packed_in,
    )  # fmt: skip
    return fastest_copy(plain)
