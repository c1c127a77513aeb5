"""Solver: the same question as `stacking`, put to a constraint solver (CP-SAT, NoOverlap2D).

Measured on random near-full problems of up to 90 boxes it proves an optimum in milliseconds where
`stacking` does not finish; from some 150 boxes on it is the other way round. So both are asked.
One worker, a fixed seed and a budget in deterministic time: the same answer on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from penstock.memory.problem import Column
from penstock.memory.stacking import Boxes

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, LinearExprT


@dataclass(frozen=True, slots=True)
class Solution:
    """The lowest offsets found under the ceiling, if any, and a proven lower bound of heights."""

    offsets: Column | None
    bound: int  # above the ceiling if it is proven that nothing fits under it


def solve(boxes: Boxes, bound: int, ceiling: int, hint: Column, work: float) -> Solution:
    """Least height of boxes in [bound, ceiling]; `work` is in the solver's deterministic seconds.

    `hint` is a known placement, higher than the ceiling perhaps, from which the solver starts.
    """
    from ortools.sat.python import cp_model  # here, for it takes a third of a second

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
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Solution(None, ceiling + 1)
    proven = max(bound, ceil(solver.best_objective_bound - 1e-6))  # the height is whole
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solution(None, proven)
    return Solution(np.array([solver.value(place) for place in places], dtype=np.int64), proven)


def _place(model: CpModel, boxes: Boxes, box: int, hint: int, ceiling: int) -> LinearExprT:
    """The offset of a box: a constant where it is fixed, else a multiple of its alignment."""
    if boxes.fixed[box] >= 0:
        return int(boxes.fixed[box])
    alignment = int(boxes.alignment[box])
    highest = (ceiling - int(boxes.size[box])) // alignment
    steps = model.new_int_var(0, max(highest, 0), f"steps{box}")
    model.add_hint(steps, min(hint // alignment, max(highest, 0)))
    return steps * alignment
