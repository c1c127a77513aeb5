"""waits: where a stream waits, as the compiler that writes register commands lets it wait.

Before an operation it waits for copies, and before a copy for operations, where both use bytes that
one of them writes.  It takes maps for all bytes from their first to their last, so where rows lie
apart it also waits for what lies between them.

Source: Vela 5.2.0, `register_command_stream_util.py`; facts, in our words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.accelerators.ethos_u.call import Action, Compute, ConstantsCopy, Placed
from penstock.accelerators.ethos_u.configurations import BRICK, Configuration
from penstock.accelerators.ethos_u.operation import WITH_SCALAR, Function
from penstock.accelerators.ethos_u.timeline import (
    MOST_OPERATIONS,
    Queue,
    Step,
    Wait,
    copy_job,
)

INSIDE = -1
"""The region that stands for the NPU's own memory, of which only tables matter here."""
TABLE_BYTES = 256

Span = tuple[int, int, int]
"""Bytes [lower, upper) of a region: region, lower, upper."""


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes that an action reads and writes."""

    reads: tuple[Span, ...]
    writes: tuple[Span, ...]

    def meets(self, other: Used) -> bool:
        """Whether both use bytes that one of them writes."""
        pairs = (
            (self.writes, other.reads),
            (self.reads, other.writes),
            (self.writes, other.writes),
        )
        return any(_meet(a, b) for one, two in pairs for a in one for b in two)


def steps(actions: Sequence[Action], chip: Configuration) -> Iterator[Step]:
    """The actions as the clock sees them, each behind the wait that it needs."""
    if all(isinstance(action, Compute) for action in actions):  # they only follow one another
        yield from (_job(action, chip) for action in actions)
        return
    most = {Queue.OPERATIONS: MOST_OPERATIONS, Queue.COPIES: chip.most_copies}
    under_way: dict[Queue, list[Used]] = {queue: [] for queue in Queue}
    for action in actions:
        mine, other = Queue.COPIES, Queue.OPERATIONS
        if isinstance(action, Compute):
            mine, other = other, mine
        used = used_by(action)
        earlier = under_way[other]
        for k in range(len(earlier) - 1, -1, -1):
            if used.meets(earlier[k]):
                yield Wait(other, len(earlier) - 1 - k)
                del earlier[: k + 1]
                break
        under_way[mine] = [*under_way[mine], used][-most[mine] :]
        yield _job(action, chip)


def _job(action: Action, chip: Configuration) -> Step:
    if isinstance(action, Compute):
        return action.computed.job
    size = action.size_bytes if isinstance(action, ConstantsCopy) else TABLE_BYTES
    return copy_job(chip, size)


def used_by(action: Action) -> Used:
    """Bytes that an action reads and writes."""
    if isinstance(action, ConstantsCopy):
        at, size = action.target, action.size_bytes
        source = (action.source.base, action.source.offset_bytes)
        return Used(
            ((*source, source[1] + size),),
            ((at.base, at.offset_bytes, at.offset_bytes + size),),
        )
    if not isinstance(action, Compute):
        place = action.source
        at, end = place.offset_bytes, place.offset_bytes + TABLE_BYTES
        return Used(((place.base, at, end),), ((INSIDE, 0, TABLE_BYTES),))
    op, part, maps = action.op, action.part, action.maps
    lower, upper = op.reads(action.first, action.end)
    reads = [*_spans(maps.source, upper - lower, _row_span(op.in_w, op.in_c, op.packed_in))]
    if op.second and op.second != WITH_SCALAR:
        assert maps.second is not None
        lower, upper = op.second_rows(action.first, action.end)
        row = _row_span(op.second_w, op.second_c, op.packed_second)
        reads += _spans(maps.second, upper - lower, row)
    if part.place is not None:
        biases = part.biases or part.place
        at, behind = biases.offset_bytes, part.place.offset_bytes + part.bias_bytes
        reads.append((biases.base, at, at + part.bias_bytes))
        reads.append((part.place.base, behind, behind + part.weight_bytes))
    if op.function == Function.LOOKUP:
        reads.append((INSIDE, 0, TABLE_BYTES))
    row = _row_span(op.out_w, part.channels, op.packed_out, part.first, op.out_c)
    return Used(tuple(reads), tuple(_spans(maps.result, action.end - action.first, row)))


def _row_span(
    width: int, channels: int, packed: int, first: int = 0, every: int | None = None
) -> tuple[int, int]:
    """The first and the last byte, both included, of a row that are used: of a tensor of `every`
    channel so many from the first on."""
    if not packed:
        return first, first + (width - 1) * (every or channels) + channels - 1
    brick = BRICK * width
    behind, last = first // BRICK * brick, channels - 1
    return behind, behind + last // BRICK * brick + (width - 1) * BRICK + last % BRICK


def _spans(placed: Placed, rows: int, row: tuple[int, int]) -> Iterator[Span]:
    """What is used of so many rows, tile by tile."""
    region, tiles = placed
    above = min(tiles.height, rows)
    for at, count in ((tiles.first, above), (tiles.second, rows - above)):
        if count:
            last = at + (count - 1) * tiles.pitch
            yield region, at + row[0], last + row[1] + 1


def _meet(one: Span, other: Span) -> bool:
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])
