"""waits: prediction of the waits that Arm's compiler Vela inserts when it generates a command
stream. An action is an operation or a copy of constants.

An operation waits for an earlier copy, and a copy for an earlier operation, if both access the same
byte and at least one of them writes it. Vela assumes that each tile of a feature map (its rows at a
constant pitch) occupies all bytes from the first to the last, so it also waits for accesses to
bytes between rows.

Source: Vela 5.2.0, `register_command_stream_util.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.uma import StreamTransfer
from penstock_ethos_u.blocks import input_channels
from penstock_ethos_u.call import Action, Compute, MapPlace, TableCopy
from penstock_ethos_u.configurations import BLOCK_CHANNELS, EthosUConfiguration
from penstock_ethos_u.operation import TABULATED
from penstock_ethos_u.timeline import (
    MOST_OPERATIONS,
    CommandQueue,
    QueueWait,
    Step,
    copy_job,
)

INSIDE = -1  # Region number of the NPU's internal memory. Only its look-up tables are tracked.
TABLES_BYTES = 2048  # Bytes of the internal memory that hold look-up tables.

Span = tuple[int, int, int]  # Bytes [lower, upper) of a region: (region number, lower, upper).


@dataclass(frozen=True, slots=True)
class Accesses:
    """The bytes that an action (an operation or a copy) reads and writes. A span (region number,
    lower, upper) denotes bytes [lower, upper) of a memory region."""

    reads: tuple[Span, ...]
    writes: tuple[Span, ...]

    def conflicts(self, other: Accesses) -> bool:
        """Return whether both actions access a common byte that at least one of them writes."""
        pairs = (
            (self.writes, other.reads),
            (self.reads, other.writes),
            (self.writes, other.writes),
        )
        return any(_overlap(a, b) for one, two in pairs for a in one for b in two)


def timeline_steps(actions: Sequence[Action], chip: EthosUConfiguration) -> Iterator[Step]:
    """Yield the operations and copies of a call as jobs of the timeline, and the wait commands
    between them, in order of issue.

    actions: the operations and copies of the call."""
    # One engine runs operations and another runs copies.  A job is preceded by a wait command if it
    # conflicts with a job of the other engine that may be incomplete.
    if all(isinstance(action, Compute) for action in actions):  # operations run in order
        yield from (_job(action, chip) for action in actions)
        return
    most = {CommandQueue.OPERATIONS: MOST_OPERATIONS, CommandQueue.COPIES: chip.most_copies}
    under_way: dict[CommandQueue, list[Accesses]] = {queue: [] for queue in CommandQueue}
    before: Compute | None = None
    for k, action in enumerate(actions):
        mine, other = CommandQueue.COPIES, CommandQueue.OPERATIONS
        if reads_copy(actions, k):
            yield QueueWait(mine, 0)
        if isinstance(action, Compute):
            mine, other = other, mine
            if before is not None and overtakes(action, before):
                yield QueueWait(mine, 0)
                under_way[mine].clear()
            before = action
        used = accesses_of(action)
        earlier = under_way[other]
        for n in range(len(earlier) - 1, -1, -1):
            if used.conflicts(earlier[n]):
                yield QueueWait(other, len(earlier) - 1 - n)
                del earlier[: n + 1]
                break
        under_way[mine] = [*under_way[mine], used][-most[mine] :]
        yield _job(action, chip)


def reads_copy(actions: Sequence[Action], k: int) -> bool:
    """Return whether action k of a call copies a look-up table that earlier actions copied."""
    action = actions[k]
    is_near = isinstance(action, TableCopy) and action.op.prefetched
    return is_near and any(isinstance(one, StreamTransfer) for one in actions[:k])


def _job(action: Action, chip: EthosUConfiguration) -> Step:
    """The step of the timeline that represents an action (an operation or a copy): a job,
    which states how many cycles the action takes."""
    if isinstance(action, Compute):
        return action.timing.job
    is_near = isinstance(action, TableCopy) and action.op.prefetched
    return copy_job(chip.in_sram if is_near else chip, action.size_bytes)


def accesses_of(action: Action) -> Accesses:
    """Return the bytes that an action (an operation or a copy) reads and writes."""
    if isinstance(action, StreamTransfer):
        at, size = action.target, action.size_bytes
        source = (action.source.base, action.source.offset_bytes)
        return Accesses(
            ((*source, source[1] + size),),
            ((at.base, at.offset_bytes, at.offset_bytes + size),),
        )
    if not isinstance(action, Compute):
        place = action.source
        at, size = place.offset_bytes, action.size_bytes
        return Accesses(((place.base, at, at + size),), ((INSIDE, 0, size),))
    op, part = action.op, action.part
    read = list(_read_maps(action, action.first, action.end))
    reads = [span for one in read for span in _spans(one.place, one.upper - one.lower, one.span)]
    if part.place is not None:
        biases, end = part.biases or part.place, part.place.offset_bytes + part.segment.size_bytes
        at = biases.offset_bytes
        reads.append((biases.base, at, at + part.segment.bias_bytes))
        reads.append((part.place.base, part.place.offset_bytes + part.segment.bias_bytes, end))
    if op.function in TABULATED:
        reads.append((INSIDE, 0, TABLES_BYTES))
    writes = [*_spans(action.maps.result, action.end - action.first, _written_span(action))]
    if op.function not in TABULATED and not op.configuration.end_banks:
        writes.append((INSIDE, 0, TABLES_BYTES))  # its accumulators may lie there
    return Accesses(tuple(reads), tuple(writes))


class _ReadMap(NamedTuple):
    """Rows [lower, upper) of an input that an action reads.

    place: its region and tiles, which begin at row `lower`.
    span: the first and the last byte (inclusive) of each row, relative to its start."""

    place: MapPlace
    lower: int
    upper: int
    span: tuple[int, int]


def _read_maps(action: Compute, first: int, end: int) -> Iterator[_ReadMap]:
    """The rows of the inputs that output rows [first, end) of an action depend on; the places are
    those of all rows of the action."""
    op, (source, second, _) = action.op, action.maps
    stride, size = source[1].stride, op.in_bytes
    row = _row_span(op.in_w, size * op.in_c, op.packed_in, stride)
    yield _ReadMap(source, *op.reads(first, end), row)
    tensor = op.second_tensor
    if tensor is not None:
        assert second is not None
        (_, width, depth), stride = tensor.shape, second[1].stride
        row = _row_span(width, size * depth, tensor.packed, stride)
        yield _ReadMap(second, *op.second_rows(first, end), row)


def _written_span(action: Compute) -> tuple[int, int]:
    """The first and the last byte (inclusive) of each row that an action writes, relative to its
    start."""
    op, part = action.op, action.part
    stride = action.maps.result[1].stride or (0 if op.packed_out else op.out_bytes * op.out_c)
    sizes = op.out_bytes * part.channels, op.out_bytes * part.first
    return _row_span(op.out_w, sizes[0], op.packed_out, stride, sizes[1])


MOST_BLOCK_DEPENDENCY = 7  # The greatest value of BLOCKDEP, of Ethos-U85.


def block_dependency(action: Compute, before: Compute) -> int:
    """Return the value of BLOCKDEP: the greatest number of blocks of the previous operation that
    may be unfinished when an operation starts, so that it does not read what they write.

    A job (a block, or its share of some input channels) of an operation may start when this number
    of earlier jobs is unfinished. Jobs are counted as blocks of the previous operation, and blocks
    access whole rows, so the result may be less than possible."""
    rows, height = range(action.first, action.end), action.timing.block[0]
    across, span, begin = _jobs_across(action), _written_span(before), _read_begins(action)

    def written(last: int) -> list[Span]:
        return [_row_at(before.maps.result, row, span) for row in _last_rows(before, last)]

    def read(job: int) -> Iterator[Span]:
        block = rows[job // across * height :][:height]
        if block:
            for map, lower in zip(_read_maps(action, block[0], block[-1] + 1), begin, strict=True):
                for row in range(map.lower, map.upper):
                    yield _row_at(map.place, row - lower, map.span)

    for outstanding in range(1, MOST_BLOCK_DEPENDENCY + 1):
        for job in range(outstanding):
            target = written(outstanding - 1 - job)
            if any(_overlap(one, two) for one in read(job) for two in target):
                return outstanding - 1
    return MOST_BLOCK_DEPENDENCY


def _read_begins(action: Compute) -> list[int]:
    return [map.lower for map in _read_maps(action, action.first, action.end)]


def _blocks_across(action: Compute) -> int:
    """The number of blocks of an action that compute the same rows."""
    _, width, depth = action.timing.block
    return -(-action.op.out_w // width) * -(-action.part.channels // depth)


def _jobs_across(action: Compute) -> int:
    """The number of jobs of an action that compute the same rows."""
    op, across = action.op, _blocks_across(action)
    if op.mixes_channels:
        across *= -(-op.in_c // input_channels(op.configuration, op.part_kernel, op.in_bytes))
    return across


def _last_rows(before: Compute, last: int) -> range:
    """The rows that a block of an action writes, relative to its first row; empty if there is no
    such block.

    last: number of the block, counted from the last one."""
    height, across, count = (
        before.timing.block[0],
        _blocks_across(before),
        before.end - before.first,
    )
    block = -(-count // height) * across - 1 - last
    return range(max(block, 0) // across * height, count)[:height] if block >= 0 else range(0)


def _row_at(placed: MapPlace, row: int, span: tuple[int, int]) -> Span:
    """The span of a row of a feature map, as (region number, lower, upper)."""
    region, tiles = placed
    below = row >= tiles.height
    start = (tiles.second if below else tiles.first) + (row - tiles.height * below) * tiles.pitch
    return region, start + span[0], start + span[1] + 1


MOST_TAPS = 8  # Rows or columns of the part of a window that Vela considers.
MOST_UNFINISHED = 3  # The greatest value of BLOCKDEP of Ethos-U55 and Ethos-U65.


def overtakes(action: Compute, before: Compute) -> bool:
    """Return whether an operation reads what the previous operation may not have written, since
    Vela derives BLOCKDEP from other rows than the operation reads: it assumes that the first row of
    a tile has the lowest address, considers the first 8 x 8 taps of a window, and begins windows as
    many rows above an output row as there is padding at the right, not at the top. False for
    Ethos-U85, whose BLOCKDEP is that of `block_dependency`."""
    op, other = action.op, before.op
    if op.configuration.memories is not None:
        return False
    if action.maps.source[1].pitch > 0 and max(op.kernel_h, op.kernel_w) <= MOST_TAPS:
        return _reads_elsewhere(action, before)
    lower, upper = op.reads(action.first, action.end)
    read = _rows(action.maps.source, upper - lower, op.in_row_bytes)
    written = _rows(before.maps.result, before.end - before.first, other.out_row_bytes)
    return any(_overlap(one, two) for one in read for two in written)


def _reads_elsewhere(action: Compute, before: Compute) -> bool:
    """Return whether a job reads rows of an unfinished block of which Vela considers none."""
    op, span = action.op, _written_span(before)
    rows, height, across = (
        range(action.first, action.end),
        action.timing.block[0],
        _jobs_across(action),
    )
    right = op.padding(action.first, action.end)[3]
    source, *_ = _read_maps(action, action.first, action.end)
    for job in range(across, MOST_UNFINISHED):  # the first windows begin at the first row
        block = rows[job // across * height :][:height]
        if not block:
            break
        lower, upper = (row - source.lower for row in op.reads(block[0], block[-1] + 1))
        assumed = max(0, (block[0] - action.first) * op.stride_h - right)
        seen = range(assumed, assumed + (height - 1) * op.stride_h + op.reach_h)
        read = {row: _row_at(source.place, row, source.span) for row in range(lower, upper)}
        for last in range(MOST_UNFINISHED - job):
            written = [_row_at(before.maps.result, row, span) for row in _last_rows(before, last)]
            met = [row for row, one in read.items() if any(_overlap(one, two) for two in written)]
            if met and not any(row in seen for row in met):
                return True
    return False


def _rows(placed: MapPlace, rows: int, row_bytes: int) -> list[Span]:
    """The span of each row of a feature map, as (region number, lower, upper)."""
    region, tiles = placed
    starts = [tiles.first + k * tiles.pitch for k in range(min(rows, tiles.height))]
    starts += [tiles.second + k * tiles.pitch for k in range(rows - tiles.height)]
    return [(region, start, start + row_bytes) for start in starts]


def _row_span(
    width: int, channels: int, packed: bool, stride: int, first: int = 0
) -> tuple[int, int]:
    """The offsets of the first and the last byte (inclusive) that an action accesses in a
    row, relative to the start of the row. For example, channels 2 and 3 of the 4 channels of a row
    of 5 columns, in NHWC, give (2, 19).

    stride: distance between columns in NHWC, or between blocks of channels in NHCWB16; 0 if the
        row has no other columns and channels."""
    if not packed:
        return first, first + (width - 1) * (stride or channels) + channels - 1
    block = stride or BLOCK_CHANNELS * width
    start, last = first // BLOCK_CHANNELS * block, channels - 1
    blocks, rest = divmod(last, BLOCK_CHANNELS)
    return start, start + blocks * block + (width - 1) * BLOCK_CHANNELS + rest


def _spans(placed: MapPlace, rows: int, row_span: tuple[int, int]) -> Iterator[Span]:
    """The span of each tile of a feature map, as (region number, lower, upper). A span
    consists of all bytes [lower, upper) from the first to the last accessed byte of the tile."""
    region, tiles = placed
    above = min(tiles.height, rows)
    for at, count in ((tiles.first, above), (tiles.second, rows - above)):
        if count:
            last = at + (count - 1) * tiles.pitch
            yield region, at + row_span[0], last + row_span[1] + 1


def _overlap(one: Span, other: Span) -> bool:
    """Whether two spans, (region number, lower, upper), have a byte in common."""
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])
