"""`RowTables` of an execution order in which chains run as single parts (compiled with Numba).

With these tables, `run_cascade` simulates cascades that contain chains.  The execution order and
its positions do not change.  The last part of a chain represents the whole chain.  Every other part
of the chain keeps its position, but in the tables it reads nothing, and its output has no memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled
from penstock.scheduling.simulate.row_tables import Numbers, RowTables
from penstock.scheduling.simulate.walk import run_cascade

Reals = npt.NDArray[np.float64]


class _Reads(NamedTuple):
    """The reads collected so far for the new tables, in arrays with space for further ones.

    A read is an edge from a storage to the part that reads it.  `RowTables` describes the arrays,
    except `used`.
    used: [number of reads, number of entries in use in each of `needed` and `done`].
    """

    storage: Numbers
    reader: Numbers
    joint: Numbers
    table: Numbers
    needed: Numbers
    done: Numbers
    used: Numbers


@compiled
def chain_tables(
    t: RowTables, end: Numbers, scratch: Numbers, call_cycles: Numbers, advance: Numbers
) -> RowTables:
    """Return the tables in which each chain is a single part, at the position of its last part.

    t: the tables in which all parts of the order run by themselves.
    end[p]: position of the last part of the chain that contains the part at p; p if no chain does.
        The output of a part that is not the last one of its chain is read only in the chain.
    scratch[p], call_cycles[p]: scratch bytes, and overhead of each call in cycles, of the part at p
        or of the chain that ends there.
    advance[s]: sort key of storage s.  In the result, the reads of each chain are in descending
        order of this key.  The key is the advance of the storage (`row_tables.advances`), negated
        if `t` was made for `Plan.nearest_first`; `row_tables` sorts other reads in the same way.
    """
    count = t.written.shape[0]
    last, row_bytes = t.last.copy(), t.row_bytes.copy()
    whole, late = t.whole.copy(), t.late.copy()
    joins = np.zeros(count, np.int64)
    for p in range(count):
        joins[end[p]] += 1
        if end[p] != p:
            s = t.written[p]
            last[s], row_bytes[s], whole[p], late[p] = -1, 0, 1, 0
    found = _initial_reads(t, end)
    reads = np.zeros(count + 1, np.int64)
    for p in range(count):
        reads[p] = found.used[0]
        if joins[p] > 1:
            _enter_chain(t, end, p, found, last)
            _sort_reads(found, int(reads[p]), advance)
        elif end[p] == p:
            _enter_part(t, p, found)
    most = found.used[0]
    reads[count] = most
    users, read = _users(t, found.storage[:most])
    return RowTables(
        t.rows,
        row_bytes,
        t.slots,
        t.behind,
        t.maker,
        last,
        t.written,
        whole,
        t.recurrent,
        late,
        t.on_request,
        t.first_rows,
        scratch,
        call_cycles,
        reads,
        found.storage[:most],
        found.reader[:most],
        found.joint[:most],
        found.table[:most],
        found.needed,
        found.done,
        users,
        read,
        t.resident,
    )


@compiled
def run_chains(
    t: RowTables,
    chains: Numbers,
    advance: Numbers,
    interval: tuple[int, int],
    stripe: int,
    calls: Numbers,
) -> tuple[int, int, int]:
    """Simulate a cascade that contains chains: `run_cascade` with the result of `chain_tables`.

    t: the tables in which all parts of the order run by themselves.
    chains: an array whose rows are the arguments `end`, `scratch` and `call_cycles` of
        `chain_tables`: where chains end, and what their calls need.
    advance[s]: sort key of a read of storage s (`chain_tables`).
    interval: (lower, upper): the cascade consists of the parts at positions [lower, upper).
    stripe: maximum number of rows per call.
    calls: output array for the calls (`run_cascade`); if it has length 0, no call is recorded.

    Returns the live bytes at the peak, the number of calls, and their overhead in cycles.
    """
    # One compiled function calls both: to convert the tables between Python and compiled code would
    # take as long as the simulation.
    tables = chain_tables(t, chains[0], chains[1], chains[2], advance)
    return run_cascade(tables, interval[0], interval[1], stripe, UNBOUNDED, calls)


@compiled
def chain_shares(calls: Numbers, last: int, lower: Reals, upper: Reals) -> Reals:
    """Return how often each part of a chain computes an element of its output, on average.

    The result has one entry per part: 1.0 if the part computes each element once, 1.5 if it
    computes half of them twice.  Times the cost of computing the output once, this is the cost
    of the part.
    calls[i, :3]: (position of the part, first row, end row) of call i of the cascade.  Calls of the
        whole chain have the position of its last part.
    last: position of the last part of the chain.
    lower, upper: the fields `lower` and `upper` of the chain's `ChainShape`.
    """
    found = np.zeros(lower.shape[0])
    for c in range(calls.shape[0]):
        if calls[c, 0] == last:
            for k in range(lower.shape[0]):
                found[k] += upper[k, calls[c, 2]] - lower[k, calls[c, 1]]
    return found


@compiled
def _initial_reads(t: RowTables, end: Numbers) -> _Reads:
    """Return a `_Reads` without reads, with space for the reads of all parts and chains.

    Its arrays `needed` and `done` (the rows that each read requires and releases) begin with the
    entries of `t`, which remain valid for parts outside of chains.  `_enter_chain` appends those of
    chains.

    end[p]: position of the last part of the chain that contains the part at p; p if no chain does.
    """
    old, most = t.needed.shape[0], t.storage.shape[0]
    entries = old
    for p in range(t.written.shape[0]):
        entries += (t.reads[p + 1] - t.reads[p]) * (t.rows[t.written[end[p]]] + 1)
    needed, done = np.empty(entries, np.int64), np.empty(entries, np.int64)
    needed[:old], done[:old] = t.needed, t.done
    numbers = np.zeros((4, most), np.int64)
    used = np.array([0, old])
    return _Reads(numbers[0], numbers[1], numbers[2], numbers[3], needed, done, used)


@compiled
def _enter_part(t: RowTables, p: int, found: _Reads) -> None:
    """Append to `found` the reads of the part at position `p`, which is in no chain."""
    for old in range(t.reads[p], t.reads[p + 1]):
        e = found.used[0]
        found.storage[e], found.reader[e] = t.storage[old], p
        found.joint[e], found.table[e] = t.joint[old], t.table[old]
        found.used[0] += 1


@compiled
def _enter_chain(t: RowTables, end: Numbers, last: int, found: _Reads, last_read: Numbers) -> None:
    """Append to `found` the reads of the chain whose last part is at position `last`.

    end[p]: position of the last part of the chain that contains the part at p; p if no chain does.
    last_read[s]: last position that reads storage s (`RowTables.last`).  This function updates the
        entries of the storages that the chain reads.
    """
    first = last
    for p in range(last):
        if end[p] == last:
            first = min(first, p)
    n = int(t.rows[t.written[last]]) + 1
    lower = np.full((last + 1 - first, n), UNBOUNDED)
    upper = np.zeros((last + 1 - first, n), np.int64)
    for i in range(n):
        lower[last - first, i], upper[last - first, i] = i, i
    begin = found.used[0]
    for k in range(last, first - 1, -1):
        if end[k] != last:
            continue
        for old in range(t.reads[k], t.reads[k + 1]):
            maker = t.maker[t.storage[old]]
            inner = first <= maker < last and end[maker] == last
            at = t.table[old]
            if inner:
                for i in range(n):
                    row, rows = t.done[at + lower[k - first, i]], t.needed[at + upper[k - first, i]]
                    lower[maker - first, i] = min(lower[maker - first, i], row)
                    upper[maker - first, i] = max(upper[maker - first, i], rows)
                continue
            e = _find_read(t.storage[old], begin, n, last, found)
            last_read[t.storage[old]] = max(last_read[t.storage[old]], last)
            mine = found.table[e]
            for i in range(n):
                row, rows = t.done[at + lower[k - first, i]], t.needed[at + upper[k - first, i]]
                found.done[mine + i] = min(found.done[mine + i], row)
                found.needed[mine + i] = max(found.needed[mine + i], rows)


@compiled
def _sort_reads(found: _Reads, begin: int, advance: Numbers) -> None:
    """Sort the reads of a chain by `advance`, in descending order.

    advance[s]: sort key of a read of storage s (`chain_tables`).
    """
    for e in range(begin + 1, found.used[0]):
        for k in range(e, begin, -1):
            one, other = found.storage[k - 1], found.storage[k]
            if advance[one] >= advance[other]:
                break
            found.storage[k - 1], found.storage[k] = other, one
            before, after = found.table[k - 1], found.table[k]
            found.table[k - 1], found.table[k] = after, before


@compiled
def _find_read(s: int, begin: int, n: int, last: int, found: _Reads) -> int:
    """Return the index in `found` of the read of storage `s` by a chain; add it if it is new.

    A read is an edge from a storage to the part that reads it.  The last part of the chain is the
    reader of all that the chain reads.
    """
    for e in range(begin, found.used[0]):
        if found.storage[e] == s:
            return e
    e = found.used[0]
    at = found.used[1]
    found.storage[e], found.reader[e], found.table[e] = s, last, at
    found.done[at : at + n], found.needed[at : at + n] = UNBOUNDED, 0
    found.used[0] += 1
    found.used[1] += n
    return int(e)


@compiled
def _users(t: RowTables, storage: Numbers) -> tuple[Numbers, Numbers]:
    """Return the arrays (users, read) of `RowTables`, which list the reads of each storage.

    The reads of storage s are read[u] for u in [users[s], users[s + 1]).
    storage[e]: index of the storage of read e.
    """
    users = np.zeros(t.users.shape[0], np.int64)
    for e in range(storage.shape[0]):
        users[storage[e] + 1] += 1
    users = np.cumsum(users)
    read = np.zeros(storage.shape[0], np.int64)
    place = users.copy()
    for e in range(storage.shape[0]):
        read[place[storage[e]]] = e
        place[storage[e]] += 1
    return users, read
