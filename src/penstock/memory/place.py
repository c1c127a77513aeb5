"""Place: selects the exact placer for small problems, the row placer for large or tied ones.

Exact placement lowers the greedy placement until it is proven optimal or the budget is spent.  The
search (`stacking`) decides one ceiling: feasible, infeasible or unknown.  Each round tries the
lower bound first, then bisects between infeasible and feasible ceilings with several rankings per
ceiling.  The next round allows four times as many nodes per attempt.  After the first round, a
constraint solver (`solver`) tries small problems once, if it is installed.

Work is counted in search nodes and the solver's deterministic seconds, never in time, so results
are the same on every machine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import field, replace
from math import ceil, gcd
from typing import TYPE_CHECKING

import numpy as np

from penstock.frozen import frozen
from penstock.memory.greedy import place_greedily, placement_at
from penstock.memory.problem import Column, LiveBuffer, Placement, PlacementProblem, peak_live_bytes
from penstock.memory.rows import RowOptions, place_rows
from penstock.memory.solver import is_installed
from penstock.memory.stacking import Boxes, buffers_as_boxes, stack

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, CpSolverStatus, LinearExprT


_SECONDS_BETWEEN_REQUESTS = 0.05


@frozen
class Solution:
    """Result of the solver.

    offsets: the lowest offsets found under the ceiling, if any.
    bound: proven lower bound of the height; above the ceiling if nothing fits under it.
    """

    offsets: Column | None
    bound: int


def solve(boxes: Boxes, bound: int, ceiling: int, hint: Column, work: float) -> Solution:
    """Minimise the height of boxes within [bound, ceiling].

    hint: a known placement, possibly above the ceiling, from which the solver starts.
    work: budget in the solver's deterministic seconds.
    """
    from ortools.sat.python import cp_model  # imported late: it takes a third of a second

    model = cp_model.CpModel()
    height = model.new_int_var(bound, ceiling, "height")
    places = [_place(model, boxes, box, int(hint[box]), ceiling) for box in range(len(boxes.size))]
    lives: list[cp_model.IntervalVar] = []
    spans: list[cp_model.IntervalVar] = []
    for box, place in enumerate(places):
        first, last, size = (int(c[box]) for c in (boxes.first, boxes.last, boxes.size))
        lives.append(model.new_fixed_size_interval_var(first, last - first, f"life{box}"))
        spans.append(model.new_fixed_size_interval_var(place, size, f"span{box}"))
        model.add(place + size <= height)
    model.add_no_overlap_2d(lives, spans)
    model.minimize(height)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = work
    solver.parameters.catch_sigint_signal = False  # it would return what it has, as if complete
    status = _interruptible(solver, model)
    if status == cp_model.INFEASIBLE:
        return Solution(None, ceiling + 1)
    proven = max(bound, ceil(solver.best_objective_bound - 1e-6))  # the height is an integer
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, proven)
    return Solution(np.array([solver.value(place) for place in places], dtype=np.int64), proven)


def _interruptible(solver: CpSolver, model: CpModel) -> CpSolverStatus:
    """Solve the model and return the status; an interrupt stops the solver.

    The solver runs in a thread of its own, since Python handles a signal only once the library
    function that the main thread is in has returned."""
    with ThreadPoolExecutor(1) as pool:
        solved = pool.submit(solver.solve, model)
        try:
            return solved.result()
        except BaseException:
            while not solved.done():  # a search that has not begun yet ignores the first request
                solver.stop_search()
                wait((solved,), _SECONDS_BETWEEN_REQUESTS)
            raise


def _place(model: CpModel, boxes: Boxes, box: int, hint: int, ceiling: int) -> LinearExprT:
    """Return the offset of a box, a multiple of its alignment."""
    alignment = int(boxes.alignment[box])
    highest = (ceiling - int(boxes.size[box])) // alignment
    steps = model.new_int_var(0, max(highest, 0), f"steps{box}")
    model.add_hint(steps, min(hint // alignment, max(highest, 0)))
    return steps * alignment


@frozen
class ExactOptions:
    """Budget of exact placement.

    max_nodes: attempts to place one buffer, over all rounds.
    max_buffers: larger problems are placed greedily, since the tables of the search grow
        quadratically.
    solver_work: deterministic seconds of the constraint solver; 0.0 disables it.
    max_solver_buffers: larger problems skip the solver.
    """

    max_nodes: int = 20_000
    max_buffers: int = 4_000
    solver_work: float = 0.5
    max_solver_buffers: int = 150


@frozen
class FitVerdict:
    """Whether a problem fits under a ceiling.

    fits: True with offsets, False if proven infeasible, None if unknown.
    """

    fits: bool | None
    offsets: dict[str, int]
    nodes: int


def place_exactly(problem: PlacementProblem, options: ExactOptions | None = None) -> Placement:
    """Return the lowest placement found, never above the greedy one.

    Ignores the capacity.  Compare it with `height_bytes` (fits) and `bound_bytes` (can never fit).
    """
    options = options or ExactOptions()
    greedy = place_greedily(problem)
    if greedy.optimal or len(problem.buffers) > options.max_buffers:
        return greedy
    descent = _Descent(problem, greedy, options)
    descent.run()
    return replace(descent.best, bound_bytes=descent.bound_bytes, nodes=descent.nodes)


def fit(
    problem: PlacementProblem, ceiling_bytes: int, options: ExactOptions | None = None
) -> FitVerdict:
    """Return whether a problem can be placed under a ceiling; ignores the problem's capacity."""
    options = options or ExactOptions()
    if peak_live_bytes(problem) > ceiling_bytes:
        return FitVerdict(False, {}, 0)
    greedy = place_greedily(problem)
    if greedy.height_bytes <= ceiling_bytes:
        return FitVerdict(True, dict(greedy.offsets), 0)
    if len(problem.buffers) > options.max_buffers:
        return FitVerdict(None, {}, 0)
    descent = _Descent(problem, greedy, options)
    fits = descent.decide(ceiling_bytes // descent.unit)
    return FitVerdict(fits, dict(descent.best.offsets) if fits else {}, descent.nodes)


def unit_bytes(buffers: tuple[LiveBuffer, ...]) -> int:
    """Return the largest unit of which all offsets of a settled placement (see `stacking`) are
    multiples.

    Offsets result from adding sizes and rounding up to alignments.  A multiple of `unit` remains
    one when it is rounded up to an alignment that divides `unit` or is a multiple of it; for any
    other alignment the unit shrinks.
    """
    unit = 0
    for buffer in buffers:
        unit = gcd(unit, buffer.size_bytes)
    while misfits := [b for b in buffers if b.alignment % unit and unit % b.alignment]:
        unit = gcd(unit, misfits[0].alignment)
    return unit


class _Descent:
    """State of one run: feasible and infeasible heights, and the work spent.

    reached: least height found, in units; bound: proven lower bound; grant: node budget per
        attempt.
    """

    def __init__(self, problem: PlacementProblem, greedy: Placement, options: ExactOptions) -> None:
        self.problem, self.options, self.best = problem, options, greedy
        self.unit = unit_bytes(problem.buffers)
        self.boxes = buffers_as_boxes(tuple(_scaled(b, self.unit) for b in problem.buffers))
        self.rankings = rankings(self.boxes)
        self.reached = greedy.height_bytes // self.unit
        self.bound = -(-greedy.bound_bytes // self.unit)
        self.grant = len(problem.buffers) + 100
        self.nodes = 0

    @property
    def bound_bytes(self) -> int:
        return self.bound * self.unit

    def run(self) -> None:
        """Lower the best placement and raise the bound until they meet or the budget is spent."""
        self._bisect()
        self._solve(self.reached - 1)
        while self.bound < self.reached and self._next_round():
            self._bisect()

    def decide(self, ceiling: int) -> bool | None:
        """Return whether the problem fits under a ceiling, in units; None if unknown."""
        if self.ask(ceiling) is None:
            self._solve(ceiling)
        while self.bound <= ceiling < self.reached and self._next_round():
            self.ask(ceiling)
        return True if self.reached <= ceiling else False if self.bound > ceiling else None

    def ask(self, ceiling: int) -> bool | None:
        """Return whether the problem fits under a ceiling, trying each ranking within the current
        grant.
        """
        for name, rank in self.rankings:
            left = self.options.max_nodes - self.nodes
            if left <= 0:
                return None
            answer = stack(self.boxes, ceiling, rank, min(self.grant, left))
            self.nodes += answer.nodes
            if answer.offsets is not None:
                self._reach(answer.offsets, f"stacking by {name}")
                return True
            if answer.finished:
                self.bound = max(self.bound, ceiling + 1)
                return False
        return None

    def _next_round(self) -> bool:
        """Increase the grant; return False if the budget is spent."""
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
        """Run the constraint solver if it is installed and the problem is small enough."""
        small = len(self.problem.buffers) <= self.options.max_solver_buffers
        wanted = self.options.solver_work > 0.0 and self.bound <= ceiling and small
        if wanted and is_installed():
            by_name = dict(self.best.offsets)
            hint = np.array([by_name[b.name] for b in self.problem.buffers]) // self.unit
            solution = solve(self.boxes, self.bound, ceiling, hint, self.options.solver_work)
            self.bound = max(self.bound, min(solution.bound, self.reached))
            if solution.offsets is not None:
                self._reach(solution.offsets, "constraint solver")

    def _reach(self, offsets: Column, method: str) -> None:
        names = (buffer.name for buffer in self.problem.buffers)
        by_name = dict(zip(names, (offsets * self.unit).tolist(), strict=True))
        found = placement_at(self.problem, by_name, self.best.bound_bytes, method)
        if found.height_bytes < self.best.height_bytes:
            self.best, self.reached = found, found.height_bytes // self.unit


def rankings(boxes: Boxes) -> list[tuple[str, Column]]:
    """Return the rankings by name: ranks that break ties between equal floors, 0 first."""
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


def _scaled(buffer: LiveBuffer, unit: int) -> LiveBuffer:
    return replace(
        buffer,
        size_bytes=buffer.size_bytes // unit,
        alignment=max(buffer.alignment // unit, 1),
    )


@frozen
class PlaceOptions:
    """Options of the placers.

    max_exact_buffers: problems with more buffers, or with tied ones, go to the row placer.
    """

    exact: ExactOptions = field(default_factory=ExactOptions)
    rows: RowOptions = field(default_factory=RowOptions)
    max_exact_buffers: int = 64

    @property
    def quick(self) -> PlaceOptions:
        """The options with the first round of the row placer alone."""
        return replace(self, rows=replace(self.rows, rounds=self.rows.rounds[:1]))

    @property
    def unimproved(self) -> PlaceOptions:
        """The options without improvement of the row placer's orders."""
        return replace(self, rows=replace(self.rows, rounds=()))

    def is_exact(self, problem: PlacementProblem) -> bool:
        """Return whether the exact placer places a problem."""
        few = len(problem.buffers) <= self.max_exact_buffers
        return few and not any(buffer.tied for buffer in problem.buffers)


def place(problem: PlacementProblem, options: PlaceOptions | None = None) -> Placement:
    """Return the lowest placement found; `Placement.gap` is its optimality gap.

    Ignores the capacity.  Compare it with `height_bytes` (fits) and `bound_bytes` (can never fit).
    """
    options = options or PlaceOptions()
    if options.is_exact(problem):
        return place_exactly(problem, options.exact)
    return place_rows(problem, options.rows)


def placed_further(problem: PlacementProblem, found: Placement, options: PlaceOptions) -> Placement:
    """Return a placement that is no higher than one found with `options.quick`."""
    done = found.optimal or options.is_exact(problem) or options.quick == options
    return found if done else place_rows(problem, options.rows)
