"""Row copies: tensors in slow memory that a cascade reads or writes in a ring in faster memory.

The copy engine copies the rows of a tensor that the cascade reads to the ring when the cascade
needs them (a copy in).  It copies the rows of a tensor that the cascade writes from the ring to the
tensor when they have been computed (a copy out).  A schedule represents a row copy as a `Part` of
the cascade that computes nothing: it reads the tensor and writes the ring, or it reads the ring and
writes the tensor.  The simulation of the cascade (`simulate/walk.py`) treats this part like
any other: rows are requested on demand, and the simulation determines the live ranges of the rows
of the ring.  The maximum number of live rows is the size of the ring.

With double buffering, a copy in copies the rows for the next call of the reader while the present
call computes.  A copy out always copies the rows of a call while the next call computes; without
double buffering, it would take longer than writing the rows to the slow memory.

    copy in rows for call 0                       call 0
    wait; copy in rows for call 1; call 0         copy out rows of call 0; call 1
    wait; copy in rows for call 2; call 1         wait; copy out rows of call 1; call 2
    ..                                            ..
                                                  wait; copy out rows of last call; wait
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.scheduling.model.rows import RowPart, RowParts, RowRead, Storage


@dataclass(frozen=True, slots=True)
class RowCopy:
    """A tensor that the parts of one cascade read or write in a ring in faster memory.

    tensor: name of the tensor.  If it is copied in, it is complete when the cascade begins.
    region: name of the memory region of the ring.
    overlapped: whether copies overlap with computation (double buffering); True for copies out.
    out: whether the cascade writes the tensor, so that its rows are copied out of the ring; if
        False, the cascade reads it.
    """

    tensor: str
    region: str
    overlapped: bool
    out: bool = False


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """A row copy that copies in: the storage that is copied, and the parts that read the ring.

    ring: name of the ring.
    storage: name of the storage of the tensor that is copied.
    readers: indices of the parts that read the ring.
    ahead_rows: with double buffering, the maximum number of output rows that a call computes; else
        0.  During a call of a reader, the copy engine copies the input rows that the reader needs
        for the `ahead_rows` output rows after those of the call.
    """

    ring: str
    storage: str
    readers: tuple[int, ...]
    ahead_rows: int


@dataclass(frozen=True, slots=True)
class RowsCopiedOut:
    """A row copy that copies out: the part that writes the ring, and the storage that is filled.

    ring: name of the ring, which the part computes instead of the original tensor.
    storage: name of the storage of the original tensor.
    writer: index of the part.
    pending_rows: the maximum number of rows to be copied at a time: the rows that a call computes
        are copied during the next call.
    """

    ring: str
    storage: str
    writer: int
    pending_rows: int


def with_copied_rows(rows: RowParts, copies: Sequence[CopiedRows | RowsCopiedOut]) -> RowParts:
    """Return which rows all parts read and write after row copies have been added to a graph.

    rows: which rows the parts read and write without the copies.
    copies: the row copies to add.  In the result, each copy is a further part.  These parts follow
        the others, in the order of `copies`.  The readers of a copy in read the ring instead of
        the tensor, and the writer of a copy out writes the ring instead of the tensor.
    """
    storages, parts = list(rows.storages), list(rows.row_parts)
    for copy in copies:
        if isinstance(copy, RowsCopiedOut):
            _add_copy_out(storages, parts, rows.number[copy.storage], copy)
            continue
        source, target = rows.number[copy.storage], len(storages)
        original = storages[source]
        ring = Storage(copy.ring, original.rows, original.row_bytes, contiguous=False)
        storages.append(ring)
        first_rows = 0
        for k in copy.readers:
            (read,) = (read for read in parts[k].reads if read.storage == source)
            others = tuple(other for other in parts[k].reads if other is not read)
            over = read.in_place and not storages[parts[k].written].contiguous
            copied = replace(read, storage=target, in_place=over)
            if copy.ahead_rows:
                first_rows = int(read.needed[min(copy.ahead_rows, len(read.needed) - 1)])
                others = (*others, _until_copied(read, ring.rows))
                copied = _requested_earlier(copied, copy.ahead_rows)
            parts[k] = replace(parts[k], reads=(*others, copied))
        every = np.arange(ring.rows + 1, dtype=np.int32)
        reads = (RowRead(source, every, every, in_place=False),)
        parts.append(RowPart(target, reads, False, False, 0, True, first_rows))
    return RowParts(tuple(storages), tuple(parts), rows.inputs, rows.outputs)


def _add_copy_out(
    storages: list[Storage], parts: list[RowPart], target: int, copy: RowsCopiedOut
) -> None:
    """Append the ring of a copy out to `storages`, and the part that copies the rows to `parts`.

    The part that writes the storage with index `target` (`copy.writer`) writes the ring instead."""
    ring, original = len(storages), storages[target]
    storages.append(Storage(copy.ring, original.rows, original.row_bytes, contiguous=False))
    parts[copy.writer] = replace(parts[copy.writer], written=ring)
    every = np.arange(original.rows + 1, dtype=np.int32)
    # Rows are released when the copy of the next rows starts.
    done = np.maximum(every - copy.pending_rows, 0)
    done[-1] = original.rows
    copied = RowRead(ring, every, done, in_place=False)
    parts.append(RowPart(target, (copied,), False, False, 0))


def _requested_earlier(read: RowRead, ahead_rows: int) -> RowRead:
    """Return a read like `read`, but one that requests input rows `ahead_rows` output rows earlier.

    With double buffering, each call thus requests the rows that the next call reads.  For the first
    n > 0 output rows, the result requires the input rows that `read` requires for the first
    n + `ahead_rows` output rows.
    """
    last = len(read.needed) - 1
    needed = read.needed[np.minimum(np.arange(last + 1) + ahead_rows, last)].copy()
    needed[0] = 0
    return replace(read, needed=needed)


def _until_copied(read: RowRead, rows: int) -> RowRead:
    """Return an additional read, which keeps each row of a copied tensor live until it is copied.

    With double buffering, a part that reads the ring gets this read of the copied tensor, besides
    its read of the ring.  The result requires no rows, so it causes no calls (`needed` is 0).  It
    keeps a row live until the part has computed the first output row that requires this row.
    """
    # Before the call that computes an output row, the processor waits until the rows that it
    # requires have been copied.
    done = read.needed.copy()
    done[-1] = rows
    return RowRead(read.storage, np.zeros_like(done), done, in_place=False)
