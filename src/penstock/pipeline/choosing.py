"""The point to compile."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from penstock.choices import Optimize
from penstock.pareto import KNEE, is_dominated, noticeably_faster
from penstock.pipeline.capacity import capacity_error
from penstock.pipeline.emission import draft, final
from penstock.pipeline.placing import PlacedPoint, bytes_and_cycles, with_even_layouts
from penstock.pipeline.request import Request
from penstock.program.constants import weight_bytes
from penstock.program.program import Program
from penstock.program.steps import walk
from penstock.scheduling.model.schedule import Frontier, Schedule

COMMAND_BYTES = 40
"""Code of a call or a loop.  Measured: kws_ref_model and pretrainedResnet_quant, Cortex-M4, -O3."""
MOST_RIVALS = 3
"""Schedules that are compared by their code, those with the fewest parts in loops first."""


def choose(points: tuple[PlacedPoint, ...], request: Request) -> PlacedPoint:
    """Return the feasible point that the request's goal selects.

    points: in ascending order of memory.

    Raises CapacityError if no point is feasible.
    """
    chosen = chosen_index(points, request)
    if chosen is None:
        raise capacity_error(points[0], request)
    return points[chosen]


def chosen_index(points: Sequence[PlacedPoint], request: Request) -> int | None:
    """Return the index of the point that `choose` selects; None if no point is feasible."""
    feasible = [k for k, point in enumerate(points) if point.is_feasible(request)]
    if not feasible:
        return None
    return feasible[picked([points[k] for k in feasible], request.goal)]


def picked(points: Sequence[PlacedPoint], goal: Optimize) -> int:
    """Return the index of the point that a goal selects from those that fit."""
    schedules = [point.schedule for point in points]
    return pick([s.cost.cycles for s in schedules], goal, min(s.pace for s in schedules))


def has_spare_memory(request: Request) -> bool:
    """Return whether a request grants memory to be used: speed within a budget."""
    return request.sram_bytes is not None and request.goal is Optimize.SPEED


def simplest(
    frontier: Frontier, fastest: PlacedPoint, request: Request, executor: Executor | None = None
) -> tuple[PlacedPoint, Program | None]:
    """Return a point with the least code and constants, then of least memory, and its program, if
    no pass of an accelerator must run on it.

    It is one of the points that fit and are not noticeably slower than the fastest.  Their rows are
    in rings or whole tensors as far as the budget allows.
    """

    def is_near(schedule: Schedule) -> bool:
        return not noticeably_faster(fastest.schedule.cost.cycles, than=schedule.cost.cycles)

    limit_bytes = fastest.available_bytes(request)
    near = [s for s in frontier.schedules if is_near(s) and s.peak_bytes <= limit_bytes]
    near.sort(key=_parts_in_loops_and_bytes)
    rivals = (*near[:MOST_RIVALS], fastest.schedule)
    found = with_even_layouts(rivals, request, executor)
    points = (fastest, *(point for point in found if is_near(point.schedule)))
    programs = [draft(point, request) for point in points]
    sizes = [(_code_bytes(q), p.height_bytes) for p, q in zip(points, programs, strict=True)]
    least = sizes.index(min(sizes))
    return points[least], final(programs[least], request)


def with_point(points: Sequence[PlacedPoint], one: PlacedPoint) -> tuple[PlacedPoint, ...]:
    """Return the points and another one, without those that one of them dominates."""
    cost = bytes_and_cycles(one)
    others = (
        point
        for point in points
        if not is_dominated(bytes_and_cycles(point), [cost])
        and not is_dominated(cost, [bytes_and_cycles(point)])
    )
    return tuple(sorted((*others, one), key=bytes_and_cycles))


def _parts_in_loops_and_bytes(schedule: Schedule) -> tuple[int, int]:
    parts = sum(len(plan.parts) for plan in schedule.plans if plan.stripe is not None)
    return parts, schedule.peak_bytes


def _code_bytes(program: Program) -> int:
    """Return an estimate of code and constants, without kernels."""
    return weight_bytes(program) + COMMAND_BYTES * sum(1 for _ in walk(program.run))


def pick(cycles: Sequence[int], goal: Optimize, pace: int | None = None) -> int:
    """The index of the point of a Pareto front, least memory first, that a goal selects.

    `balanced` selects the point of least memory whose cycles exceed `pace` (by default, the least
    of `cycles`) by at most the fraction `KNEE`.

    >>> [pick([1200, 1010, 1000], goal) for goal in Optimize]
    [2, 1, 0]
    """
    if goal is Optimize.SIZE:
        return 0
    if goal is Optimize.SPEED:
        return len(cycles) - 1
    limit = (cycles[-1] if pace is None else pace) * (1 + KNEE)
    return next(k for k, count in enumerate(cycles) if count <= limit)
