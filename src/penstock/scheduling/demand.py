"""demand: what happens when consecutive parts of an order run as one cascade, on demand.

Each part whose output is needed behind the cascade computes its rows from the first to the last, a
stripe of at most `stripe` rows at a time.  Before a stripe, the rows that it needs and that are not
there yet are produced in the same way, by the parts of the cascade above it; so every row is
computed once, as late as possible.  Rows that nobody asks for are computed at the end.  A row is
alive from then until no part will read it again; a row that is read behind the cascade stays.

The loops are compiled (numba), for a search unfolds thousands of cascades of thousands of stripes.
A call of a compiled function counts references to all arrays that it is given, which may take more
time than what it does: the innermost loops call only what the compiler is seen to dissolve in them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.scheduling.memories import FINE
from penstock.scheduling.rows import RowParts

Numbers = npt.NDArray[np.int64]
WHOLE = 1 << 30
"""A stripe of this many rows is all of them."""
NO_CEILING = 1 << 60
MOST_SHARED = 6
"""Parts of a cascade that more than one part may ask for rows: the loops that produce them, and all
that they ask, are written out for each of those."""


class Tables(NamedTuple):
    """An order of parts, as arrays.  `p` is a position in it, `s` a storage, `e` a read.

    rows[s], row_bytes[s]; places[s]: how many rows there is room for, all or one;
    maker[s]: position of the part that computes it, -1: the caller;
    last[s]: last position that reads it, the number of parts: it stays to the end;
    written[p], whole[p], accumulates[p], scratch[p], call_cycles[p]; the parts of a cascade use
    the same scratch, one after the other;
    reads of p are e in [reads[p], reads[p + 1]), in the order in which they are asked for:
    storage[e], reader[e] = p, joint[e]: whether p may write each row over the same row of it;
    needed[table[e] + n], done[table[e] + n];
    reads of storage s are read[u] for u in [users[s], users[s + 1]);
    resident[p]: bytes of storages that are there before p and read at p or later.
    """

    rows: Numbers
    row_bytes: Numbers
    places: Numbers
    maker: Numbers
    last: Numbers
    written: Numbers
    whole: Numbers
    accumulates: Numbers
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


@lru_cache(maxsize=8)
def tables_of(
    row_parts: RowParts,
    order: tuple[int, ...],
    *,
    call_cycles: tuple[int, ...] | None = None,
    keep_inputs: bool,
    nearest_first: bool,
) -> Tables:
    """The arrays of parts in an order, of which schedules have many in common; `call_cycles`: by
    part, what each call of it adds; `nearest_first`: which reads of a part are asked for first, see
    Plan."""
    parts = [row_parts.row_parts[k] for k in order]
    storages = row_parts.storages
    count = len(parts)
    far = _ahead(row_parts, order)
    sign = 1 if nearest_first else -1
    asked = [sorted(part.reads, key=lambda read: sign * far[read.storage]) for part in parts]
    reads = [(read, p) for p, some in enumerate(asked) for read in some]
    storage = np.array([read.storage for read, _ in reads], np.int64)
    reader = np.array([p for _, p in reads], np.int64)
    maker = np.full(len(storages), -1, np.int64)
    maker[[part.written for part in parts]] = np.arange(count)
    last = np.full(len(storages), -1, np.int64)
    np.maximum.at(last, storage, reader)
    last[list((*row_parts.outputs, *(row_parts.inputs if keep_inputs else ())))] = count
    by_storage = np.argsort(storage, kind="stable")
    sizes = np.array([s.size_bytes for s in storages], np.int64)
    cycles = [0] * count if call_cycles is None else [call_cycles[k] for k in order]
    return Tables(
        rows=np.array([s.rows for s in storages], np.int64),
        row_bytes=np.array([s.row_bytes for s in storages], np.int64),
        places=np.array([s.places for s in storages], np.int64),
        maker=maker,
        last=last,
        written=np.array([part.written for part in parts], np.int64),
        whole=np.array([part.whole for part in parts], np.int64),
        accumulates=np.array([part.accumulates for part in parts], np.int64),
        scratch=np.array([part.scratch_bytes for part in parts], np.int64),
        call_cycles=np.array(cycles, np.int64),
        reads=_starts([len(some) for some in asked]),
        storage=storage,
        reader=reader,
        joint=np.array([read.in_place for read, _ in reads], np.int64),
        table=_starts([len(read.needed) for read, _ in reads]),
        needed=np.concatenate([*(read.needed for read, _ in reads), _NOTHING]).astype(np.int64),
        done=np.concatenate([*(read.done for read, _ in reads), _NOTHING]).astype(np.int64),
        users=np.searchsorted(storage[by_storage], np.arange(len(storages) + 1)).astype(np.int64),
        read=by_storage.astype(np.int64),
        resident=_resident(sizes, maker, last, count),
    )


def _resident(sizes: Numbers, maker: Numbers, last: Numbers, count: int) -> Numbers:
    """By position p up to the count, the bytes of storages that are made before it and read at it
    or later."""
    gained = np.zeros(count + 2, np.int64)
    np.add.at(gained, maker + 1, sizes)
    np.add.at(gained, np.maximum(maker, last) + 1, -sizes)
    return np.cumsum(gained)[: count + 1]


_NOTHING = np.zeros(1, np.int32)


def _starts(counts: list[int]) -> Numbers:
    """Where each of so many things begins, and where the last ends."""
    return np.append(0, np.cumsum(counts)).astype(np.int64)


def _ahead(row_parts: RowParts, order: tuple[int, ...]) -> list[float]:
    """By storage, how far its computation has read ahead of it, summed up from the inputs."""
    far = [0.0] * len(row_parts.storages)
    for k in order:
        part = row_parts.row_parts[k]
        far[part.written] = max((far[r.storage] + r.ahead for r in part.reads), default=0.0)
    return far


def choices(one: Tables, other: Tables) -> npt.NDArray[np.bool_]:
    """By position, whether two tables of one order ask for its reads in different orders."""
    differ = np.append(0, np.cumsum(one.storage != other.storage))
    return differ[one.reads[1:]] > differ[one.reads[:-1]]


def unfold(tables: Tables, lower: int, upper: int, stripe: int) -> Numbers:
    """The parts at positions [lower, upper) as one cascade, call by call: position of the part,
    rows [lower, upper) of its output, position of the part that asked for them (its own: none)."""
    most = int(tables.rows[tables.written[lower:upper]].sum())
    calls = np.empty((most, 4), np.int64)
    _, count, _ = _run(tables, lower, upper, stripe, NO_CEILING, calls)
    return calls[:count]


class Rivals(NamedTuple):
    """What is known of the cascades that a search has unfolded, for the stripes that it tries, from
    the highest to the lowest.

    least_cycles[k, p]: what calls add before position p, were they as few as stripes[k] allows;
    least_peak[u, n, k]: of what covers the n positions before u and has no more cycles than that,
    the least live bytes at the peak.
    """

    stripes: Numbers
    least_cycles: Numbers
    least_peak: Numbers


def rivals_of(tables: Tables, stripes: list[int], most_parts: int) -> Rivals:
    """What is known when each part alone has been run whole, in cascades of at most so many."""
    count = len(tables.written)
    rows = tables.rows[tables.written]
    heights = np.array(sorted(stripes, reverse=True), np.int64)
    calls = np.where(tables.whole, 1, -(-rows // heights[:, None]))
    before = np.zeros((len(heights), 1), np.int64)
    least_cycles = np.hstack([before, np.cumsum(calls * tables.call_cycles, axis=1)])
    least_peak = np.full((count + 1, min(most_parts, count) + 1, len(heights)), NO_CEILING)
    for p in range(count):
        least_peak[p + 1, 1] = whole(tables, p)[0]
    return Rivals(heights, least_cycles, least_peak)


def whole(tables: Tables, position: int) -> tuple[int, int]:
    """Live bytes at the peak, and cycles that its call adds, of a part that runs alone, whole."""
    peak, _, cycles = _run(tables, position, position + 1, WHOLE, NO_CEILING, _UNLISTED)
    return peak, cycles


def candidates(
    tables: Tables, lowers: range, upper: int, rivals: Rivals, *, prune: bool
) -> tuple[Numbers, int]:
    """The cascades [lower, upper), each a row of lower, stripe, live bytes at the peak, and cycles
    that its calls add; and, as a measure of the work, how many calls were made to find them.

    `prune`: without those that need no less than rivals, which are entered and made use of."""
    found = np.empty((len(lowers) * len(rivals.stripes), 4), np.int64)
    count, work = _candidates(tables, lowers.start, lowers.stop, upper, rivals, prune, found)
    return found[:count], work


_UNLISTED = np.empty((0, 4), np.int64)


def peaks_and_time(
    tables: Tables,
    lower: int,
    upper: int,
    calls: Numbers,
    home: Numbers,
    extra: Numbers,
    constants: Numbers,
    waits: Numbers,
    rooms: Numbers,
) -> tuple[Numbers, int] | None:
    """Live bytes at the peak of a cascade in each memory, and the time that its calls add, in fine
    units (`memories`); None where a peak is above its room.

    `home[s]`: memory of a storage; `extra`: bytes by memory that are alive all the time;
    `constants`: by position, time that reading constants adds to the first call, and to each other
    one; `waits`: by memory, time that a
    region adds to a call, and each of its bytes."""
    peaks, time, fits = _traffic(tables, lower, upper, calls, home, extra, constants, waits, rooms)
    return (peaks, int(time)) if fits else None


class Lives(NamedTuple):
    """When rows live: row r of storage s, at [starts[s] + r], is alive in ticks [born, dead), and
    lies where the same row of storage `over` lies, -1: in a place of its own.  Rows that share a
    place live as long as it is theirs.

    Tick 0 is the caller's who writes the inputs, tick k + 1 that of call k, the last one the
    caller's who reads the outputs."""

    starts: Numbers
    born: Numbers
    dead: Numbers
    over: Numbers


