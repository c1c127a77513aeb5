"""Exact placement: the greedy one, lowered until it is proven optimal or the work is spent.

The search (`stacking`) answers for one ceiling: it fits, it cannot fit, or not known so far. Each
round asks for the lower bound first, then bisects between what is ruled out and what is reached,
trying several rankings per ceiling; the next round grants each attempt four times as many nodes.
After the first round, small problems are put to a constraint solver (`solver`), once.
Work is counted in nodes and the solver's deterministic seconds, never in time, so the same problem
has the same answer everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from penstock.memory.greedy import place_greedily, placement_of
from penstock.memory.problem import Buffer, Column, Placement, Problem, peak_live_bytes
from penstock.memory.solver import solve
from penstock.memory.stacking import Boxes, Tricks, boxes_of, stack


@dataclass(frozen=True, slots=True)
class ExactOptions:
    """How much the exact placement may spend, and by which tricks."""

    max_nodes: int = 20_000  # attempts to lay one buffer, over all rounds
    max_buffers: int = 4_000  # above, only greedy: the search's tables grow with the square
    solver_work: float = 0.5  # deterministic seconds of the constraint solver; 0.0: without it
    max_solver_buffers: int = 150  # above, without the solver
    coarsen: bool = True  # count in the greatest unit of which sizes and alignments are multiples
    tricks: Tricks = field(default_factory=Tricks)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a problem fits under a ceiling: True with the offsets, False if proven, or None."""

    fits: bool | None
    offsets: dict[str, int]
    nodes: int


def place(problem: Problem, options: ExactOptions | None = None) -> Placement:
    """The lowest placement found, never above greedy; `gap` says how far it may be from the best.

    Does not heed the capacity: compare `height_bytes` (fits) and `bound_bytes` (never fits) to it.
    """
    options = options or ExactOptions()
    greedy = place_greedily(problem)
    if greedy.optimal or len(problem.buffers) > options.max_buffers:
        return greedy
    descent = _Descent(problem, greedy, options)
    descent.run()
    return replace(descent.best, bound_bytes=descent.bound_bytes, nodes=descent.nodes)


