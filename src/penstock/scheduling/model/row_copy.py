"""Row copies: tensors in slow memory that a cascade reads from a ring in faster memory.

The copy engine copies the rows of the tensor to the ring when the cascade needs them.  A schedule
represents a row copy as a `Part` of the cascade that computes nothing: it reads the tensor and
writes the ring.  The simulation of the cascade (`simulate/execution.py`) treats this part like any
other: the readers request rows of the ring on demand, and the simulation determines the live ranges
of these rows.  The maximum number of live rows is the size of the ring.

With double buffering, the rows for the next call of the reader are copied while the present call
computes:

    copy rows for call 0
    wait; copy rows for call 1; call 0
    wait; copy rows for call 2; call 1
    ..
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.scheduling.model.rows import RowPart, RowParts, RowRead, Storage


@dataclass(frozen=True, slots=True)
class RowCopy:
    """A tensor that the parts of one cascade read from a ring in faster memory.

    tensor: name of the tensor, which is complete when the cascade begins.
    region: name of the memory region of the ring.
    overlapped: whether the rows for a call are copied during the previous call (double buffering).
    """

    tensor: str
    region: str
    overlapped: bool


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """A row copy in a graph: the storage that is copied, and the parts that read the copy.

    ring: name of the copy.
    storage: name of the storage of the tensor that is copied.
    readers: indices of the parts that read the copy.
    ahead_rows: with double buffering, the maximum number of output rows that a call computes; else
        0.  During a call of a reader, the copy engine copies the input rows that the reader needs
        for the `ahead_rows` output rows after those of the call.
    """

    ring: str
    storage: str
    readers: tuple[int, ...]
    ahead_rows: int


def with_copied_rows(rows: RowParts, copies: Sequence[CopiedRows]) -> RowParts:
    """Return which rows all parts read and write after row copies have been added to a graph.

    rows: which rows the parts read and write without the copies.
    copies: the row copies to add.  In the result, each copy is a further part.  These parts follow
        the others, in the order of `copies`.  The readers of a copy read it instead of the copied
        tensor.
    """
    storages, parts = list(rows.storages), list(rows.row_parts)
    for copy in copies:
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


def _requested_earlier(read: RowRead, ahead_rows: int) -> RowRead:
    """Return a read like `read`, but one that requests input rows earlier.

    For the first n > 0 output rows, the result requires the input rows that `read` requires for the
    first n + `ahead_rows` output rows.
    """
    last = len(read.needed) - 1
    needed = read.needed[np.minimum(np.arange(last + 1) + ahead_rows, last)].copy()
    needed[0] = 0
    return replace(read, needed=needed)


def _until_copied(read: RowRead, rows: int) -> RowRead:
    """Return a read that keeps each row of a copied tensor live until the row has been copied.

    With double buffering, a part that reads the copy gets this read in addition to the read of the
    copy itself.  It requests no rows.  After each output row, it releases the rows of the copied
    tensor that the output rows so far require.

    read: how the part would read the copied tensor without the copy.
    rows: number of rows of the copied tensor.
    """
    # Before the call that computes an output row, the processor waits until the rows that it
    # requires have been copied.
    done = read.needed.copy()
    done[-1] = rows
    return RowRead(read.storage, np.zeros_like(done), done, in_place=False)
