"""The walker: simulates the calls of a cascade, to find which rows are live when (with Numba).

A cascade runs on demand.  Each part whose output is needed outside the cascade computes its rows in
order, at most `stripe` rows per call; a call computes all rows, or some of one image.  Before a
call, the missing input rows are computed in the same way by other parts of the cascade, or all in
one call (`RowTables.at_once`, which also lets a part that runs alone compute several stripes).  So
every row is computed once, as late as possible.  Rows that no call requests are computed at the
end.  A row is live from its computation until its last read; a row that is read after the cascade
stays live.

Names that many functions share:

    t              the tables of the execution order (`row_tables.RowTables`)
    lower, upper   the cascade consists of the parts at positions [lower, upper) of the order
    a, s, e        position of a part; index of a storage; index of a read
    first, end     a call computes the rows [first, end) of its part's output
    calls[i]       (position of the part, first row, end row, position of the part that requested
                   the rows) of call i
    region[s]      index of the memory region of storage s
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.compiled import UNBOUNDED, compiled, compiled_in_place
from penstock.scheduling.model.memories import FINE
from penstock.scheduling.simulate.row_tables import Numbers, RowTables, starts

# All compiled functions are in one file, because Numba's cache does not notice changes in others.

WHOLE = 1 << 30
"""Stripe height that stands for all rows of any tensor."""
_NO_CALLS = np.empty((0, 4), np.int64)


class Progress(NamedTuple):
    """How far the cascade [lower, upper) has run.

    produced[s], dead[s]: how many of the first rows of storage s have been computed, and how many
        of these are no longer live.
    passed[p]: how many of the first output rows of the part at p no later call computes.
    wanted[p]: space for `missing_rows`: how many of these rows a call of its chain needs.
    requested: space for `_run_calls`: parts whose rows are requested, how many of their rows, and
        the parts of `enter_roots`.
    """

    lower: int
    upper: int
    region: Numbers
    produced: Numbers
    dead: Numbers
    passed: Numbers
    wanted: Numbers
    requested: Numbers


class Alternatives(NamedTuple):
    """Peaks of the cascades simulated so far.  With them, a search drops a candidate if other
    cascades run the same parts with no higher peak and no more call overhead.

    stripes[k]: stripe height k (maximum rows per call); the heights decrease.
    least_cycles[k, p]: call overhead, in cycles, of all parts before position p, if each part is a
        cascade of its own with height stripes[k].
    least_peak[u, n, k]: lowest known peak, in live bytes, of cascades that run parts [u - n, u) and
        whose call overhead is at most that of one cascade per part with height stripes[k].
    settled[u, n, k]: whether the cascade of parts [u - n, u) with height stripes[k] is known to
        have a peak of at least least_peak[u, n, k], with the row tables of this search.
    """

    stripes: Numbers
    least_cycles: Numbers
    least_peak: Numbers
    settled: npt.NDArray[np.bool_]

    def for_other_tables(self) -> Alternatives:
        """The same alternatives, for the cascades of other row tables of the same parts."""
        return self._replace(settled=np.zeros_like(self.settled))


class RowLiveRanges(NamedTuple):
    """The live range of every row of every storage, in ticks.

    starts: start of each storage in the other arrays: row r of storage s has index starts[s] + r.
    born, dead: the row is live in ticks [born, dead).
    over: for row r of a storage, the index of the storage whose row r it overwrites in place; -1
        if it overwrites none.

    If all rows of a storage share the memory of one row, each has the live range of that memory.

    Time is counted in ticks, one per call: at tick 0 the application writes the inputs, at tick
    k + 1 call k runs, and at the last tick the application reads the outputs.
    """

    starts: Numbers
    born: Numbers
    dead: Numbers
    over: Numbers


class AccessTimes(NamedTuple):
    """What a simulation must know of the accesses to each memory region m.

    each[k, m]: (time per access, time per byte), in 1/1024 cycle, that accesses add to the cost of
        a part: k = 0, or k = 1 if the cost includes accesses already.
    counted[a]: index k of part a.
    """

    each: Numbers
    counted: Numbers


@compiled
def begun(t: RowTables, lower: int, upper: int, region: Numbers) -> Progress:
    """A cascade before its first call: all rows that it reads and does not write are computed."""
    produced, passed = np.zeros(t.rows.shape[0], np.int64), np.zeros(t.written.shape[0], np.int64)
    dead, wanted = np.zeros_like(produced), np.zeros_like(passed)
    requested = np.empty((3, 3 * (upper - lower) + 1), np.int64)
    c = Progress(lower, upper, region, produced, dead, passed, wanted, requested)
    _begin(t, c)
    return c


@compiled_in_place
def _begin(t: RowTables, c: Progress) -> None:
    """Enter that no call has run, in all arrays that calls of the cascade access."""
    c.passed[c.lower : c.upper] = 0
    for p in range(c.lower, c.upper):
        c.produced[t.written[p]] = c.dead[t.written[p]] = 0
    for e in range(t.reads[c.lower], t.reads[c.upper]):
        s = t.storage[e]
        c.dead[s] = 0
        c.produced[s] = t.rows[s] if t.maker[s] < c.lower else 0
    for a in range(c.lower, c.upper):
        if t.begin[a] < a:
            enter_call(t, c, a, 0)


@compiled_in_place
def shared_scratch(t: RowTables, lower: int, upper: int) -> int:
    """The bytes of the scratch buffer of cascade [lower, upper): the most any part needs."""
    most = 0
    for p in range(lower, upper):
        most = max(most, t.scratch[p])
    return most


@compiled_in_place
def missing_rows(t: RowTables, c: Progress, a: int, end: int) -> tuple[int, int]:
    """The storage of which the part or chain at `a` lacks rows for its output rows below `end`, and
    how many of its first rows are needed; (-1, 0) if nothing is missing.

    Of several storages, it is the one of the highest `RowTables.priority`.
    """
    found, rows = -1, 0
    for p in range(t.begin[a], a):
        c.wanted[p] = 0
    c.wanted[a] = end
    for p in range(a, t.begin[a] - 1, -1):
        if t.end[p] != a:
            continue
        for e in range(t.reads[p], t.reads[p + 1]):
            s, needed = t.storage[e], t.needed[t.table[e] + c.wanted[p]]
            maker = t.maker[s]
            if maker >= t.begin[a] and t.end[maker] == a:
                c.wanted[maker] = max(c.wanted[maker], needed)
            elif needed > c.produced[s]:
                if found < 0 or t.priority[s] > t.priority[found]:
                    found, rows = s, 0
                if s == found:
                    rows = max(rows, needed)
    return int(found), int(rows)


@compiled_in_place
def enter_call(t: RowTables, c: Progress, a: int, end: int) -> None:
    """Enters that the output rows below `end` of the part or chain at `a` are computed."""
    c.produced[t.written[a]] = end
    c.passed[a] = end
    for p in range(t.begin[a], a):
        if t.end[p] == a:
            c.passed[p] = UNBOUNDED
    for p in range(a, t.begin[a], -1):
        if t.end[p] != a:
            continue
        for e in range(t.reads[p], t.reads[p + 1]):
            maker = t.maker[t.storage[e]]
            if maker >= t.begin[a] and t.end[maker] == a:
                c.passed[maker] = min(c.passed[maker], t.done[t.table[e] + c.passed[p]])


@compiled_in_place
def dead_rows(t: RowTables, c: Progress, s: int) -> int:
    """How many of the first rows of storage `s` are computed and not read again."""
    if t.last[s] >= c.upper:
        return 0
    # A recurrent part reads the row that it computed last.
    gone = max(0, c.produced[s] - (t.behind[s] if c.produced[s] < t.rows[s] else 0))
    for u in range(t.users[s], t.users[s + 1]):
        e = t.read[u]
        if t.reader[e] >= c.lower:
            gone = min(gone, t.done[t.table[e] + c.passed[t.reader[e]]])
    return int(gone)


@compiled_in_place
def slots_taken(slots: int, first: int, end: int) -> int:
    """How many slots (each for one row) become occupied when rows [first, end) are computed.

    slots: number of slots of the storage: one per row, or a single one that all rows share.
    """
    return min(end, slots) - min(first, slots)


@compiled_in_place
def slots_released(shared: int, dead: int, gone: int) -> int:
    """How many slots (each for one row) become free when rows [dead, gone) die.

    shared: rows minus slots of the storage: 0 if each row has its own slot, 9 if 10 rows share one.
        A shared slot becomes free when the last row dies: here, if [dead, gone) contains row 9.
    """
    return max(gone, shared) - max(dead, shared)


@compiled_in_place
def overwritten_storage(t: RowTables, c: Progress, a: int, first: int, end: int) -> int:
    """The storage whose rows [first, end) a call overwrites in place; -1 if there is none.

    `RowTables.joint` must permit this, the call must be the last reader of these rows, and input
    and output must be in the same memory region.  A chain overwrites nothing.
    """
    if t.begin[a] < a:
        return -1
    for e in range(t.reads[a], t.reads[a + 1]):
        source = t.storage[e]
        near = t.joint[e] and c.region[source] == c.region[t.written[a]]
        if near and c.dead[source] <= first and dead_rows(t, c, source) >= end:
            return source
    return -1


@compiled_in_place
def taken_bytes(t: RowTables, s: int, first: int, end: int) -> int:
    """The bytes that become occupied when rows [first, end) of storage `s` are computed."""
    return slots_taken(int(t.slots[s]), first, end) * t.row_bytes[s]


@compiled_in_place
def released_bytes(t: RowTables, s: int, dead: int, gone: int) -> int:
    """The bytes that become free when rows [dead, gone) of storage `s` die."""
    return slots_released(t.rows[s] - t.slots[s], dead, gone) * t.row_bytes[s]


@compiled_in_place
def enter_roots(t: RowTables, lower: int, upper: int, found: Numbers) -> int:
    """Enters the parts and chains of a cascade in the order in which it starts them.

    found: output, of length 3 * (upper - lower).  Returns their number."""
    count = 0
    for turn in range(3 * (upper - lower)):
        phase, p = turn // (upper - lower), lower + turn % (upper - lower)
        p = upper - 1 - (p - lower) if phase == 1 else p
        # its consumers in the cascade request its rows, perhaps not all of them
        is_requested = lower <= t.last[t.written[p]] < upper
        if t.end[p] == p and not (phase < 2 and is_requested) and not phase == 0 < t.late[p]:
            found[count] = p
            count += 1
    return count


@compiled_in_place
def call_end(t: RowTables, a: int, first: int, end: int) -> int:
    """Where a call ends that begins at row `first` and is to end at most at `end`."""
    rows = t.rows[t.written[a]]
    if t.whole[a] or end - first == rows:
        return int(rows)
    return int(min(end, first - first % t.image[a] + t.image[a]))


@compiled_in_place
def rows_within(t: RowTables, s: int, stripe: int, free: int, step: int) -> int:
    """The most rows of storage `s`, a multiple of `step`, that occupy `free` bytes."""
    # in bands of columns, tensors that are live in all of them have no bytes here
    is_one = t.slots[s] < t.rows[s] or t.row_bytes[s] == 0
    return stripe if is_one else max(step, int(free // t.row_bytes[s] // step * step))


@compiled_in_place
def _run_calls(
    t: RowTables, c: Progress, stripe: int, ceiling: int, calls: Numbers, room: int, step: int
) -> tuple[int, int, int]:
    """Simulates a cascade before its first call as `run_cascade` does.

    room: bytes that may be live; a call computes as many rows as they permit, a multiple of `step`,
        which may be a stripe or less.  0: a call computes `step` rows."""
    lower, upper = c.lower, c.upper
    stack, targets, started = c.requested[0], c.requested[1], c.requested[2]
    roots = enter_roots(t, lower, upper, started)
    live = t.resident[lower] + shared_scratch(t, lower, upper)
    peak, count, cycles = live, 0, 0
    for root in started[:roots]:
        stack[0], targets[0] = root, t.rows[t.written[root]]
        depth = 1
        while depth > 0:
            a, target = stack[depth - 1], targets[depth - 1]
            s = int(t.written[a])
            first = int(c.produced[s])
            if first >= target:
                depth -= 1
                continue
            is_requested = depth > 1 or lower <= t.last[s] < upper  # or left over at the end
            at_once = is_requested and t.at_once[a]
            most = UNBOUNDED - first if at_once else rows_within(t, s, stripe, room - live, step)
            end = call_end(t, a, first, min(first + most, target))
            lacking, rows = missing_rows(t, c, a, end)
            if lacking >= 0:
                stack[depth], targets[depth] = t.maker[lacking], rows
                depth += 1
                continue
            consumer = stack[max(depth - 2, 0)]
            if calls.shape[0] > 0:
                calls[count, 0], calls[count, 1] = a, first
                calls[count, 2], calls[count, 3] = end, consumer
            count += 1
            cycles += t.call_cycles[a]
            made = taken_bytes(t, s, first, end)
            enter_call(t, c, a, end)
            is_new = overwritten_storage(t, c, a, first, end) < 0
            peak = max(peak, live + (made if is_new else 0))
            if peak >= ceiling:
                return int(peak), count, int(cycles)
            live += made
            for p in range(a, t.begin[a] - 1, -1):
                if t.end[p] != a:
                    continue
                for e in range(t.reads[p] - (p == a), t.reads[p + 1]):
                    s = int(t.written[a] if e < t.reads[p] else t.storage[e])
                    gone = dead_rows(t, c, s)
                    live -= released_bytes(t, s, int(c.dead[s]), gone)
                    c.dead[s] = gone
    return int(peak), count, int(cycles)


@compiled
def run_cascade(
    t: RowTables, lower: int, upper: int, stripe: int, ceiling: int, calls: Numbers
) -> tuple[int, int, int]:
    """Simulates the parts at positions [lower, upper) as one cascade, in one memory region.

    Some of them may be in chains (`RowTables.end`); no other function simulates these.

    stripe: maximum number of rows per call, where `RowTables.at_once` permits no more.
    ceiling: stop when the live bytes reach this number, and return them as the peak.
    calls: receives the calls; if it has length 0, no call is recorded.

    Returns the live bytes at the peak, the number of calls, and their overhead in cycles."""
    region = np.zeros(t.rows.shape[0], np.int64)
    return _run_cascade(t, begun(t, lower, upper, region), stripe, ceiling, calls)


@compiled_in_place
def _run_cascade(
    t: RowTables, c: Progress, stripe: int, ceiling: int, calls: Numbers
) -> tuple[int, int, int]:
    """Simulates a cascade before its first call as `run_cascade` does."""
    room, step, p = 0, stripe, c.lower
    if c.upper - p == 1 and t.at_once[p] and stripe < t.rows[t.written[p]]:
        room = _run_calls(t, c, stripe, ceiling, calls[:0], 0, step)[0]
        if room >= ceiling:
            return room, 0, 0
        _begin(t, c)
        stripes = _run_calls(t, c, stripe, ceiling, calls[:0], room, step)[1]
        _begin(t, c)
        # whole stripes suit the accelerator's blocks, but fewer calls read constants less often
        step = 1 if _run_calls(t, c, stripe, ceiling, calls[:0], room, 1)[1] < stripes else stripe
        _begin(t, c)
    return _run_calls(t, c, stripe, ceiling, calls, room, step)


@compiled_in_place
def alternative_peak(known: Numbers, lower: int, upper: int, k: int) -> int:
    """The lowest known peak of a sequence of cascades that runs the parts [lower, upper).

    `enter_candidates` drops a single cascade of these parts whose peak is not lower.
    k: only sequences count whose call overhead is at most that of one cascade per part with height
        `Alternatives.stripes[k]`.  known: `Alternatives.least_peak`; the result is stored there.
    """
    least = known[upper, upper - lower, k]
    for middle in range(lower + 1, upper):
        pair = max(known[middle, middle - lower, k], known[upper, upper - middle, k])
        least = min(least, pair)
    known[upper, upper - lower, k] = least
    return int(least)


@compiled
def demanded(t: RowTables) -> npt.NDArray[np.bool_]:
    """For each storage, whether its readers together request all of its rows."""
    every = np.zeros(t.rows.shape[0], np.bool_)
    for s in range(t.rows.shape[0]):
        for u in range(t.users[s], t.users[s + 1]):
            e = t.read[u]
            rows = t.rows[t.written[t.reader[e]]]
            if t.needed[t.table[e] + rows] >= t.rows[s]:
                every[s] = True
    return every


@compiled_in_place
def enter_splits(
    t: RowTables,
    lower: int,
    upper: int,
    every: npt.NDArray[np.bool_],
    splits: npt.NDArray[np.bool_],
) -> bool:
    """Find positions m at which the cascade [lower, upper) runs as the cascade [lower, m) and then
    the cascade [m, upper), so that its peak is no lower than the higher one of theirs.

    That is so if no part of [m, upper) reads what one of [lower, m) writes, and if all rows of
    these are computed in the order of the positions.  In place of two scratch buffers, the cascade
    has one that suffices for both.

    every: result of `demanded`.  splits[m]: output.  Returns whether there is any.
    """
    for e in range(t.reads[lower], t.reads[upper]):
        s = t.storage[e]
        # During [lower, m), a longer cascade may release rows that only its later parts read.
        if t.maker[s] < lower and t.last[s] < upper and t.done[t.table[e]] > 0:
            return False
    any_found, farthest = False, lower
    for q in range(lower, upper - 1):
        s = t.written[q]
        if t.begin[q] < q or t.end[q] > q:
            break
        is_requested = t.last[s] < upper
        if not (every[s] if is_requested else t.late[q] == 0):
            break
        for u in range(t.users[s], t.users[s + 1]):
            reader = t.reader[t.read[u]]
            if reader < upper:
                farthest = max(farthest, reader)
        if farthest <= q:
            splits[q + 1] = any_found = True
    return any_found


@compiled_in_place
def is_sequence(
    settled: npt.NDArray[np.bool_], lower: int, upper: int, k: int, splits: npt.NDArray[np.bool_]
) -> bool:
    """Whether a cascade is no better than two settled ones, see `enter_splits`."""
    for m in range(lower + 1, upper):
        if splits[m] and settled[m, m - lower, k] and settled[upper, upper - m, k]:
            return True
    return False


@compiled
def enter_candidates(
    t: RowTables,
    least: int,
    most: int,
    upper: int,
    alternatives: Alternatives,
    prune: bool,
    found: Numbers,
) -> tuple[int, int]:
    """Simulates the cascade [lower, upper) for each lower in [least, most) and each stripe height.

    alternatives: the stripe heights, and the peaks known so far; this function updates the peaks.
    prune: drop a candidate if a known sequence of cascades runs the same parts with no higher peak
        and no more call overhead.
    found: output array, which receives (lower, stripe height, live bytes at the peak, call overhead
        in cycles) for each candidate that is not dropped.

    Returns the number of candidates written to `found`, and the number of simulated calls.
    """
    unlisted = np.empty((0, 4), np.int64)
    known, cycles_before = alternatives.least_peak, alternatives.least_cycles
    settled, every = alternatives.settled, demanded(t)
    count, work = 0, 0
    space = begun(t, least, upper, np.zeros(t.rows.shape[0], np.int64))
    for lower in range(most - 1, least - 1, -1):
        c = Progress(lower, upper, *space[2:])
        splits = np.zeros(upper, np.bool_)
        can_split = prune and enter_splits(t, lower, upper, every, splits)
        for k in range(alternatives.stripes.shape[0]):
            stripe = alternatives.stripes[k]
            ceiling = alternative_peak(known, lower, upper, k) if prune else UNBOUNDED
            if can_split and is_sequence(settled, lower, upper, k, splits):
                settled[upper, upper - lower, k] = True
                continue
            _begin(t, c)
            peak, made, cycles = _run_cascade(t, c, stripe, ceiling, unlisted)
            work += made
            settled[upper, upper - lower, k] = prune
            if peak >= ceiling:
                continue
            found[count, 0], found[count, 1] = lower, stripe
            found[count, 2], found[count, 3] = peak, cycles
            count += 1
            for j in range(k, alternatives.stripes.shape[0]):
                if cycles <= cycles_before[j, upper] - cycles_before[j, lower]:
                    known[upper, upper - lower, j] = min(known[upper, upper - lower, j], peak)
            settled[upper, upper - lower, k] = known[upper, upper - lower, k] <= peak
    return count, work


@compiled_in_place
def enter_live_ranges(
    t: RowTables,
    lower: int,
    upper: int,
    calls: Numbers,
    tick: int,
    region: Numbers,
    ranges: RowLiveRanges,
) -> None:
    """Enters the live ranges of the rows that a cascade computes or reads.

    The first call runs at `tick`."""
    c = begun(t, lower, upper, region)
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        enter_call(t, c, a, end)
        overwritten = overwritten_storage(t, c, a, first, end)
        begin = ranges.starts[t.written[a]]
        for r in range(begin + first, begin + end):
            ranges.born[r], ranges.dead[r] = tick + k, tick + k + 1
            ranges.over[r] = overwritten
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            begin, gone = ranges.starts[s], dead_rows(t, c, s)
            ranges.dead[begin + c.dead[s] : begin + gone] = tick + k + 1
            c.dead[s] = gone


@compiled_in_place
def read_time(
    t: RowTables, a: int, first: int, end: int, region: Numbers, access_times: Numbers
) -> int:
    """The time, in 1/1024 cycle, that a call's reads take, without constants."""
    time = 0
    for e in range(t.reads[a], t.reads[a + 1]):
        m = region[t.storage[e]]
        rows = t.needed[t.table[e] + end] - t.done[t.table[e] + first]
        if rows > 0:
            time += int(access_times[m, 0] + rows * t.row_bytes[t.storage[e]] * access_times[m, 1])
    if t.recurrent[a] and first > 0:
        m = region[t.written[a]]
        time += int(access_times[m, 0] + t.row_bytes[t.written[a]] * access_times[m, 1])
    return time


