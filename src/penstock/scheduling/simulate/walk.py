"""Compiled (numba) loops that simulate the calls of cascades, to find which rows are live when.

All are in one file, because numba's cache does not notice changes of functions in other files.
A call of a compiled function updates the reference counts of its array arguments.  This may take
longer than the function body, so the innermost loops only call functions that the compiler inlines.

Parameters that many functions share:

    t              the tables of the execution order (`row_tables.RowTables`)
    lower, upper   the cascade consists of the parts at positions [lower, upper) of the order
    a, s, e        position of a part; index of a storage; index of a read
    first, end     a call computes the rows [first, end) of its part's output
    produced[s]    number of rows of storage s that have been computed
    dead[s]        how many of the first rows of storage s are no longer live
    region[s]      index of the memory region of storage s
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.compiled import UNBOUNDED, compiled
from penstock.scheduling.model.memories import FINE
from penstock.scheduling.simulate.row_tables import Numbers, RowTables


class Alternatives(NamedTuple):
    """Peaks of the cascades simulated so far.  With them, a search drops a candidate if other
    cascades run the same parts with no higher peak and no more call overhead.

    stripes[k]: stripe height k (maximum rows per call); the heights decrease.
    least_cycles[k, p]: call overhead, in cycles, of all parts before position p, if each part is a
        cascade of its own with height stripes[k].
    least_peak[u, n, k]: lowest known peak, in live bytes, of cascades that run parts [u - n, u) and
        whose call overhead is at most that of one cascade per part with height stripes[k].
    """

    stripes: Numbers
    least_cycles: Numbers
    least_peak: Numbers


@compiled
def initial_rows(t: RowTables, lower: int, upper: int) -> Numbers:
    """Return how many rows of each storage are computed before the cascade [lower, upper) begins.

    These are all rows if the cascade reads the storage and does not write it, else none.
    """
    produced = np.zeros(t.rows.shape[0], np.int64)
    for e in range(t.reads[lower], t.reads[upper]):
        if t.maker[t.storage[e]] < lower:
            produced[t.storage[e]] = t.rows[t.storage[e]]
    return produced


@compiled
def missing_read(t: RowTables, a: int, end: int, produced: Numbers) -> int:
    """Return the index of the first read that requires rows not yet computed; -1 if there is none.

    A read is an edge in `RowTables` from an input storage to the part at position `a`.
    end: the part is to compute its output rows below `end`.
    produced[s]: number of rows of storage s that have been computed.
    """
    for e in range(t.reads[a], t.reads[a + 1]):
        if produced[t.storage[e]] < t.needed[t.table[e] + end]:
            return e
    return -1


@compiled
def dead_rows(t: RowTables, lower: int, upper: int, s: int, produced: Numbers) -> int:
    """Return how many of the first rows of storage `s` are computed and not read again.

    0 if parts after the cascade read the storage.  If a recurrent part writes the storage, the row
    computed last is not counted while further rows are to be computed.
    lower, upper: positions [lower, upper) of the cascade that runs.
    produced[s]: number of rows of storage s that have been computed.
    """
    if t.last[s] >= upper:
        return 0
    gone = max(0, produced[s] - (t.behind[s] if produced[s] < t.rows[s] else 0))
    for u in range(t.users[s], t.users[s + 1]):
        e = t.read[u]
        if t.reader[e] >= lower:
            gone = min(gone, t.done[t.table[e] + produced[t.written[t.reader[e]]]])
    return int(gone)


@compiled
def slots_taken(slots: int, first: int, end: int) -> int:
    """Return how many slots (each for one row) become occupied when rows [first, end) are computed.

    slots: number of slots of the storage: one per row, or a single one that all rows share.
    """
    return min(end, slots) - min(first, slots)


@compiled
def slots_released(shared: int, dead: int, gone: int) -> int:
    """Return how many slots (each for one row) become free when rows [dead, gone) die.

    shared: rows minus slots of the storage: 0 if each row has its own slot, 9 if 10 rows share one.
        A shared slot becomes free when the last row dies: here, if [dead, gone) contains row 9.
    """
    return max(gone, shared) - max(dead, shared)


@compiled
def overwritten_storage(
    t: RowTables,
    a: int,
    lower: int,
    upper: int,
    first: int,
    end: int,
    produced: Numbers,
    dead: Numbers,
    region: Numbers,
) -> int:
    """Return the index of the storage that a call overwrites in place; -1 if there is none.

    The call, in the cascade [lower, upper), computes rows [first, end) of the part at position `a`.
    It overwrites the same rows of an input if `RowTables.joint` permits this, if it is the last
    reader of these rows, and if input and output are in the same memory region.
    produced[s], dead[s]: how many rows of storage s have been computed, and how many are dead.
    region[s]: index of the memory region of storage s.
    """
    for e in range(t.reads[a], t.reads[a + 1]):
        source = t.storage[e]
        near = t.joint[e] and region[source] == region[t.written[a]]
        if near and dead[source] <= first and dead_rows(t, lower, upper, source, produced) >= end:
            return source
    return -1


@compiled
def shared_scratch(t: RowTables, lower: int, upper: int) -> int:
    """Return the bytes of the scratch buffer of cascade [lower, upper): the most any part needs."""
    most = 0
    for p in range(lower, upper):
        most = max(most, t.scratch[p])
    return most


@compiled
def run_cascade(
    t: RowTables, lower: int, upper: int, stripe: int, ceiling: int, calls: Numbers
) -> tuple[int, int, int]:
    """Simulate the parts at positions [lower, upper) as one cascade.

    stripe: maximum number of rows per call.
    ceiling: stop when the live bytes reach this number, and return them as the peak.
    calls: output array with an entry for each call: (position of the part, first row, end row,
        position of the part that requested the rows).  If it has length 0, no call is recorded.

    Returns the live bytes at the peak, the number of calls, and their overhead in cycles."""
    produced = initial_rows(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    region = np.zeros(t.rows.shape[0], np.int64)
    stack = np.empty(upper - lower + 1, np.int64)  # parts whose rows are requested ..
    targets = np.empty(upper - lower + 1, np.int64)  # .. and how many of their rows
    live = t.resident[lower] + shared_scratch(t, lower, upper)
    peak, count, cycles = live, 0, 0
    for turn in range(4 * (upper - lower)):
        phase, p = turn // (upper - lower) - 1, lower + turn % (upper - lower)
        p = upper - 1 - (p - lower) if phase == 1 else p
        if (0 <= phase < 2 and lower <= t.last[t.written[p]] < upper) or phase == 0 < t.late[p]:
            continue  # its consumers in the cascade request its rows, perhaps not all of them
        stack[0], targets[0] = p, t.first_rows[p] if phase < 0 else t.rows[t.written[p]]
        depth = 1
        while depth > 0:
            a, target = stack[depth - 1], targets[depth - 1]
            s = t.written[a]
            first = int(produced[s])
            if first >= target:
                depth -= 1
                continue
            end = int(t.rows[s] if t.whole[a] else min(first + stripe, target))
            end = int(target if t.on_request[a] else end)
            e = missing_read(t, a, end, produced)
            if e >= 0:
                stack[depth], targets[depth] = t.maker[t.storage[e]], t.needed[t.table[e] + end]
                depth += 1
                continue
            consumer = stack[max(depth - 2, 0)]
            if calls.shape[0] > 0:
                calls[count, 0], calls[count, 1] = a, first
                calls[count, 2], calls[count, 3] = end, consumer
            count += 1
            cycles += t.call_cycles[a]
            produced[s] = end
            made = slots_taken(int(t.slots[s]), first, end) * t.row_bytes[s]
            overwritten = overwritten_storage(
                t, a, lower, upper, first, end, produced, dead, region
            )
            peak = max(peak, live + (made if overwritten < 0 else 0))
            if peak >= ceiling:
                return int(peak), count, int(cycles)
            live += made
            for e in range(t.reads[a] - 1, t.reads[a + 1]):
                s = int(t.written[a] if e < t.reads[a] else t.storage[e])
                gone = dead_rows(t, lower, upper, s, produced)
                live -= slots_released(t.rows[s] - t.slots[s], dead[s], gone) * t.row_bytes[s]
                dead[s] = gone
    return int(peak), count, int(cycles)


@compiled
def alternative_peak(known: Numbers, lower: int, upper: int, k: int) -> int:
    """Return the lowest known peak of a sequence of cascades that runs the parts [lower, upper).

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
def enter_candidates(
    t: RowTables,
    least: int,
    most: int,
    upper: int,
    alternatives: Alternatives,
    prune: bool,
    found: Numbers,
) -> tuple[int, int]:
    """Simulate the cascade [lower, upper) for each lower in [least, most) and each stripe height.

    alternatives: the stripe heights, and the peaks known so far; this function updates the peaks.
    prune: drop a candidate if a known sequence of cascades runs the same parts with no higher peak
        and no more call overhead.
    found: output array, which receives (lower, stripe height, live bytes at the peak, call overhead
        in cycles) for each candidate that is not dropped.

    Returns the number of candidates written to `found`, and the number of simulated calls.
    """
    unlisted = np.empty((0, 4), np.int64)
    known, cycles_before = alternatives.least_peak, alternatives.least_cycles
    count, work = 0, 0
    for lower in range(most - 1, least - 1, -1):
        for k in range(alternatives.stripes.shape[0]):
            stripe = alternatives.stripes[k]
            ceiling = alternative_peak(known, lower, upper, k) if prune else UNBOUNDED
            peak, made, cycles = run_cascade(t, lower, upper, stripe, ceiling, unlisted)
            work += made
            if peak >= ceiling:
                continue
            found[count, 0], found[count, 1] = lower, stripe
            found[count, 2], found[count, 3] = peak, cycles
            count += 1
            for j in range(k, alternatives.stripes.shape[0]):
                if cycles <= cycles_before[j, upper] - cycles_before[j, lower]:
                    known[upper, upper - lower, j] = min(known[upper, upper - lower, j], peak)
    return count, work