def lives_of(tables: Tables, cascades: list[tuple[int, int, Numbers]], home: Numbers) -> Lives:
    """Lives of all rows under cascades that cover the order: positions [lower, upper) and calls of
    each; `home[s]`: memory of a storage."""
    starts = _starts(tables.rows.tolist())
    born, dead, over = (np.full(starts[-1], value, np.int64) for value in (0, -1, -1))
    tick = 1
    for lower, upper, calls in cascades:
        _live(tables, lower, upper, calls, tick, home, starts, born, dead, over)
        tick += len(calls)
    for s in np.flatnonzero(tables.places < tables.rows):
        rows = slice(starts[s], starts[s + 1])
        born[rows], dead[rows] = born[starts[s]], dead[starts[s + 1] - 1]
    at_end = np.repeat(tables.last == len(tables.written), tables.rows)
    dead[at_end] = tick + 1
    return Lives(starts, born, np.maximum(dead, born + 1), over)


@compiled
def _begin(t: Tables, lower: int, upper: int) -> Numbers:
    """Rows that are there when a cascade begins, by storage that it reads."""
    produced = np.zeros(t.rows.shape[0], np.int64)
    for e in range(t.reads[lower], t.reads[upper]):
        if t.maker[t.storage[e]] < lower:
            produced[t.storage[e]] = t.rows[t.storage[e]]
    return produced


