"""Whether the tensors of a group fit into a buffer in some order of its nodes; compiled by numba.

A tensor from outside the group is live from the start to its last reader in the group.  A tensor
that is used outside is live from its writer to the end.  Any other tensor is live from its writer
to its last reader.

A state of the search is the set of executed nodes, as a mask, so groups have at most 62 nodes.  A
ready node is *free* if no more bytes are live after it than before; it runs next
(`order/step_search.py` explains why this is optimal).  Otherwise, the ready node that leaves the
fewest live bytes is tried first.

Parameters that the functions share:

    members                    the nodes of the group, in ascending order; member k is members[k]
    read_start, read,          the graph as compressed adjacency lists; `sweep.py` describes them
    reader_start, reader,
    kept, sizes
    done                       mask of the executed members: bit k for members[k]
    cap                        bytes of the buffer
    wanted[t]                  mask of the members that read tensor t: bit k for members[k]
    stays[i]                   1 if the tensor of node i is used outside of the group, else 0; -1
                               if node i is not a member
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled

Column = npt.NDArray[np.int64]

MOST_NODES = 62
"""Maximum number of nodes in a group: a state is an int64 mask."""
FITS, TOO_LARGE, UNDECIDED = 1, 0, -1
"""Whether an order exists in which the group fits: yes, no, or not found within the budget."""


@compiled
def fits(
    members: Column,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
    sizes: Column,
    cap: int,
    max_states: int,
) -> int:
    """Return whether some order of a group's nodes needs at most `cap` bytes for its tensors.

    The result is FITS, TOO_LARGE, or UNDECIDED if the search gave up after `max_states` states.

    All tensors that the nodes read or write occupy the buffer.  A tensor from outside the group
    occupies it from the start until its last reader in the group has run.  A tensor that is used
    outside, by other nodes or as an output of the network, occupies it until the end.  Any other
    tensor occupies it from its writer to its last reader.

    members: indices of the group's nodes, ascending.
    cap: bytes of the buffer.
    The graph: node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].
    The nodes reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network
    outputs, else 0; sizes[t] is in bytes.
    """
    count = len(members)
    wanted, stays = _wanted(members, read_start, read, reader_start, reader, kept)
    start = 0
    for t in range(len(sizes)):
        written = t < len(read_start) - 1 and stays[t] >= 0
        start += sizes[t] if wanted[t] and not written else 0
    if start > cap:
        return TOO_LARGE
    everything = (1 << count) - 1
    slots = 4
    while slots < 4 * max_states:
        slots *= 2
    seen = np.zeros(slots, np.int64)
    states, lives = np.zeros(count * count + 1, np.int64), np.zeros(count * count + 1, np.int64)
    lives[0], filled, opened = start, 1, 0
    during, after = np.zeros(count, np.int64), np.zeros(count, np.int64)
    while filled:
        filled -= 1
        done, live = states[filled], lives[filled]
        free = 0
        while free >= 0 and done != everything:
            free = _next_live_bytes(
                members, done, live, cap, read_start, read, wanted, stays, sizes, during, after
            )
            if free >= 0:
                done, live = done | 1 << free, after[free]
        if done == everything:
            return FITS
        slot = _slot(done, seen)
        if seen[slot] == done + 1:
            continue
        seen[slot] = done + 1
        opened += 1
        if opened >= max_states:
            return UNDECIDED
        filled = _push(done, cap, during, after, states, lives, filled)
    return TOO_LARGE


@compiled
def least_live_fits(
    members: Column,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
    sizes: Column,
    cap: int,
) -> int:
    """Return FITS if one heuristic order of a group's nodes needs at most `cap` bytes.

    Otherwise the result is UNDECIDED: another order may fit.  In the heuristic order, the next
    node is the ready node that leaves the fewest live bytes; nodes whose output does not fit are
    passed over.  The group may have any size.

    A tensor is live from its writer to its last reader.  If it comes from outside the group, it is
    live from the start; if it is used outside, it is live to the end.

    members: indices of the group's nodes.
    cap: bytes of the buffer.
    The graph: node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].
    The nodes reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network
    outputs, else 0; sizes[t] is in bytes.
    """
    pending, stays, waits = _pending(members, read_start, read, reader_start, reader, kept)
    live = 0
    for t in range(len(sizes)):
        outside = t >= len(stays) or stays[t] < 0
        live += sizes[t] if outside and pending[t] else 0
    ready = members[waits[members] == 0]
    while len(ready):
        best, least = -1, 0
        for k in range(len(ready)):
            i = ready[k]
            then = sizes[i] if stays[i] or pending[i] else 0
            for r in range(read_start[i], read_start[i + 1]):
                t = read[r]
                inside = t < len(stays) and stays[t] == 1
                then -= sizes[t] if pending[t] == 1 and not inside else 0
            if live + sizes[i] <= cap and (best < 0 or then < least):
                best, least = k, then
        if best < 0:
            return UNDECIDED
        i = ready[best]
        live += least
        ready = np.delete(ready, best)
        for r in range(read_start[i], read_start[i + 1]):
            pending[read[r]] -= 1
        for r in range(reader_start[i], reader_start[i + 1]):
            waits[reader[r]] -= 1
            if waits[reader[r]] == 0:
                ready = np.append(ready, reader[r])
    return FITS


@compiled
def _pending(
    members: Column,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
) -> tuple[Column, Column, Column]:
    """Return how the members of a group use tensors, as three arrays (pending, stays, waits).

    pending[t]: number of members that read tensor t.
    stays[i]: 1 if node i's tensor is used outside of the group, else 0; -1 if i is not a member.
    waits[i]: number of members whose tensors node i reads; -1 if node i is not a member.
    `least_live_fits` runs the members one by one, and counts `pending` and `waits` down.

    members: indices of the group's nodes.
    The graph: node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].
    The nodes reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network
    outputs, else 0.
    """
    stays = np.full(len(read_start) - 1, -1, np.int64)
    waits = np.full(len(read_start) - 1, -1, np.int64)
    pending = np.zeros(len(kept), np.int64)
    stays[members] = kept[members]
    waits[members] = 0
    for i in members:
        for r in range(reader_start[i], reader_start[i + 1]):
            if waits[reader[r]] < 0:
                stays[i] = 1
            else:
                waits[reader[r]] += 1
        for r in range(read_start[i], read_start[i + 1]):
            pending[read[r]] += 1
    return pending, stays, waits


@compiled
def _wanted(
    members: Column,
    read_start: Column,
    read: Column,
    reader_start: Column,
    reader: Column,
    kept: Column,
) -> tuple[Column, Column]:
    """Return how the members of a group use tensors, as two arrays (wanted, stays).

    wanted[t]: mask of the members that read tensor t; bit k for members[k].
    stays[i]: 1 if node i's tensor is used outside of the group, else 0; -1 if i is not a member.

    members: indices of the group's nodes.
    The graph: node i writes tensor i and reads the tensors read[read_start[i]:read_start[i + 1]].
    The nodes reader[reader_start[t]:reader_start[t + 1]] read tensor t; kept[t] is 1 for network
    outputs, else 0.
    """
    local = np.full(len(read_start) - 1, -1, np.int64)
    stays = np.full(len(read_start) - 1, -1, np.int64)
    wanted = np.zeros(len(kept), np.int64)
    for k in range(len(members)):
        local[members[k]] = k
    for k in range(len(members)):
        i = members[k]
        stays[i] = kept[i]
        for r in range(reader_start[i], reader_start[i + 1]):
            if local[reader[r]] < 0:
                stays[i] = 1
        for r in range(read_start[i], read_start[i + 1]):
            wanted[read[r]] |= 1 << k
    return wanted, stays


@compiled
def _next_live_bytes(
    members: Column,
    done: int,
    live: int,
    cap: int,
    read_start: Column,
    read: Column,
    wanted: Column,
    stays: Column,
    sizes: Column,
    during: Column,
    after: Column,
) -> int:
    """Return the first free member of a group; -1 if there is none.

    Member k is node members[k].  It is free if it can run and leaves no more live bytes than
    before; the search then runs it next.  The function also computes the live bytes for members 0
    to k or, if none is free, for all members, because the search then tries each that can run.

    done, live: mask of the executed members (bit k for members[k]), and the live bytes.
    wanted[t]: mask of the members that read tensor t.
    stays[i]: 1 if node i's tensor is used outside of the group, else 0; -1 if i is not a member.
    during[k], after[k]: output arrays: the live bytes while members[k] runs, and after it.  If the
        member cannot run, during[k] exceeds `cap`, the bytes of the buffer.
    The graph: node i writes tensor i, of sizes[i] bytes, and reads the tensors
    read[read_start[i]:read_start[i + 1]].
    """
    for k in range(len(members)):
        i = members[k]
        during[k], after[k] = live + sizes[i], live
        if done >> k & 1 or not _ready(i, members, done, read_start, read, stays):
            during[k] = cap + 1
        if during[k] > cap:
            continue
        if stays[i] or wanted[i]:
            after[k] += sizes[i]
        for r in range(read_start[i], read_start[i + 1]):
            t = read[r]
            inside = t < len(stays) and stays[t] == 1
            if not inside and not wanted[t] & ~(done | 1 << k):
                after[k] -= sizes[t]
        if after[k] <= live:
            return k
    return -1


@compiled
def _ready(
    i: int, members: Column, done: int, read_start: Column, read: Column, stays: Column
) -> bool:
    """Return whether node `i` can run: all members that write its inputs have run.

    members: indices of the group's nodes, ascending.
    done: mask of the members that have run; bit k for members[k].
    read_start, read: node i reads the tensors read[read_start[i]:read_start[i + 1]].  Tensor t is
        the output of node t or, for t >= len(stays), a network input.
    stays[t]: -1 if node t is not a member.  The other values, 0 and 1, make no difference here.
    """
    for r in range(read_start[i], read_start[i + 1]):
        t = read[r]
        if t < len(stays) and stays[t] >= 0:
            k = np.searchsorted(members, t)
            if not done >> k & 1:
                return False
    return True


@compiled
def _push(
    done: int, cap: int, during: Column, after: Column, states: Column, lives: Column, filled: int
) -> int:
    """Push the state after each member that can run; return the new number of states on the stack.

    The new state with the fewest live bytes is on top.
    done: mask of the executed members; bit k for member k.
    cap: bytes of the buffer.
    during[k], after[k]: live bytes while member k runs, and after it; it can run if during[k] is at
        most `cap`.
    states, lives: the stack: masks of the executed members, and live bytes, one entry per state.
    filled: number of states on the stack.
    """
    bottom = filled
    for k in range(len(during)):
        if during[k] > cap:
            continue
        at = filled
        while at > bottom and lives[at - 1] < after[k]:
            states[at], lives[at] = states[at - 1], lives[at - 1]
            at -= 1
        states[at], lives[at] = done | 1 << k, after[k]
        filled += 1
    return filled


@compiled
def _slot(done: int, seen: Column) -> int:
    """Return the index of the slot of state `done` in the hash table `seen`.

    If the state is not in the table, the result is the free slot for it.
    done: mask of the executed nodes.
    seen: a free slot contains 0; any other slot contains m + 1, where m is the mask of a visited
        state.
    """
    mask = len(seen) - 1
    slot = (done * 0x9E3779B1 >> 16) & mask
    while seen[slot] != 0 and seen[slot] != done + 1:
        slot = (slot + 1) & mask
    return slot