@compiled
def enter_live_ranges(
    t: RowTables,
    lower: int,
    upper: int,
    calls: Numbers,
    tick: int,
    region: Numbers,
    starts: Numbers,
    born: Numbers,
    died: Numbers,
    over: Numbers,
) -> None:
    """Write to `born`, `died` and `over` the live ranges of rows that a cascade computes or reads.

    calls[i, :3]: (position of the part, first row, end row) of the call at tick `tick` + i.
    region[s], starts[s]: memory region of storage s, and index of its row 0 in the output arrays:
    born, died: the row is live in ticks [born, died).
    over: index of the storage whose row of the same number the row overwrites; -1 for none.
    """
    produced = initial_rows(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        s = t.written[a]
        produced[s] = end
        overwritten = overwritten_storage(t, a, lower, upper, first, end, produced, dead, region)
        for r in range(first, end):
            born[starts[s] + r] = tick + k
            died[starts[s] + r] = tick + k + 1
            over[starts[s] + r] = overwritten
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            gone = dead_rows(t, lower, upper, s, produced)
            died[starts[s] + dead[s] : starts[s] + gone] = tick + k + 1
            dead[s] = gone


@compiled
def read_time(
    t: RowTables, a: int, first: int, end: int, region: Numbers, access_times: Numbers
) -> int:
    """Return the time, in units of 1/1024 cycle, that a call's reads take, without constants.

    The call computes rows [first, end) of the part at position `a`.
    region[s]: index of the memory region of storage s.
    access_times[m]: (time per access, time per byte) in region m.
    """
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
    extra: Numbers,
    constants: Numbers,
    access_times: Numbers,
    capacities: Numbers,
) -> tuple[Numbers, int, bool]:
    """Simulate the calls of the cascade [lower, upper) to find its live bytes and its added time.

    calls[i, :3]: (position of the part, first row, end row) of call i.
    region[s]: index of the memory region of storage s.
    extra[m], capacities[m]: bytes live during the whole cascade, and bytes available, in region m.
    constants[:, p - lower]: times to add to the first and to each later call of the part at p.
    access_times[m]: (time per access, time per byte) in region m.

    Returns (peaks, added time, fits).  peaks[m]: live bytes at the peak in region m.  Added time:
    run time minus computing time with all operands in the default region, in 1/1024 cycle.  If a
    peak exceeds its capacity, `fits` is False, the simulation stops, and the added time is 0.
    """
    produced = initial_rows(t, lower, upper)
    dead = np.zeros(t.rows.shape[0], np.int64)
    live = extra.copy()
    for s in range(t.rows.shape[0]):
        if t.maker[s] < lower <= t.last[s]:
            live[region[s]] += t.slots[s] * t.row_bytes[s]
    live[0] += shared_scratch(t, lower, upper)
    peaks = live.copy()
    if (peaks > capacities).any():
        return peaks, 0, False
    time = 0
    for k in range(calls.shape[0]):
        a, first, end = calls[k, 0], calls[k, 1], calls[k, 2]
        s = t.written[a]
        written = (end - first) * t.row_bytes[s]
        made = slots_taken(int(t.slots[s]), first, end) * t.row_bytes[s]
        time += t.call_cycles[a] * FINE + constants[min(first, 1), a - lower]
        time += access_times[region[s], 0] + written * access_times[region[s], 1]
        time += read_time(t, a, first, end, region, access_times)
        produced[s] = end
        if overwritten_storage(t, a, lower, upper, first, end, produced, dead, region) < 0:
            peaks[region[s]] = max(peaks[region[s]], live[region[s]] + made)
            if peaks[region[s]] > capacities[region[s]]:
                return peaks, 0, False
        live[region[s]] += made
        for e in range(t.reads[a] - 1, t.reads[a + 1]):
            s = int(t.written[a] if e < t.reads[a] else t.storage[e])
            gone = dead_rows(t, lower, upper, s, produced)
            live[region[s]] -= (
                slots_released(t.rows[s] - t.slots[s], dead[s], gone) * t.row_bytes[s]
            )
            dead[s] = gone
    return peaks, time, True