@compiled
def _missing(t: Tables, a: int, end: int, produced: Numbers) -> int:
    """The first read that lacks rows which part a needs for its rows up to `end`, or -1."""
    for e in range(t.reads[a], t.reads[a + 1]):
        if produced[t.storage[e]] < t.needed[t.table[e] + end]:
            return e
    return -1


@compiled
def _gone(t: Tables, lower: int, upper: int, s: int, produced: Numbers) -> int:
    """Rows of a storage that are there and that nobody reads again."""
    if t.last[s] >= upper:
        return 0
    gone = produced[s]
    for u in range(t.users[s], t.users[s + 1]):
        e = t.read[u]
        if t.reader[e] >= lower:
            gone = min(gone, t.done[t.table[e] + produced[t.written[t.reader[e]]]])
    return int(gone)


@compiled
def _taken(places: int, first: int, end: int) -> int:
    """Places that rows [first, end) take when they are made: none where they share one already."""
    return min(end, places) - min(first, places)


@compiled
def _left(shared: int, dead: int, gone: int) -> int:
    """Places that rows [dead, gone) leave when they die, if so many share theirs with the last."""
    return max(gone, shared) - max(dead, shared)


@compiled
def _joined(
    t: Tables,
    a: int,
    lower: int,
    upper: int,
    first: int,
    end: int,
    produced: Numbers,
    dead: Numbers,
    home: Numbers,
) -> int:
    """The storage whose dying rows the rows [first, end) of part a take over, or -1."""
    for e in range(t.reads[a], t.reads[a + 1]):
        source = t.storage[e]
        near = t.joint[e] and home[source] == home[t.written[a]]
        if near and dead[source] <= first and _gone(t, lower, upper, source, produced) >= end:
            return source
    return -1