def fit(problem: Problem, ceiling_bytes: int, options: ExactOptions | None = None) -> Verdict:
    """Whether a problem can be placed under a ceiling; its capacity is not heeded."""
    options = options or ExactOptions()
    if peak_live_bytes(problem) > ceiling_bytes:
        return Verdict(False, {}, 0)
    greedy = place_greedily(problem)
    if greedy.height_bytes <= ceiling_bytes:
        return Verdict(True, dict(greedy.offsets), 0)
    if len(problem.buffers) > options.max_buffers:
        return Verdict(None, {}, 0)
    descent = _Descent(problem, greedy, options)
    fits = descent.decide(ceiling_bytes // descent.unit)
    return Verdict(fits, dict(descent.best.offsets) if fits else {}, descent.nodes)


def unit_bytes(buffers: tuple[Buffer, ...]) -> int:
    """The greatest unit of which all offsets of a settled placement are multiples.

    Offsets arise by adding sizes and by rounding up to alignments. A multiple of `unit` stays one
    when rounded up to an alignment that divides it or is a multiple of it; else the unit shrinks.
    """
    unit = 0
    for buffer in buffers:
        unit = gcd(unit, buffer.size_bytes, buffer.fixed_offset or 0)
    while misfits := [b for b in buffers if b.alignment % unit and unit % b.alignment]:
        unit = gcd(unit, misfits[0].alignment)
    return unit


class _Descent:
    """The state of one run: what is reached, what is ruled out, what is spent."""

    def __init__(self, problem: Problem, greedy: Placement, options: ExactOptions) -> None:
        self.problem, self.options, self.best = problem, options, greedy
        self.unit = unit_bytes(problem.buffers) if options.coarsen else 1
        self.boxes = boxes_of(tuple(_scaled(b, self.unit) for b in problem.buffers))
        self.rankings = rankings(self.boxes)
        self.reached = greedy.height_bytes // self.unit
        self.bound = -(-greedy.bound_bytes // self.unit)
        self.grant = len(problem.buffers) + 100
        self.nodes = 0

    @property
    def bound_bytes(self) -> int:
        return self.bound * self.unit

    def run(self) -> None:
        """Lower the best placement and raise the bound, until they meet or the work is spent."""
        self._bisect()
        self._solve(self.reached - 1)
        while self.bound < self.reached and self._next_round():
            self._bisect()

    def decide(self, ceiling: int) -> bool | None:
        """Whether it fits under the ceiling."""
        if self.ask(ceiling) is None:
            self._solve(ceiling)
        while self.bound <= ceiling < self.reached and self._next_round():
            self.ask(ceiling)
        return True if self.reached <= ceiling else False if self.bound > ceiling else None

    def ask(self, ceiling: int) -> bool | None:
        """Whether it fits under the ceiling, by any ranking, as far as the grant goes."""
        for name, rank in self.rankings:
            left = self.options.max_nodes - self.nodes
            if left <= 0:
                return None
            answer = stack(self.boxes, ceiling, rank, min(self.grant, left), self.options.tricks)
            self.nodes += answer.nodes
            if answer.offsets is not None:
                self._reach(answer.offsets, f"stacking by {name}")
                return True
            if answer.finished:
                self.bound = max(self.bound, ceiling + 1)
                return False
        return None

    def _next_round(self) -> bool:
        """Grant each attempt more; False if all work is spent."""
        self.grant *= 4
        return self.nodes < self.options.max_nodes

    def _bisect(self) -> None:
        self.ask(self.bound)
        failed = self.bound
        while self.reached - failed > 1 and self.nodes < self.options.max_nodes:
            ceiling = (failed + self.reached) // 2
            if not self.ask(ceiling):
                failed = ceiling

    def _solve(self, ceiling: int) -> None:
        """Put it to the constraint solver, where that is worth its while."""
        small = len(self.problem.buffers) <= self.options.max_solver_buffers
        if self.bound <= ceiling and small and self.options.solver_work > 0.0:
            by_name = dict(self.best.offsets)
            hint = np.array([by_name[b.name] for b in self.problem.buffers]) // self.unit
            solution = solve(self.boxes, self.bound, ceiling, hint, self.options.solver_work)
            self.bound = max(self.bound, min(solution.bound, self.reached))
            if solution.offsets is not None:
                self._reach(solution.offsets, "constraint solver")

    def _reach(self, offsets: Column, method: str) -> None:
        names = (buffer.name for buffer in self.problem.buffers)
        by_name = dict(zip(names, (offsets * self.unit).tolist(), strict=True))
        found = placement_of(self.problem, by_name, self.best.bound_bytes, method)
        if found.height_bytes < self.best.height_bytes:
            self.best, self.reached = found, found.height_bytes // self.unit


def rankings(boxes: Boxes) -> list[tuple[str, Column]]:
    """Who goes first among boxes of equal floors: rank per box, 0 the first; by name."""
    life = boxes.last - boxes.first
    need = boxes.live @ boxes.size
    tightness = np.array([need[a:b].max() for a, b in zip(boxes.first, boxes.last, strict=True)])
    area = life * boxes.size
    return [
        ("lifetime", _ranks(-life, -area, -tightness)),
        ("start", _ranks(boxes.first, -boxes.size)),
        ("tightness", _ranks(-tightness, -area, -life)),
        ("end", _ranks(-boxes.last, -boxes.size)),
    ]


def _ranks(*keys: Column) -> Column:
    ranks = np.empty(len(keys[0]), dtype=np.int64)
    ranks[np.lexsort(keys[::-1])] = np.arange(len(ranks))
    return ranks


def _scaled(buffer: Buffer, unit: int) -> Buffer:
    fixed = buffer.fixed_offset
    return replace(
        buffer,
        size_bytes=buffer.size_bytes // unit,
        alignment=max(buffer.alignment // unit, 1),
        fixed_offset=None if fixed is None else fixed // unit,
    )