WHOLE = 1 << 30
"""Stripe height that stands for all rows of any tensor."""


def expand(tables: RowTables, lower: int, upper: int, stripe: int) -> Numbers:
    """Return the calls of the parts at positions [lower, upper), interleaved as one cascade.

    lower, upper: positions in the execution order.
    stripe: maximum number of output rows per call.

    The result has shape (calls, 4), with columns: position of the part, first row, end row, and
    position of the part that requested the rows (the part itself if no other part did).
    """
    most = int(tables.rows[tables.written[lower:upper]].sum())
    calls = np.empty((most, 4), np.int64)
    _, count, _ = run_cascade(tables, lower, upper, stripe, UNBOUNDED, calls)
    return calls[:count]


_NO_CALLS = np.empty((0, 4), np.int64)


def initial_alternatives(tables: RowTables, stripes: list[int], most_parts: int) -> Alternatives:
    """Return the table of known peaks with which a search begins.

    It contains the peak of each part that runs alone, in a single call.  All other peaks are
    unknown (`UNBOUNDED`).
    stripes: stripe heights (maximum rows per call) that the search tries.
    most_parts: maximum number of parts in a cascade.
    """
    count = len(tables.written)
    rows = tables.rows[tables.written]
    heights = np.array(sorted(stripes, reverse=True), np.int64)
    calls = np.where(tables.whole, 1, -(-rows // heights[:, None]))
    before = np.zeros((len(heights), 1), np.int64)
    least_cycles = np.hstack([before, np.cumsum(calls * tables.call_cycles, axis=1)])
    least_peak = np.full((count + 1, min(most_parts, count) + 1, len(heights)), UNBOUNDED)
    for p in range(count):
        least_peak[p + 1, 1] = run_whole(tables, p)[0]
    return Alternatives(heights, least_cycles, least_peak)


def run_whole(tables: RowTables, position: int) -> tuple[int, int]:
    """Simulate one part alone, in a single call.

    position: position of the part in the execution order.

    Returns the live bytes at the peak, and the call overhead in cycles.
    """
    peak, _, cycles = run_cascade(tables, position, position + 1, WHOLE, UNBOUNDED, _NO_CALLS)
    return peak, cycles


def candidates(
    tables: RowTables, lowers: range, upper: int, alternatives: Alternatives, *, prune: bool
) -> tuple[Numbers, int]:
    """Simulate candidate cascades: the parts at positions [lower, upper) of the execution order.

    There is a candidate for each `lower` in `lowers` and each stripe height.
    lowers: a range with step 1.
    alternatives: the stripe heights, and the peaks of the cascades simulated so far; this function
        adds those of the candidates.
    prune: whether to drop dominated candidates.  A candidate is dominated if its parts run with no
        higher peak and no more call overhead in a cascade, or a sequence of cascades, that has been
        simulated before.

    Returns an array, and the number of simulated calls as a measure of work.  The array has one row
    for each candidate that is not dropped: (lower, stripe height, live bytes at the peak, call
    overhead in cycles).
    """
    found = np.empty((len(lowers) * len(alternatives.stripes), 4), np.int64)
    count, work = enter_candidates(
        tables, lowers.start, lowers.stop, upper, alternatives, prune, found
    )
    return found[:count], work


def peaks_and_time(
    tables: RowTables,
    lower: int,
    upper: int,
    calls: Numbers,
    region: Numbers,
    extra: Numbers,
    constants: Numbers,
    access_times: Numbers,
    capacities: Numbers,
) -> tuple[Numbers, int] | None:
    """Return the live bytes at the peak of each memory region, and the added time of a cascade.

    The added time is the run time minus the computing time with all operands in the default region.
    It may be negative, because an engine may compute faster with operands in other regions.  The
    added time consists of the overhead of the calls, the times in `constants`, and the time for
    accesses to tensors other than constants.  Times are in units of 1/1024 cycle.

    lower, upper: the cascade consists of the parts at positions [lower, upper).
    calls[i]: (position of the part, first row, end row, position of the part that requested the
        rows) of call i.
    region[s]: index of the memory region of storage s.
    extra[m]: bytes that are live in region m during the whole cascade.
    constants: array of shape (2, upper - lower).  The first call of the part at position p adds the
        time constants[0, p - lower]; each later one adds constants[1, p - lower].  These times
        cover reading the part's constants, and the change of its computing time (possibly
        negative) if operands are outside the default region.
    access_times[m]: (time per access, time per byte) in region m.
    capacities[m]: bytes available in region m.

    Returns None if a peak exceeds its capacity.
    """
    peaks, time, fits = run_with_traffic(
        tables, lower, upper, calls, region, extra, constants, access_times, capacities
    )
    return (peaks, int(time)) if fits else None