@compiled
def _most_scratch(t: Tables, lower: int, upper: int) -> int:
    """What the parts of a cascade need that use one scratch."""
    most = 0
    for p in range(lower, upper):
        most = max(most, t.scratch[p])
    return most


@compiled
def _run(
    t: Tables, lower: int, upper: int, stripe: int, ceiling: int, calls: Numbers
) -> tuple[int, int, int]:
    """Peak of live bytes, number of calls and the cycles that they add; enters the calls, if there
    is room for any.  Gives up once the peak reaches the ceiling."""
    produced = _begin(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    home = np.zeros(t.rows.shape[0], np.int64)
    asked = np.empty(upper - lower + 1, np.int64)  # a stack of parts ..
    targets = np.empty(upper - lower + 1, np.int64)  # .. and how many of their rows are needed
    live = t.resident[lower] + _most_scratch(t, lower, upper)
    peak, count, cycles = live, 0, 0
    askers = np.full((2, upper - lower), -1, np.int64)
    for turn in range(2 * (upper - lower)):
        p = lower + turn % (upper - lower)
        if turn < upper - lower and lower <= t.last[t.written[p]] < upper:
            continue  # somebody in the cascade asks for it, perhaps not for all rows
        asked[0], targets[0] = p, t.rows[t.written[p]]
        depth = 1
        while depth > 0:
            a, target = asked[depth - 1], targets[depth - 1]
            s = t.written[a]
            first = int(produced[s])
            if first >= target:
                depth -= 1
                continue
            end = int(t.rows[s] if t.whole[a] else min(first + stripe, target))
            e = _missing(t, a, end, produced)
            if e >= 0:
                asked[depth], targets[depth] = t.maker[t.storage[e]], t.needed[t.table[e] + end]
                depth += 1
                continue
            asker = asked[max(depth - 2, 0)]
            if asker != a:
                askers[0 if askers[0, a - lower] in (-1, asker) else 1, a - lower] = asker
            if calls.shape[0] > 0:
                calls[count, 0], calls[count, 1] = a, first
                calls[count, 2], calls[count, 3] = end, asker
            count += 1
            cycles += t.call_cycles[a]
            produced[s] = end
            made = _taken(int(t.places[s]), first, end) * t.row_bytes[s]
            joined = _joined(t, a, lower, upper, first, end, produced, dead, home)
            peak = max(peak, live + (made if joined < 0 else 0))
            if peak >= ceiling:
                return int(peak), count, int(cycles)
            live += made
            for e in range(t.reads[a] - 1, t.reads[a + 1]):
                s = int(t.written[a] if e < t.reads[a] else t.storage[e])
                gone = _gone(t, lower, upper, s, produced)
                live -= _left(t.rows[s] - t.places[s], dead[s], gone) * t.row_bytes[s]
                dead[s] = gone
    shared = (askers[1] >= 0).sum()
    return int(peak) if shared <= MOST_SHARED else NO_CEILING, count, int(cycles)


@compiled
def _rival(known: Numbers, lower: int, upper: int, k: int) -> int:
    """Enters the least peak of two covers in the place of [lower, upper), and returns it."""
    least = known[upper, upper - lower, k]
    for middle in range(lower + 1, upper):
        pair = max(known[middle, middle - lower, k], known[upper, upper - middle, k])
        least = min(least, pair)
    known[upper, upper - lower, k] = least
    return int(least)


@compiled
def _candidates(
    t: Tables, least: int, most: int, upper: int, rivals: Rivals, prune: bool, found: Numbers
) -> tuple[int, int]:
    """Enters what `candidates` finds; how many there are, and how many calls were made."""
    unlisted = np.empty((0, 4), np.int64)
    known, cycles_before = rivals.least_peak, rivals.least_cycles
    count, work = 0, 0
    for lower in range(most - 1, least - 1, -1):
        for k in range(rivals.stripes.shape[0]):
            stripe = rivals.stripes[k]
            ceiling = _rival(known, lower, upper, k) if prune else NO_CEILING
            peak, made, cycles = _run(t, lower, upper, stripe, ceiling, unlisted)
            work += made
            if peak >= ceiling:
                continue
            found[count, 0], found[count, 1] = lower, stripe
            found[count, 2], found[count, 3] = peak, cycles
            count += 1
            for j in range(k, rivals.stripes.shape[0]):
                if cycles <= cycles_before[j, upper] - cycles_before[j, lower]:
                    known[upper, upper - lower, j] = min(known[upper, upper - lower, j], peak)
    return count, work


@compiled
def _live(
    t: Tables,
    lower: int,
    upper: int,
    calls: Numbers,
    tick: int,
    home: Numbers,
    starts: Numbers,
    born: Numbers,
    died: Numbers,
    over: Numbers,
) -> None:
    """Enters births, deaths and joints of a cascade whose first call is at `tick`."""
    produced = _begin(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        s = t.written[a]
        produced[s] = end
        joined = _joined(t, a, lower, upper, first, end, produced, dead, home)
        for r in range(first, end):
            born[starts[s] + r] = tick + k
            died[starts[s] + r] = tick + k + 1
            over[starts[s] + r] = joined
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            gone = _gone(t, lower, upper, s, produced)
            died[starts[s] + dead[s] : starts[s] + gone] = tick + k + 1
            dead[s] = gone


@compiled
def _reading(t: Tables, a: int, first: int, end: int, home: Numbers, waits: Numbers) -> int:
    """Time that reading adds to a call of part a for rows [first, end)."""
    time = 0
    for e in range(t.reads[a], t.reads[a + 1]):
        m = home[t.storage[e]]
        rows = t.needed[t.table[e] + end] - t.done[t.table[e] + first]
        if rows > 0:
            time += int(waits[m, 0] + rows * t.row_bytes[t.storage[e]] * waits[m, 1])
    if t.accumulates[a] and first > 0:
        m = home[t.written[a]]
        time += int(waits[m, 0] + t.row_bytes[t.written[a]] * waits[m, 1])
    return time


@compiled
def _traffic(
    t: Tables,
    lower: int,
    upper: int,
    calls: Numbers,
    home: Numbers,
    extra: Numbers,
    constants: Numbers,
    waits: Numbers,
    rooms: Numbers,
) -> tuple[Numbers, int, bool]:
    """See `peaks_and_time`; last, whether every peak fits.  The time may be negative, where an
    engine runs faster on tensors in another memory than the first."""
    produced = _begin(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    live = extra.copy()
    for s in range(t.rows.shape[0]):
        if t.maker[s] < lower <= t.last[s]:
            live[home[s]] += t.places[s] * t.row_bytes[s]
    live[0] += _most_scratch(t, lower, upper)
    peaks = live.copy()
    if (peaks > rooms).any():
        return peaks, 0, False
    time = 0
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        s = t.written[a]
        written = (end - first) * t.row_bytes[s]
        made = _taken(int(t.places[s]), first, end) * t.row_bytes[s]
        time += t.call_cycles[a] * FINE + constants[min(first, 1), a - lower]
        time += waits[home[s], 0] + written * waits[home[s], 1]
        time += _reading(t, a, first, end, home, waits)
        produced[s] = end
        if _joined(t, a, lower, upper, first, end, produced, dead, home) < 0:
            peaks[home[s]] = max(peaks[home[s]], live[home[s]] + made)
            if peaks[home[s]] > rooms[home[s]]:
                return peaks, 0, False
        live[home[s]] += made
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            gone = _gone(t, lower, upper, s, produced)
            live[home[s]] -= _left(t.rows[s] - t.places[s], dead[s], gone) * t.row_bytes[s]
            dead[s] = gone
    return peaks, time, True
