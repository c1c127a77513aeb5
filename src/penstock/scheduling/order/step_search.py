"""StepSearch: best-first search for the order of least peak memory between two states.

A state is a set of completed steps.  States are expanded in ascending order of the least peak with
which they are reached.  So the first path to the goal is optimal, and at any time the peak of the
next state to expand is a proven lower bound.

*Free steps.*  A step is ready if all steps on which it depends are completed.  A ready step is free
if it does not raise the peak of the state and leaves no more live bytes than before.  To run it
next is optimal: in any completion of the state, moving the step to the front does not increase the
live bytes during any other step.  The reason is that a step writes the same tensors whenever it
runs, but the more steps are completed before, the more tensors it can free or overwrite in place.

*Free sequences* extend this to several steps, each of which reads from the previous one.  A
sequence ends at the first point with no more live bytes than at its start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from penstock.scheduling.order.step_table import StepTable, bits


@dataclass(frozen=True, slots=True)
class OrderTricks:
    """Reductions of the search space.  None of them changes a result found within the budget.

    split: divide the steps after each one that has the same position in every order, and order each
        of the resulting sets of steps (pieces) separately.
    floor: treat all peaks below the proven lower bound as equal to it.
    ceiling: drop states whose peak is not below the peak of the best heuristic order.
    free_steps: run a ready step without trying others, if it leaves no more live bytes than before
        and does not raise the peak.
    free_sequences: do the same with a sequence of steps, each of which reads an output of the
        previous one.
    merge: of several orders of the same set of completed steps, continue only the one with the
        lowest peak.
    """

    split: bool = True
    floor: bool = True
    ceiling: bool = True
    free_steps: bool = True
    free_sequences: bool = True
    merge: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """The problem of ordering some of the steps: those in `goal` that are not in `done`.

    These steps are consecutive in every execution order, so they can be ordered separately.
    done: mask of the steps that run before all steps to be ordered.
    live_bytes: live bytes when exactly the steps in `done` have run.
    goal: mask of `done` and the steps to be ordered.
    """

    done: int
    live_bytes: int
    goal: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a best-first search for the order of least peak memory.

    order: the optimal order, as indices of steps; None if the search did not finish, or if every
        order has a peak at or above the ceiling, an upper limit given to the search.
    bound_bytes: proven lower bound of the peak.
    finished: whether the search ended within its budget.
    states: number of states reached so far, a measure of work.
    """

    order: tuple[int, ...] | None
    bound_bytes: int
    finished: bool
    states: int


@dataclass(frozen=True, slots=True)
class _State:
    """A state of the search: a set of completed steps, with the path that reached it.

    parent: the previous state on the path; None at the start.
    steps: indices of the steps that lead from the parent to this state.
    done, ready: masks of the completed steps and of the ready steps.
    live_bytes: live bytes in this state.
    peak_bytes: live bytes at the peak of the path.
    """

    parent: _State | None
    steps: tuple[int, ...]
    done: int
    live_bytes: int
    peak_bytes: int
    ready: int

    def order(self) -> tuple[int, ...]:
        """Return the indices of the steps from the start to this state."""
        parts: list[tuple[int, ...]] = []
        state: _State | None = self
        while state is not None:
            parts.append(state.steps)
            state = state.parent
        return tuple(step for part in reversed(parts) for step in part)


