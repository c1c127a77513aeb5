"""Solver: the decision problem of `stacking` for a constraint solver (CP-SAT, NoOverlap2D).

On random near-full problems of up to 90 boxes it proves optimality in milliseconds where `stacking`
does not finish; from about 150 boxes on the search is better.  So both are tried.  One worker, a
fixed seed and a budget in deterministic time make results the same on every machine.

The library, OR-Tools, is optional: the extra `optimal` installs it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from penstock.memory.problem import Column
from penstock.memory.stacking import Boxes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, CpSolverStatus, LinearExprT


@cache
def is_installed() -> bool:
    """Return whether the library of the constraint solver is installed."""
    return find_spec("ortools") is not None


_SECONDS_BETWEEN_REQUESTS = 0.05


@dataclass(frozen=True, slots=True)
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
