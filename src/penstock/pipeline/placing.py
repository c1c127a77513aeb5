"""The stage `place`: assigns an address to every block of the schedules that may be selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee

from penstock.errors import InternalError
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.memory.bank_groups import in_whole_banks
from penstock.memory.check import check
from penstock.memory.even_rows import Series, with_even_rows
from penstock.memory.exact import ExactOptions
from penstock.memory.place import PlaceOptions
from penstock.memory.place import place as place_buffers
from penstock.memory.problem import Placement, PlacementProblem
from penstock.optional import Failed, attempt_all, outcome, succeeded
from penstock.pipeline.assignment import assign_kernels
from penstock.pipeline.culling import culled, may_survive
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.request import Request
from penstock.pipeline.search import least_memory_first
from penstock.program.placed_cost import with_placed_costs
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import placement_problems, row_series
from penstock.workers import mapped

_Problem = tuple[str, PlacementProblem, tuple[Series, ...]]
"""A memory region, what is placed in it, and the series of rows in it."""
_Placements = tuple[tuple[str, Placement], ...]
"""(memory region, placement), the default region first."""


def place(
    frontier: Frontier,
    target: Target,
    options: Options,
    executor: Executor | None = None,
    on_count: Callable[[int], None] = lambda done: None,
) -> tuple[PlacedPoint, ...]:
    """Place the schedules of a frontier, and return the points that culling keeps.

    The points are in ascending order of memory.
    executor: runs placements in parallel; None: this process does all work.
    on_count: called for each placed schedule, with the number of points kept before it.
    """
    points: list[PlacedPoint] = []
    candidates = (s for s in frontier.schedules if may_survive(s, points, target))
    for found, point in _placed(candidates, target, options, executor):
        on_count(len(points))
        # Workers execute speculatively: an earlier result may rule out a submitted schedule.
        if may_survive(found, points, target):
            points.append(point)
    return culled(points, target)


def smallest_point(graph: Graph, request: Request) -> PlacedPoint:
    """Return the point of least RAM of a graph.

    graph: its composites are the sub-graphs claimed by accelerators.
    request: its RAM budget is disregarded.
    """
    least: PlacedPoint | None = None
    parts = assign_kernels(graph, request)
    for found in least_memory_first(parts, request.target, request.options, request.accelerators):
        if least is not None and found.peak_bytes >= least.height_bytes:
            break  # the live bytes of later schedules are no lower
        ((_, point),) = _placed((found,), request.target, request.options, None)
        if least is None or point.height_bytes < least.height_bytes:
            least = point
    assert least is not None
    return least


def _placed(
    schedules: Iterable[Schedule], target: Target, options: Options, executor: Executor | None
) -> Iterator[tuple[Schedule, PlacedPoint]]:
    """Yield (schedule, point) for each schedule; the cost of the point is that at its addresses.

    A schedule that cannot be placed is dropped if there are others.
    Without an executor, a schedule is requested only after the previous one is placed.  Workers
    receive the placement problems, not the network.
    """
    unbudgeted = frozenset(memory.name for memory in target.memories if not memory.budget)
    limits = ExactOptions(max_nodes=options.placement_nodes, solver_work=options.placement_work)
    banks = {m.name: m.bank_bytes for m in target.memories if m.bank_bytes}
    tasks, again = tee(outcome(partial(_task, banks), schedule) for schedule in schedules)
    blocks = (task if isinstance(task, Failed) else task.problems for task in again)
    place_one = partial(outcome, partial(_place_blocks, PlaceOptions(exact=limits)))
    pairs = zip(tasks, mapped(place_one, blocks, executor), strict=True)

    def costed(pair: tuple[_Task | Failed, _Placements | Failed]) -> tuple[Schedule, PlacedPoint]:
        expanded, found = succeeded(pair[0]).expanded, succeeded(pair[1])
        point = PlacedPoint(expanded.schedule, found[0][1], found[1:], unbudgeted)
        schedule = with_placed_costs(expanded, point.addresses)
        return expanded.schedule, replace(point, schedule=schedule)

    return attempt_all("a point of the frontier", pairs, costed)


@dataclass(frozen=True, slots=True)
class _Task:
    """A schedule, and what is to be placed in each of its memory regions."""

    expanded: ExpandedSchedule
    problems: tuple[_Problem, ...]


def _task(banks: Mapping[str, int], schedule: Schedule) -> _Task:
    """Return what is to be placed of a schedule.

    banks: the size of a bank of each region in which buffers must not share one.
    """
    expanded = ExpandedSchedule(schedule)
    series = dict(row_series(expanded))
    problems = (
        (
            memory,
            in_whole_banks(problem, banks[memory]) if memory in banks else problem,
            series.get(memory, ()),
        )
        for memory, problem in placement_problems(expanded)
    )
    return _Task(expanded, tuple(problems))


def _place_blocks(options: PlaceOptions, problems: tuple[_Problem, ...]) -> _Placements:
    """Return (memory region, checked placement) for each placement problem."""
    found: list[tuple[str, Placement]] = []
    for memory, problem, series in problems:
        placement = with_even_rows(problem, place_buffers(problem, options), series)
        if faults := check(problem, placement):
            raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
        found.append((memory, placement))
    return tuple(found)