class StepSearch:
    """Search for the order in which the steps of one piece have the lowest peak of live bytes.

    A piece (`Piece`) consists of steps that are consecutive in every execution order of a problem.
    The states of the search are sets of completed steps.
    """

    def __init__(self, table: StepTable, piece: Piece, tricks: OrderTricks) -> None:
        self.table, self.piece, self.tricks = table, piece, tricks
        self.states = 0

    def best_first(self, floor_bytes: int, ceiling_bytes: int, max_states: int) -> Finding:
        """Search for the order of the piece's steps with the lowest peak of live bytes.

        floor_bytes: proven lower bound of the peak of the whole problem.
        ceiling_bytes: peak of a known order; only orders with a lower peak are found.
        max_states: budget; a state is counted whenever it is reached with a lower peak than before.
        """
        floor = floor_bytes if self.tricks.floor else 0
        ceiling = ceiling_bytes if self.tricks.ceiling else math.inf
        start = self._start(floor)
        reached = {start.done: start.peak_bytes}
        tried: dict[int, int] = {}
        heap = [(start.peak_bytes, 0, start.live_bytes, 0, start)]
        while heap:
            state = heappop(heap)[-1]
            if state.done == self.piece.goal:
                return Finding(state.order(), max(state.peak_bytes, floor_bytes), True, self.states)
            if self.states >= max_states:
                return Finding(None, max(state.peak_bytes, floor_bytes), False, self.states)
            if self.tricks.merge and state.peak_bytes > reached[state.done]:
                continue
            for child in self._children(state, ceiling - 1, tried):
                if self.tricks.merge and child.peak_bytes >= reached.get(child.done, ceiling):
                    continue  # free steps led to a state that is known already
                reached[child.done] = child.peak_bytes
                self.states += 1
                key = (child.peak_bytes, -child.done.bit_count(), child.live_bytes, self.states)
                heappush(heap, (*key, child))
        return Finding(None, ceiling_bytes, True, self.states)

    def beam(self, limit_bytes: int, width: int) -> tuple[int, ...] | None:
        """Return an order of the piece's steps with a peak of at most `limit_bytes`.

        The method is beam search.  The result consists of indices of steps.  It is None if the
        search finds no such order, although one may exist.
        width: number of states kept for each number of completed steps.
        """
        start = self._start(limit_bytes)
        if start.peak_bytes > limit_bytes:
            return None
        tried: dict[int, int] = {}
        levels: dict[int, dict[int, _State]] = {start.done.bit_count(): {start.done: start}}
        while levels:
            level = levels.pop(min(levels))
            for state in sorted(level.values(), key=lambda s: (s.live_bytes, s.done))[:width]:
                if state.done == self.piece.goal:
                    return state.order()
                for child in self._children(state, limit_bytes, tried):
                    levels.setdefault(child.done.bit_count(), {}).setdefault(child.done, child)
        return None

    def _start(self, floor: int) -> _State:
        piece, rows = self.piece, self.table.rows
        wanted = piece.goal & ~piece.done
        ready = sum(1 << i for i in bits(wanted) if not rows[i].before & ~piece.done)
        peak = max(floor, piece.live_bytes)
        return self._after_free_steps(None, (), piece.done, piece.live_bytes, peak, ready)

    def _children(self, state: _State, limit: float, tried: dict[int, int]) -> Iterator[_State]:
        """Yield the successors of `state` that are reached with a peak of at most `limit` bytes.

        A successor is reached by one ready step, after which free steps may follow: steps that it
        is optimal to run next (`_after_free_steps`).  With `OrderTricks.merge`, a ready step is
        skipped if an earlier path has completed the same steps with the same or a lower peak.
        tried: lowest peak in bytes of the paths found so far, up to and including the ready step,
            by mask of the steps completed then.  This function updates the map.
        """
        for step in bits(state.ready):
            during, live = self.table.run(state.done, state.live_bytes, step)
            done = state.done | 1 << step
            peak = max(state.peak_bytes, during)
            if peak > limit or (self.tricks.merge and tried.get(done, peak + 1) <= peak):
                continue
            tried[done] = peak
            ready = self._ready(state.ready, done, step)
            yield self._after_free_steps(state, (step,), done, live, peak, ready)

    def _ready(self, ready: int, done: int, step: int) -> int:
        return (ready ^ 1 << step) | self.table.ready_after(done, step) & self.piece.goal

    def _after_free_steps(
        self,
        parent: _State | None,
        steps: tuple[int, ...],
        done: int,
        live: int,
        peak: int,
        ready: int,
    ) -> _State:
        """Run the steps that `_free_steps` returns until it returns none; return the new state.

        `_free_steps` returns steps that leave no more live bytes than before and do not raise the
        peak, so to run them next is optimal.
        parent: the previous state; None at the start.
        steps: indices of the steps that have run since `parent`.
        done, live, peak, ready: the situation after `steps`: mask of the completed steps, live
            bytes, live bytes at the peak so far, mask of the ready steps.
        """
        path = list(steps)
        while free := self._free_steps(done, live, peak, ready):
            for step in free:
                _, live = self.table.run(done, live, step)
                done |= 1 << step
                ready = self._ready(ready, done, step)
            path += free
        return _State(parent, tuple(path), done, live, peak, ready)

    def _free_steps(self, done: int, live: int, limit: int, ready: int) -> list[int]:
        """Return a sequence of steps that it is optimal to run next; empty if none is known.

        After the sequence, no more bytes are live than before it, and `limit` is never exceeded.
        The sequence is a single ready step (a free step), or begins with a ready step, after which
        each step reads an output of the previous one (a free sequence).
        done, live, ready: mask of the completed steps, live bytes, mask of the ready steps.
        limit: maximum live bytes while a step runs.
        """
        if not (self.tricks.free_steps or self.tricks.free_sequences):
            return []
        for step in bits(ready):
            during, after = self.table.run(done, live, step)
            if during > limit:
                continue
            if after <= live:
                if self.tricks.free_steps:
                    return [step]
            elif self.tricks.free_sequences and (
                sequence := self._free_sequence(done, live, limit, step, after)
            ):
                return sequence
        return []

    def _free_sequence(self, done: int, live: int, limit: int, step: int, after: int) -> list[int]:
        """Return a free sequence that starts with `step`; empty if none is found.

        To run a free sequence next is optimal: it leaves no more live bytes than before, although
        `step` alone leaves more.  Each step after the first reads an output of the previous one.
        Of several such steps, only the one that leaves the fewest live bytes is tried.
        done: mask of the steps completed before `step`.
        live, after: live bytes before `step`, and after it.
        limit: maximum live bytes while a step runs.
        """
        sequence = [step]
        while after > live:
            done |= 1 << step
            fitting: list[tuple[int, int]] = []
            for follower in bits(self.table.ready_after(done, step) & self.piece.goal):
                during, then = self.table.run(done, after, follower)
                if during <= limit:
                    fitting.append((then, follower))
            if not fitting:
                return []
            after, step = min(fitting)
            sequence.append(step)
        return sequence
