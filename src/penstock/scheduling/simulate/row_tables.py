"""RowTables: the parts of an execution order as arrays, for the row-by-row simulation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.scheduling.model.access import RowPart, RowParts, Storage

Numbers = npt.NDArray[np.int64]
_ZERO = np.zeros(1, np.int32)


class RowTables(NamedTuple):
    """The parts of an execution order and what they read, as arrays.

    Indices: `p` is a position in the order, `s` a storage, `e` a read (an edge from a storage to
    the part that reads it).  All arrays are int64, except
    `priority`.

    By storage:
    rows[s], row_bytes[s]: number of rows, and bytes of a row.
    slots[s]: number of rows that memory holds: all, or 1 if each row overwrites the previous one.
    behind[s]: number of rows that must be live to compute the next row of the storage: 1 (the
        previous row) if the part that writes the storage is recurrent, else 0.
    priority[s]: if a call lacks rows of several storages, those of the highest are computed first.
    maker[s]: position of the part that writes the storage, or -1 for a network input.
    last[s]: last position that reads the storage, or -1 if none does; the number of parts if the
        storage must survive the run.
    users[s]: the reads of the storage are read[u] for u in [users[s], users[s + 1]).

    By position:
    written[p]: storage that the part writes.
    whole[p]: 1 if the part computes all output rows in one call, else 0.
    image[p]: output rows of an image of the part (`op.image_rows`).
    recurrent[p]: 1 if each output row of the part depends on the previous one, else 0.
    late[p]: 1 if the part reads no row in the first half of one of its inputs, else 0 (`_is_late`).
        Its first call then requires more than half of this input.  The simulation of a cascade
        starts the parts whose outputs are read after the cascade; the other parts run when their
        rows are requested.  It starts the parts that are not late first, in order of p, and then
        the late ones, in descending order of p.
    at_once[p]: 1 if the part computes all rows that a call lacks in one call, even if they are more
        than a stripe, and several stripes in a call if it runs alone (`Plan.whole_requests`);
        else 0.
    scratch[p]: scratch bytes of the part's kernel that needs the least.
    call_cycles[p]: overhead of each call, in cycles.
    reads[p]: the part has the reads e in [reads[p], reads[p + 1]).  If several reads lack rows,
        the rows are computed in the order of the reads (`Plan.nearest_first`).
    resident[p]: bytes of the storages that are written before p and read at p or later.
    begin[p], end[p]: positions of the first and the last part of the chain that contains the part
        at p; p if no chain does.  The last part stands for the whole chain: `scratch` and
        `call_cycles` are there those of a call of the chain, which also computes the rows of the
        other parts that it needs.  These are in no memory when the call ends.

    By read:
    storage[e], reader[e]: the storage, and the position of the part that reads it.
    joint[e]: 1 if each output row r may overwrite row r of the storage, else 0.
    table[e]: start of the read's entries in `needed` and `done`.
    needed[table[e] + n]: the first n output rows require this many first rows of the storage.
    done[table[e] + n]: after n output rows, this many first rows of the storage are not read again.
    """

    rows: Numbers
    row_bytes: Numbers
    slots: Numbers
    behind: Numbers
    priority: npt.NDArray[np.float64]
    maker: Numbers
    last: Numbers
    written: Numbers
    whole: Numbers
    image: Numbers
    recurrent: Numbers
    late: Numbers
    at_once: Numbers
    scratch: Numbers
    call_cycles: Numbers
    reads: Numbers
    storage: Numbers
    reader: Numbers
    joint: Numbers
    table: Numbers
    needed: Numbers
    done: Numbers
    users: Numbers
    read: Numbers
    resident: Numbers
    begin: Numbers
    end: Numbers


@lru_cache(maxsize=8)
def row_tables(
    row_parts: RowParts,
    order: tuple[int, ...],
    *,
    call_cycles: tuple[int, ...] | None = None,
    keep_inputs: bool,
    nearest_first: bool,
) -> RowTables:
    """Return the `RowTables` of an execution order, given as indices of parts.

    Results are memoised, since the schedules of a frontier use only a few different orders.

    call_cycles: overhead of each call in cycles, by part index; None: zero.
    keep_inputs: whether the network's inputs must not be overwritten.
    nearest_first: the order in which the missing rows of several inputs of a call are computed.
        True: the input of lowest advance first, which is nearest to the network's inputs.  False:
        the input of highest advance first.  The advance of a tensor is high if its first few rows
        already require many rows of the network's inputs (`advances`).
    """
    parts = [row_parts.row_parts[k] for k in order]
    storages = row_parts.storages
    count = len(parts)
    priority = np.array(advances(row_parts, order)) * (-1 if nearest_first else 1)
    sorted_reads = [sorted(part.reads, key=lambda read: -priority[read.storage]) for part in parts]
    reads = [(read, p) for p, some in enumerate(sorted_reads) for read in some]
    storage = np.array([read.storage for read, _ in reads], np.int64)
    reader = np.array([p for _, p in reads], np.int64)
    maker = np.full(len(storages), -1, np.int64)
    written = np.array([part.written for part in parts], np.int64)
    maker[written] = np.arange(count)
    recurrent = np.array([part.recurrent for part in parts], np.int64)
    behind = np.zeros(len(storages), np.int64)
    behind[written] = recurrent
    last = np.full(len(storages), -1, np.int64)
    np.maximum.at(last, storage, reader)
    last[list((*row_parts.outputs, *(row_parts.inputs if keep_inputs else ())))] = count
    by_storage = np.argsort(storage, kind="stable")
    sizes = np.array([s.size_bytes for s in storages], np.int64)
    cycles = [0] * count if call_cycles is None else [call_cycles[k] for k in order]
    return RowTables(
        rows=np.array([s.rows for s in storages], np.int64),
        row_bytes=np.array([s.row_bytes for s in storages], np.int64),
        slots=np.array([s.slots for s in storages], np.int64),
        behind=behind,
        priority=priority,
        maker=maker,
        last=last,
        written=written,
        whole=np.array([part.whole for part in parts], np.int64),
        image=np.array([part.image_rows for part in parts], np.int64),
        recurrent=recurrent,
        late=np.array([_is_late(part, storages) for part in parts], np.int64),
        at_once=np.zeros(count, np.int64),
        scratch=np.array([part.scratch_bytes for part in parts], np.int64),
        call_cycles=np.array(cycles, np.int64),
        reads=starts([len(some) for some in sorted_reads]),
        storage=storage,
        reader=reader,
        joint=np.array([read.in_place for read, _ in reads], np.int64),
        table=starts([len(read.needed) for read, _ in reads]),
        needed=np.concatenate([*(read.needed for read, _ in reads), _ZERO]).astype(np.int64),
        done=np.concatenate([*(read.done for read, _ in reads), _ZERO]).astype(np.int64),
        users=np.searchsorted(storage[by_storage], np.arange(len(storages) + 1)).astype(np.int64),
        read=by_storage.astype(np.int64),
        resident=_resident_bytes(sizes, maker, last, count),
        begin=np.arange(count),
        end=np.arange(count),
    )


def with_whole_requests(tables: RowTables) -> RowTables:
    """Return the tables for plans with `Plan.whole_requests`."""
    return tables._replace(at_once=np.ones_like(tables.at_once))


def _is_late(part: RowPart, storages: Sequence[Storage]) -> bool:
    """Return whether a part never reads the first half of the rows of one of its inputs.

    If so, a cascade requests the output of the part after its other outputs.  Inputs of a single
    row do not count.  For example, the result is True for a part that reads only rows 6 to 9 of an
    input of 10 rows, even if it reads all rows of its other inputs.
    """
    return any(2 * int(read.done[0]) >= storages[read.storage].rows > 1 for read in part.reads)


def starts(counts: list[int]) -> Numbers:
    """Return the start index of each of several consecutive intervals, and the end of the last one.

    counts: number of items in each interval.  For [2, 3], the result is [0, 2, 5].
    """
    return np.append(0, np.cumsum(counts)).astype(np.int64)


def read_order_differs(one: RowTables, other: RowTables) -> npt.NDArray[np.bool_]:
    """Compare the orders in which two tables list the reads of each part.

    The result is True at the positions of the parts whose reads have different orders.  For a
    cascade of other parts, searches need not try both tables.
    one, other: tables of the same execution order, with different values of `nearest_first`.
    """
    differ = np.append(0, np.cumsum(one.storage != other.storage))
    return differ[one.reads[1:]] > differ[one.reads[:-1]]


def _resident_bytes(sizes: Numbers, maker: Numbers, last: Numbers, count: int) -> Numbers:
    """Return the bytes of the storages that are live at each position p of the execution order.

    These are the storages written before p and read at p or later.  The result has an entry for
    each p in [0, count].  Network inputs count as written before 0, and storages that must survive
    the run as read at `count`.
    maker[s]: position of the part that writes storage s, or -1 for a network input.
    last[s]: position of its last reader; -1 if none, `count` if it must survive the run.
    """
    gained = np.zeros(count + 2, np.int64)
    np.add.at(gained, maker + 1, sizes)
    np.add.at(gained, np.maximum(maker, last) + 1, -sizes)
    return np.cumsum(gained)[: count + 1]


def advances(row_parts: RowParts, order: tuple[int, ...]) -> list[float]:
    """Return the advance of each storage, by which `row_tables` sorts the reads of each part.

    The advance is high if the first rows of the storage already require many rows of the network's
    inputs.  It is 0 for a network input.  For any other storage, it is the largest sum of
    `RowRead.advance` along a path of reads from a network input to the storage.
    order: the execution order, as indices of the parts.
    """
    found = [0.0] * len(row_parts.storages)
    for k in order:
        part = row_parts.row_parts[k]
        found[part.written] = max((found[r.storage] + r.advance for r in part.reads), default=0.0)
    return found