@compiled
def run_with_traffic(
    t: RowTables,
    lower: int,
    upper: int,
    calls: Numbers,
    region: Numbers,
    constants: Numbers,
    access_times: AccessTimes,
) -> tuple[Numbers, int]:
    """Simulates the calls of a cascade to find its live bytes and its added time.

    constants: array of shape (2, upper - lower): the times that the first, and each later call of
        a part adds.  They cover reading the part's constants, and the change of its computing time
        (possibly negative) if operands are outside the default region.

    Returns (peaks, added time).  peaks[m]: by how many bytes the cascade exceeds, at the peak in
    region m, the tensors that are live before it.  Added time: run time minus computing time with
    all operands in the default region, in 1/1024 cycle: the overhead of the calls, `constants`, and
    the accesses to tensors other than constants.
    """
    live = np.zeros(access_times.each.shape[1], np.int64)
    live[0] = shared_scratch(t, lower, upper)
    c, peaks, time = begun(t, lower, upper, region), live.copy(), 0
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        s = int(t.written[a])
        m = region[s]
        written = (end - first) * t.row_bytes[s]
        time += t.call_cycles[a] * FINE + constants[min(first, 1), a - lower]
        times = access_times.each[access_times.counted[a]]
        time += times[m, 0] + written * times[m, 1]
        time += read_time(t, a, first, end, region, times)
        made = taken_bytes(t, s, first, end)
        enter_call(t, c, a, end)
        if overwritten_storage(t, c, a, first, end) < 0:
            peaks[m] = max(peaks[m], live[m] + made)
        live[m] += made
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            gone = dead_rows(t, c, s)
            live[region[s]] -= released_bytes(t, s, int(c.dead[s]), gone)
            c.dead[s] = gone
    return peaks, time


