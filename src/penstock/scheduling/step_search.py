"""StepSearch: the order of least peak from one state to another, found best first.

States are opened in order of the least peak by which they are reached, so the first to reach the
goal is optimal, and at any time the peak of the state to be opened next is a proven lower bound.

*Free steps.* Let a step be ready whose peak is no problem (not above the peak p of the state) and
after which no more is live than before. Then it may be run at once: whatever order completes the
state, moving that step to its front raises no step's need. For the tensors that it frees now it
frees later too, those that it writes would be written all the same, and what other steps may share
or free only grows with the steps done. *Free chains*: the same for steps of which each reads the
one before, taken together, up to the first point at which no more is live than at their start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from penstock.scheduling.step_table import StepTable, bits


@dataclass(frozen=True, slots=True)
class OrderTricks:
    """What the search may leave out. None changes an answer that is found within the budget."""

    split: bool = True  # solve the pieces between steps that every order runs at one point apart
    floor: bool = True  # start at the proven lower bound: peaks below it need not be told apart
    ceiling: bool = True  # drop what is no better than the best heuristic order
    free_steps: bool = True  # run at once what costs nothing (see above)
    free_chains: bool = True  # the same for chains of steps
    merge: bool = True  # orders of the same steps lead to one state; keep the best of them


@dataclass(frozen=True, slots=True)
class Piece:
    """The steps of `goal` that are not in `done`, to be run from the state `done`."""

    done: int
    live_bytes: int
    goal: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An order better than the ceiling if there is one; None is proven if the search finished."""

    order: tuple[int, ...] | None
    bound_bytes: int  # proven, at least the floor
    finished: bool
    states: int


@dataclass(frozen=True, slots=True)
class _State:
    parent: _State | None
    steps: tuple[int, ...]  # that led here from the parent
    done: int
    live_bytes: int
    peak_bytes: int
    ready: int

    def order(self) -> tuple[int, ...]:
        parts: list[tuple[int, ...]] = []
        state: _State | None = self
        while state is not None:
            parts.append(state.steps)
            state = state.parent
        return tuple(step for part in reversed(parts) for step in part)


class StepSearch:
    """Search over one piece of a table."""

    def __init__(self, table: StepTable, piece: Piece, tricks: OrderTricks) -> None:
        self.table, self.piece, self.tricks = table, piece, tricks
        self.states = 0

    def best_first(self, floor_bytes: int, ceiling_bytes: int, max_states: int) -> Finding:
        """The order of least peak. States are counted when they are first reached or improved."""
        floor = floor_bytes if self.tricks.floor else 0
        ceiling = ceiling_bytes if self.tricks.ceiling else 1 << 62
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
                    continue  # other steps, but with what is free the same state
                reached[child.done] = child.peak_bytes
                self.states += 1
                key = (child.peak_bytes, -child.done.bit_count(), child.live_bytes, self.states)
                heappush(heap, (*key, child))
        return Finding(None, ceiling_bytes, True, self.states)

    def beam(self, limit_bytes: int, width: int) -> tuple[int, ...] | None:
        """Some order of a peak of at most `limit_bytes`; keeps `width` states per number of steps.

        Finding none proves nothing.
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
        return self._settled(None, (), piece.done, piece.live_bytes, peak, ready)

    def _children(self, state: _State, limit: int, tried: dict[int, int]) -> Iterator[_State]:
        """States one step further, of peaks up to a limit, that were not tried at such a peak."""
        for step in bits(state.ready):
            during, live = self.table.run(state.done, state.live_bytes, step)
            done = state.done | 1 << step
            peak = max(state.peak_bytes, during)
            if peak > limit or (self.tricks.merge and tried.get(done, peak + 1) <= peak):
                continue
            tried[done] = peak
            ready = self._ready(state.ready, done, step)
            yield self._settled(state, (step,), done, live, peak, ready)

    def _ready(self, ready: int, done: int, step: int) -> int:
        return (ready ^ 1 << step) | self.table.ready_after(done, step) & self.piece.goal

    def _settled(
        self,
        parent: _State | None,
        steps: tuple[int, ...],
        done: int,
        live: int,
        peak: int,
        ready: int,
    ) -> _State:
        """The state after all that is free."""
        path = list(steps)
        while free := self._free(done, live, peak, ready):
            for step in free:
                _, live = self.table.run(done, live, step)
                done |= 1 << step
                ready = self._ready(ready, done, step)
            path += free
        return _State(parent, tuple(path), done, live, peak, ready)

    def _free(self, done: int, live: int, limit: int, ready: int) -> list[int]:
        """A step or chain that may be run at once, or nothing."""
        if not (self.tricks.free_steps or self.tricks.free_chains):
            return []
        for step in bits(ready):
            during, after = self.table.run(done, live, step)
            if during > limit:
                continue
            if after <= live:
                if self.tricks.free_steps:
                    return [step]
            elif self.tricks.free_chains and (chain := self._chain(done, live, limit, step, after)):
                return chain
        return []

    def _chain(self, done: int, live: int, limit: int, step: int, after: int) -> list[int]:
        """Steps from `step` on, each reading the one before, until no more than `live` is live."""
        chain = [step]
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
            chain.append(step)
        return chain
