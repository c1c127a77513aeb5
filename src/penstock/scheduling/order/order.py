"""Search for the execution order of least peak memory, with a proven optimality gap.

    file order -> pieces -> heuristic orders -> best-first search -> beam search

The file order is the execution order in which the problem lists its steps.  A piece is a set of
steps that are consecutive in every execution order.  The steps are divided into pieces after each
step that has the same position in every order, and each piece is ordered separately.

The peak of the problem is the maximum of the peaks of its pieces.  So the search begins with the
piece whose best heuristic order has the highest peak.  It skips a piece for which a better order
would not lower the peak of the problem.  In that case, the peak of the piece's best heuristic order
does not exceed the peak of an earlier piece, or does not exceed the proven lower bound.

Beam search runs only if best-first search does not finish.  The budget of a search is a number of
states, not a time.

A state is a set of completed steps.  States are expanded in ascending order of the least peak with
which they are reached.  So the first path to the goal is optimal, and at any time the peak of the
next state to expand is a proven lower bound.

*Free steps.*  A step is ready if all steps on which it depends are completed.  A ready step is free
if it does not raise the peak of the state and leaves no more live bytes than before.  To run it
next is optimal: in any completion of the state, moving the step to the front does not increase the
live bytes during any other step.  The reason is that a step writes the same tensors whenever it
runs, but the more steps are completed before, the more tensors it can free or overwrite in place.

*Free sequences* extend this to several steps, each of which reads from the previous one.  A
sequence ends at the first point with no more live bytes than at its start.  A step changes only
sequences with a step that shares a tensor with it, so each state keeps those of the state before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from penstock.frozen import frozen
from penstock.scheduling.order.steps import (
    Heuristic,
    OrderProblem,
    StepTable,
    bits,
    heuristic_order,
    step_table,
)

BEAM_WIDTH = 16
"""Number of states that a beam keeps for each number of completed steps."""


@frozen
class OrderOptions:
    """Budgets of the search.

    max_states: maximum number of states of all best-first searches together.  There is one search
        for each piece, a set of steps that are consecutive in every execution order.
    beam_width: number of states that a beam search keeps for each number of completed steps.  A
        beam search follows an unfinished best-first search; 0 disables it.
    """

    max_states: int = 20_000
    beam_width: int = BEAM_WIDTH


@frozen
class Order:
    """An execution order, with its peak memory and a proven lower bound of the peak.

    order: indices of the problem's steps.
    peak_bytes: live bytes at the peak.
    bound_bytes: proven lower bound of the peak of any order; 0 if none has been computed.
    states: number of states searched, a measure of work.
    """

    order: tuple[int, ...]
    peak_bytes: int
    bound_bytes: int = 0
    states: int = 0

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no order has a lower peak."""
        return self.peak_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """Optimality gap: (peak - bound) / max(bound, 1) for the proven lower bound of the peak.

        0.0 if the peak is proven optimal.
        """
        return (self.peak_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


def find_order(problem: OrderProblem, options: OrderOptions | None = None) -> Order:
    """Return the order of least peak memory that the search finds.

    The order in which the problem lists the steps is preferred to others with the same peak.
    options: None stands for the default options.
    """
    options = options or OrderOptions()
    table = step_table(problem)
    orders = {heuristic: heuristic_order(table, heuristic) for heuristic in Heuristic}
    ranks = [{step: rank for rank, step in enumerate(order)} for order in orders.values()]
    found = [_PieceOrder.of(table, piece, ranks) for piece in pieces(table)]
    must = max((row.must_bytes for row in table.rows), default=0)
    run = _Run(table, options, bound=max(must, table.start_bytes))
    for one in sorted(found, key=lambda one: -one.peak):
        run.improve(one)
    order = tuple(step for one in found for step in one.order_within(run.reached))
    peak, _ = table.peak(0, table.start_bytes, order)
    return Order(order, peak, run.bound, run.states)


def order_by(problem: OrderProblem, heuristic: Heuristic) -> Order:
    """Return the order that a heuristic determines; no lower bound of the peak is computed.

    So the `bound_bytes` of the result is 0.
    """
    table = step_table(problem)
    order = heuristic_order(table, heuristic)
    peak, _ = table.peak(0, table.start_bytes, order)
    return Order(order, peak)


def pieces(table: StepTable) -> list[Piece]:
    """Divide the steps of a problem into pieces, each of which can be ordered separately.

    Returns the pieces in execution order.  A piece is a set of steps that are consecutive in every
    order.  Each piece but the last ends with a step that has the same position in every order: all
    other steps are its ancestors or descendants.
    """
    count = len(table.rows)
    ends = {table.everything}
    for i, row in enumerate(table.rows):
        if row.ancestors.bit_count() + row.descendants.bit_count() == count - 1:
            ends.add(row.ancestors | 1 << i)
    found: list[Piece] = []
    done, live = 0, table.start_bytes
    for end in sorted(ends - {0}, key=int.bit_count):
        found.append(Piece(done, live, end))
        _, live = table.peak(done, live, _some_order(table, done, end))
        done = end
    return found


def _some_order(table: StepTable, done: int, end: int) -> list[int]:
    return sorted(bits(end & ~done), key=lambda i: table.rows[i].ancestors.bit_count())


@dataclass(slots=True)
class _PieceOrder:
    """A piece (steps that are consecutive in every execution order) with two orders of its steps.

    file_order, file_peak: the order in which the problem lists the steps, and its peak in bytes.
    order, peak: the best order found so far, and its peak in bytes.
    """

    piece: Piece
    file_order: tuple[int, ...]
    file_peak: int
    order: tuple[int, ...]
    peak: int

    @staticmethod
    def of(table: StepTable, piece: Piece, ranks: list[dict[int, int]]) -> _PieceOrder:
        """Return a piece with its steps in the problem's order and in the best known order.

        A piece is a set of steps that are consecutive in every execution order.
        ranks: for each known order of all steps, a map from step to position; the problem's order
            comes first.
        """
        steps = tuple(bits(piece.goal & ~piece.done))
        inside = [tuple(sorted(steps, key=rank.__getitem__)) for rank in ranks]
        peaks = [table.peak(piece.done, piece.live_bytes, order)[0] for order in inside]
        best = peaks.index(min(peaks))
        return _PieceOrder(piece, inside[0], peaks[0], inside[best], peaks[best])

    def order_within(self, peak: int) -> tuple[int, ...]:
        """Return the file order if its peak is at most `peak` bytes, else the best order found.

        The file order is the order in which the problem lists the steps.
        peak: a peak that other pieces reach anyway.  Up to this peak, a better order of this piece
            saves no memory, so the file order is preferred.
        """
        return self.file_order if self.file_peak <= peak else self.order


@dataclass(slots=True)
class _Run:
    """The state of a search that improves the order of one piece after the other.

    A piece is a set of steps that are consecutive in every execution order.
    bound: proven lower bound, in bytes, of the peak of the whole problem.
    reached: largest peak, in bytes, of the pieces that `improve` has processed.
    states: number of states searched so far.
    """

    table: StepTable
    options: OrderOptions
    bound: int
    reached: int = 0
    states: int = 0

    def improve(self, piece_order: _PieceOrder) -> None:
        """Search for a better order of a piece if that may lower the overall peak.

        A piece is a set of steps that are consecutive in every execution order.  The search is
        skipped if the best known order of the piece already has a peak of at most `bound`, a lower
        bound of the overall peak, or at most `reached`, the largest peak of the pieces so far.
        piece_order: the piece and its best known order; updated.
        """
        if piece_order.peak > max(self.bound, self.reached):
            search = StepSearch(self.table, piece_order.piece)
            left = self.options.max_states - self.states
            finding = search.best_first(self.bound, piece_order.peak, left)
            self.states += finding.states
            if finding.order is not None:
                self._take(piece_order, finding.order)
            self.bound = max(self.bound, min(finding.bound_bytes, piece_order.peak))
            if not finding.finished:
                self._beam(piece_order, search)
        self.reached = max(self.reached, piece_order.peak)

    def _beam(self, piece_order: _PieceOrder, search: StepSearch) -> None:
        """Lower the peak of a piece by beam searches, with limits of the peak chosen by bisection.

        A piece is a set of steps that are consecutive in every execution order.
        piece_order: the piece and its best known order; updated.
        search: its method `beam` looks for an order of the piece whose peak is at most a limit.
        """
        # The beam search is incomplete: bisection assumes that no order meets a limit at which the
        # search has failed.  Below the least bytes that exceeded a limit, a higher limit changes
        # nothing.
        failed = self.bound - 1
        while self.options.beam_width and piece_order.peak - failed > 1:
            limit = (failed + piece_order.peak) // 2
            order = search.beam(limit, self.options.beam_width)
            if order is None:
                failed = int(search.exceeding_bytes) - 1
            else:
                self._take(piece_order, order)

    def _take(self, piece_order: _PieceOrder, order: tuple[int, ...]) -> None:
        piece_order.order = order
        piece_order.peak, _ = self.table.peak(
            piece_order.piece.done, piece_order.piece.live_bytes, order
        )


@frozen
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


@frozen
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


@frozen
class FreeSequence:
    """Steps that leave no more live bytes than before them.

    needed_bytes, added_bytes: live bytes that they add at their peak, and at their end (at most 0).
    """

    steps: tuple[int, ...]
    needed_bytes: int
    added_bytes: int


@dataclass(slots=True)
class State:
    """A state of the search: a set of completed steps, with the path that reached it.

    parent: the previous state on the path; None at the start.
    steps: indices of the steps that lead from the parent to this state.
    done, ready: masks of the completed steps and of the ready steps.
    live_bytes: live bytes in this state.
    peak_bytes: live bytes at the peak of the path.
    free: the free sequences, by their first steps.
    unknown: mask of the ready steps for which `free` is not up to date.
    """

    parent: State | None
    steps: list[int]
    done: int
    ready: int
    live_bytes: int
    peak_bytes: int
    free: dict[int, FreeSequence]
    unknown: int

    def order(self) -> tuple[int, ...]:
        """Return the indices of the steps from the start to this state."""
        parts: list[list[int]] = []
        state: State | None = self
        while state is not None:
            parts.append(state.steps)
            state = state.parent
        return tuple(step for part in reversed(parts) for step in part)


class StepSearch:
    """Search for the order in which the steps of one piece have the lowest peak of live bytes.

    A piece (`Piece`) consists of steps that are consecutive in every execution order of a problem.
    The states of the search are sets of completed steps.
    exceeding_bytes: least live bytes that exceeded the limit of the last beam search.
    """

    def __init__(self, table: StepTable, piece: Piece) -> None:
        self.table, self.piece = table, piece
        self.states = 0
        self.exceeding_bytes: float = math.inf
        # for each step: the step and all that run before it; the readers of each tensor of it
        self._up_to = [row.ancestors | 1 << i for i, row in enumerate(table.rows)]
        self._sharing = [
            (*(read.others for read in row.reads if read.others), *(1 << i for i in row.after))
            for row in table.rows
        ]

    def best_first(self, floor_bytes: int, ceiling_bytes: int, max_states: int) -> Finding:
        """Search for the order of the piece's steps with the lowest peak of live bytes.

        floor_bytes: proven lower bound of the peak of the whole problem.
        ceiling_bytes: peak of a known order; only orders with a lower peak are found.
        max_states: budget; a state is counted whenever it is reached with a lower peak than before.
        """
        start = self._start(floor_bytes)
        reached = {start.done: start.peak_bytes}
        tried: dict[int, int] = {}
        heap = [(start.peak_bytes, 0, start.live_bytes, 0, start)]
        while heap:
            state = heappop(heap)[-1]
            if state.done == self.piece.goal:
                return Finding(state.order(), state.peak_bytes, True, self.states)
            if self.states >= max_states:
                return Finding(None, state.peak_bytes, False, self.states)
            if state.peak_bytes > reached[state.done]:
                continue
            for child in self._children(state, ceiling_bytes - 1, tried):
                if child.peak_bytes >= reached.get(child.done, ceiling_bytes):
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
        self.exceeding_bytes = math.inf
        start = self._start(limit_bytes)
        if start.peak_bytes > limit_bytes:
            self.exceeding_bytes = start.peak_bytes
            return None
        tried: dict[int, int] = {}
        levels: dict[int, dict[int, State]] = {start.done.bit_count(): {start.done: start}}
        while levels:
            level = levels.pop(min(levels))
            for state in sorted(level.values(), key=lambda s: (s.live_bytes, s.done))[:width]:
                if state.done == self.piece.goal:
                    return state.order()
                for child in self._children(state, limit_bytes, tried):
                    levels.setdefault(child.done.bit_count(), {}).setdefault(child.done, child)
        return None

    def _start(self, floor: int) -> State:
        piece, rows = self.piece, self.table.rows
        wanted = piece.goal & ~piece.done
        ready = sum(1 << i for i in bits(wanted) if not rows[i].before & ~piece.done)
        peak = max(floor, piece.live_bytes)
        state = State(None, [], piece.done, ready, piece.live_bytes, peak, {}, ready)
        self._run_free_steps(state)
        return state

    def _children(self, state: State, limit: int, tried: dict[int, int]) -> Iterator[State]:
        """Yield the successors of `state` that are reached with a peak of at most `limit` bytes.

        A successor is reached by one ready step, after which free steps may follow: steps that it
        is optimal to run next (`_run_free_steps`).  A ready step is
        skipped if an earlier path has completed the same steps with the same or a lower peak.
        tried: lowest peak in bytes of the paths found so far, up to and including the ready step,
            by mask of the steps completed then.  This function updates the map.
        """
        for step in bits(state.ready):
            during, live = self.table.run(state.done, state.live_bytes, step)
            done = state.done | 1 << step
            peak = max(state.peak_bytes, during)
            if peak > limit:
                self.exceeding_bytes = min(self.exceeding_bytes, peak)
            elif tried.get(done, peak + 1) > peak:
                tried[done] = peak
                child = replace(state, parent=state, steps=[], peak_bytes=peak)
                child.free = dict(state.free)
                self._run(child, (step,), live)
                self._run_free_steps(child)
                yield child

    def _run_free_steps(self, state: State) -> None:
        """Run free sequences, which it is optimal to run next, as long as there are any.

        A free sequence leaves no more live bytes than before it.  It runs if it does not raise the
        peak.  Of several sequences, that with the lowest first step runs first.
        state: updated.
        """
        while free := self._next_free(state):
            self._run(state, free.steps, state.live_bytes + free.added_bytes)

    def _next_free(self, state: State) -> FreeSequence | None:
        """Return a free sequence that does not raise the peak; None if there is none.

        state: its free sequences are brought up to date as far as they are tried.
        """
        for start in sorted({*state.free, *bits(state.unknown)}):
            if state.unknown >> start & 1:
                state.unknown ^= 1 << start
                state.free.pop(start, None)
                if sequence := self._free_sequence(state.done, start):
                    state.free[start] = sequence
            if sequence := state.free.get(start):
                peak = state.live_bytes + sequence.needed_bytes
                if peak <= state.peak_bytes:
                    return sequence
                self.exceeding_bytes = min(self.exceeding_bytes, peak)
        return None

    def _run(self, state: State, steps: Iterable[int], live_bytes: int) -> None:
        """Run steps that do not raise the peak of `state`, which is updated.

        live_bytes: live bytes after the steps.
        """
        state.live_bytes = live_bytes
        for step in steps:
            bit = 1 << step
            state.done |= bit
            state.ready ^= bit | self.table.ready_after(state.done, step) & self.piece.goal
            state.free.pop(step, None)
            state.unknown = state.unknown & ~bit | self._changed(state, step)
        state.steps += steps

    def _changed(self, state: State, step: int) -> int:
        """Return the mask of the ready steps whose free sequences `step` may have changed.

        Those are the sequences that can contain a reader of an output of `step`, or all remaining
        readers of an input.  A sequence can contain a step only if no ready step but its first one
        runs before that step in every order.
        state: the state after `step`.
        """
        changed = 0
        for readers in self._sharing[step]:
            starts = 0
            for reader in bits(readers & ~state.done):
                starts |= self._up_to[reader] & state.ready
                if starts & starts - 1:
                    break
            else:
                changed |= starts
        return changed

    def _free_sequence(self, done: int, start: int) -> FreeSequence | None:
        """Return the free sequence from a ready step that needs the fewest bytes; None if none.

        Each step after the first reads an output of the previous one.
        done: mask of the steps completed before `start`.
        """
        heap: list[tuple[int, int, tuple[int, ...], int, int]] = [(0, 0, (), done, 1 << start)]
        while heap:
            peak, live, steps, done, followers = heappop(heap)
            if steps and live <= 0:
                return FreeSequence(steps, peak, live)
            for step in bits(followers):
                during, after = self.table.run(done, live, step)
                then = done | 1 << step
                readers = self.table.ready_after(then, step) & self.piece.goal
                heappush(heap, (max(peak, during), after, (*steps, step), then, readers))
        return None