def expand(tables: RowTables, lower: int, upper: int, stripe: int) -> Numbers:
    """The calls of the parts at positions [lower, upper), interleaved as one cascade."""
    most = int(tables.rows[tables.written[lower:upper]].sum())
    calls = np.empty((most, 4), np.int64)
    _, count, _ = run_cascade(tables, lower, upper, stripe, UNBOUNDED, calls)
    return calls[:count]


def row_live_ranges(
    tables: RowTables, cascades: Sequence[tuple[int, int, Numbers]], region: Numbers
) -> RowLiveRanges:
    """The live ranges of all rows under a schedule, and which rows they overwrite in place.

    cascades: (lower, upper, calls) of each cascade, in execution order; together, the cascades
        cover the order.
    """
    first = starts(tables.rows.tolist())
    born, dead, over = (np.full(first[-1], value, np.int64) for value in (0, -1, -1))
    ranges = RowLiveRanges(first, born, dead, over)
    tick = 1
    for lower, upper, calls in cascades:
        enter_live_ranges(tables, lower, upper, calls, tick, region, ranges)
        tick += len(calls)
    for s in np.flatnonzero(tables.slots < tables.rows):
        rows = slice(first[s], first[s + 1])
        born[rows], dead[rows] = born[first[s]], dead[first[s + 1] - 1]
    at_end = np.repeat(tables.last == len(tables.written), tables.rows)
    dead[at_end] = tick + 1
    return ranges._replace(dead=np.maximum(dead, born + 1))


