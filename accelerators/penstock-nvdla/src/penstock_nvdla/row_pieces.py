"""row_pieces: divides the output rows of a call into intervals whose rows have constant pitches.

A hardware layer accesses the rows of a tensor at one pitch (distance in bytes), but the distances
between rows in a ring buffer or a row table may vary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from penstock_nvdla.task import Task


class RowAddresses(Protocol):
    """The addresses of the rows of a tensor, or their offsets from a base address."""

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the address or offset of each row in [lower, upper), in bytes."""
        ...


class TaskPiece(NamedTuple):
    """Output rows [first, end) of a task that are computed together.

    gathered: True if the piece is a single output row whose input rows have no constant pitch, so
        that they must first be copied to scratch.  If False, the rows that the piece reads and
        writes have a constant pitch in every tensor."""

    first: int
    end: int
    gathered: bool


def pieces(task: Task, rows: Sequence[RowAddresses], first: int, end: int) -> Iterator[TaskPiece]:
    """Divide output rows [first, end) of a task into intervals, and yield them in order.

    Intervals are as long as possible, but in every tensor, the rows that an interval accesses must
    have a constant pitch.  The exception is an output row whose own input rows have no constant
    pitch: it is an interval of its own, with `gathered` True.

    rows: the rows of each input, followed by the rows of the output."""
    while first < end:
        if pitches_of_rows(task, rows, first, end) is not None:
            yield TaskPiece(first, end, gathered=False)
            return
        reads = task.reads(first, first + 1)
        if _pitch(rows[0], *reads, task.in_row_bytes) is None:
            yield TaskPiece(first, first + 1, gathered=True)
            first += 1
            continue
        until = first + 1
        while until < end and pitches_of_rows(task, rows, first, until + 1) is not None:
            until += 1
        yield TaskPiece(first, until, gathered=False)
        first = until


def pitches_of_rows(
    task: Task, rows: Sequence[RowAddresses], first: int, end: int
) -> tuple[int, int, int] | None:
    """Return the row pitches in bytes, as (input, output, second input).

    Only the rows that are accessed to compute output rows [first, end) are considered.  The last
    pitch is 0 if there is no second input.  The result is None if the pitch in one of the tensors
    varies or is less than the size of a row.

    rows: the rows of each input, followed by the rows of the output."""
    source, *others, result = rows
    found = [
        _pitch(source, *task.reads(first, end), task.in_row_bytes),
        _pitch(result, first, end, task.out_row_bytes),
        *(_pitch(other, first, end, task.out_row_bytes) for other in others),
    ]
    pitches = [pitch for pitch in found if pitch is not None]
    if len(pitches) < len(found):
        return None
    return pitches[0], pitches[1], pitches[2] if others else 0


def _pitch(rows: RowAddresses, lower: int, upper: int, row_bytes: int) -> int | None:
    """Return the pitch of rows [lower, upper) of a tensor: the distance in bytes from row to row.

    The result is None if the pitch varies or is less than `row_bytes`, the size of a row.  For a
    single row, it is `row_bytes`."""
    steps = {b - a for a, b in pairwise(rows.between(lower, upper))} or {row_bytes}
    (step, *others) = steps
    return step if not others and step >= row_bytes else None