def initial_alternatives(tables: RowTables, stripes: list[int], most_parts: int) -> Alternatives:
    """The table of known peaks with which a search begins.

    It contains the peak of each part that runs alone, in a single call.  All other peaks are
    unknown (`UNBOUNDED`).
    stripes: stripe heights (maximum rows per call) that the search tries.
    most_parts: maximum number of parts in a cascade.
    """
    count = len(tables.written)
    rows = tables.rows[tables.written]
    heights = np.array(sorted(stripes, reverse=True), np.int64)
    images = rows // tables.image
    each = images * -(-tables.image // np.minimum(tables.image, heights[:, None]))
    calls = np.where(tables.whole | (heights[:, None] >= rows), 1, each)
    before = np.zeros((len(heights), 1), np.int64)
    least_cycles = np.hstack([before, np.cumsum(calls * tables.call_cycles, axis=1)])
    least_peak = np.full((count + 1, min(most_parts, count) + 1, len(heights)), UNBOUNDED)
    for p in range(count):
        least_peak[p + 1, 1] = run_whole(tables, p)[0]
    return Alternatives(heights, least_cycles, least_peak, np.zeros(least_peak.shape, np.bool_))


def run_whole(tables: RowTables, position: int) -> tuple[int, int]:
    """The live bytes at the peak, and the call overhead in cycles, of one part in a single call."""
    peak, _, cycles = run_cascade(tables, position, position + 1, WHOLE, UNBOUNDED, _NO_CALLS)
    return peak, cycles


def candidates(
    tables: RowTables, lowers: range, upper: int, alternatives: Alternatives, *, prune: bool
) -> tuple[Numbers, int]:
    """Simulates the cascade [lower, upper) for each `lower` of a range with step 1, and each stripe
    height.

    alternatives: the stripe heights, and the peaks of the cascades simulated so far; this function
        adds those of the candidates.
    prune: whether to drop a candidate if its parts run with no higher peak and no more call
        overhead in a cascade, or a sequence of cascades, that has been simulated before.

    Returns an array, and the number of simulated calls as a measure of work.  The array has one row
    for each candidate that is not dropped: (lower, stripe height, live bytes at the peak, call
    overhead in cycles).
    """
    found = np.empty((len(lowers) * len(alternatives.stripes), 4), np.int64)
    count, work = enter_candidates(
        tables, lowers.start, lowers.stop, upper, alternatives, prune, found
    )
    return found[:count], work
