"""The stage `place`: assigns an address to every block of the schedules that may be selected.

Each schedule that may be kept is placed quickly.  *Culling* removes points that no request can
select: a point is kept if it is Pareto-optimal in (memory, cycles) and noticeably faster than the
kept point before it (`pareto.merged`).  Only kept points are placed with the whole budget, get
even rows, and are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, repeat, tee
from operator import is_

from penstock.brief import Brief
from penstock.choices import Optimize
from penstock.errors import BackendError, InternalError
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.memory.check import check
from penstock.memory.even_rows import Series, placed_evenly, with_even_rows
from penstock.memory.place import ExactOptions, PlaceOptions, placed_further
from penstock.memory.place import place as place_buffers
from penstock.memory.problem import Placement, PlacementProblem, in_whole_banks, round_up
from penstock.memory.runs import placed_in_runs
from penstock.optional import Failed, attempt_all, outcome, succeeded
from penstock.pareto import merged, noticeably_faster
from penstock.pipeline.assignment import assign_kernels
from penstock.pipeline.request import Request
from penstock.pipeline.search import least_memory_first
from penstock.program.placed_cost import CallCosts, depends_on_addresses, with_placed_costs
from penstock.program.writer import Addresses
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    placement_problems,
    row_series,
)
from penstock.workers import mapped


@frozen(repr=False)
class PlacedPoint(Brief):
    """A schedule with the placement of its blocks in every memory region.

    placement: placement in the default memory region, which holds inputs and outputs.
    others: (name of a memory region, placement) for the other memory regions.
    unbudgeted: names of the memory regions that do not count towards the RAM budget.
    line_bytes: the bytes used in each memory region are rounded up to a multiple of it, because
        drivers write back or invalidate whole cache lines.
    is_finished: whether the accelerators' passes of PROGRAM_PHASE_1 have run on the schedule.
    """

    schedule: Schedule
    placement: Placement
    others: tuple[tuple[str, Placement], ...] = ()
    unbudgeted: frozenset[str] = frozenset()
    line_bytes: int = 1
    is_finished: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether the schedule is one of an alternative graph, or has bands of columns."""
        return bool(self.schedule.assigned_parts.alternative or self.schedule.bands)

    @property
    def heights(self) -> tuple[int, ...]:
        """Bytes used in each memory region that counts towards the budget.

        Those of the default region come first; 0 if it does not count."""
        others = (size for memory, size in self.used_bytes[1:] if memory not in self.unbudgeted)
        return (self.default_bytes if self.default_counts else 0, *others)

    @property
    def default_counts(self) -> bool:
        """Whether the default memory region counts towards the budget."""
        return self.schedule.memory.default not in self.unbudgeted

    @property
    def default_bytes(self) -> int:
        """Bytes used in the default memory region."""
        return self.used_bytes[0][1]

    @property
    def used_bytes(self) -> tuple[tuple[str, int], ...]:
        """(name of a memory region, bytes used in it) pairs, the default region first."""
        return tuple((m, round_up(p.height_bytes, self.line_bytes)) for m, p in self.placements)

    @property
    def height_bytes(self) -> int:
        """Bytes used in all memory regions that count towards the budget."""
        return sum(self.heights)

    @property
    def unbudgeted_bytes(self) -> Mapping[str, int]:
        """Bytes used in each memory region that does not count towards the budget, by name."""
        return {memory: size for memory, size in self.used_bytes if memory in self.unbudgeted}

    @property
    def moved_bytes(self) -> int:
        """Bytes read from and written to memory regions that count towards the budget."""
        cost = self.schedule.cost
        transfers = (*cost.read_bytes, *cost.written_bytes)
        return sum(size for memory, size in transfers if memory not in self.unbudgeted)

    def ram_bytes(self, request: Request) -> int:
        """Return the RAM in bytes: memory regions that count towards the budget, plus the stack."""
        return self.height_bytes + request.stack_bytes

    @property
    def addresses(self) -> Addresses:
        """The offset of every block in its memory region, and the bytes used in each."""
        offsets = {name: at for _, p in self.placements for name, at in p.offsets}
        return Addresses(offsets, self.used_bytes)

    @property
    def placements(self) -> tuple[tuple[str, Placement], ...]:
        """(name of a memory region, placement in it) pairs, the default region first."""
        return ((self.schedule.memory.default, self.placement), *self.others)

    def fits(self, target: Target) -> bool:
        """Return whether each memory region of the target is large enough for its blocks."""
        return all(size <= target.sizes[memory] for memory, size in self.used_bytes)

    def available_bytes(self, request: Request) -> int:
        """Return the bytes of the default memory region that the target and the RAM budget leave
        for its blocks; negative if the other blocks exceed the budget."""
        most = request.target.sizes[self.schedule.memory.default]
        if self.default_counts:
            others = self.ram_bytes(request) - self.default_bytes
            most = min(most, request.ram_limit_bytes - others)
        return most // self.line_bytes * self.line_bytes

    def is_feasible(self, request: Request) -> bool:
        """Return whether the point fits into the target's memories and into the RAM budget."""
        return self.fits(request.target) and self.ram_bytes(request) <= request.ram_limit_bytes


@contextmanager
def located_at(point: PlacedPoint, request: Request) -> Generator[None]:
    """Name a point, and the settings that verify it alone, in errors of the reference machine."""
    try:
        yield
    except (BackendError, InternalError) as error:
        budget, goal, last = point.ram_bytes(request), Optimize.SPEED, "machine"
        alone = f"--sram {budget} --optimize {goal} --last-rung {last}"
        if request.graph is not None:
            alone = f'sram={budget}, optimize="{goal}", last_rung="{last}"'
        again = f"to run this point only, repeat the verification with {alone}"
        where = f"{point.schedule.parts.graph.name}, the point of {point.height_bytes} bytes"
        help = f"{error.help}; {again}" if error.help else again
        raise error.at(where).but(help=help) from error


_Problem = tuple[str, PlacementProblem, tuple[Series, ...]]
"""A memory region, what is placed in it, and the series of rows in it."""
_Placements = tuple[tuple[str, Placement], ...]
"""(memory region, placement), the default region first."""
_Scratched = tuple[ExpandedSchedule, _Placements, CallCosts | None]
"""A schedule, its placements, and what computes the costs of its calls, if it is known."""
_Points = list[tuple[Schedule, PlacedPoint]]
"""Each schedule with a point that it is placed as."""


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
    slowed: list[Schedule] = []
    ascending = target.memory_for("arena").budget  # else more memory costs nothing: fastest first
    schedules = frontier.schedules if ascending else reversed(frontier.schedules)
    candidates = ((s, _Effort()) for s in schedules if _may_survive(s, points, target))
    for found, point in _placed(candidates, target, options, executor):
        on_count(len(points))
        # Workers execute speculatively: an earlier result may rule out a submitted schedule.
        if _may_survive(found, points, target):
            points.append(point)
        if noticeably_faster(found.cost.cycles, than=point.schedule.cost.cycles):
            slowed.append(found)  # because rows are scattered in memory
    adjacent = (
        (s, _Effort(useful_bytes=_useful_bytes(s, points, target), in_runs=True))
        for s in reversed(slowed)
        if _may_survive(s, points, target)
    )
    for _, point in _placed(adjacent, target, options, executor):
        points.append(point)
    return culled(_finished(culled(points, target), target, options, executor), target)


def smallest_point(graph: Graph, request: Request) -> PlacedPoint:
    """Return the point of least RAM of a graph.

    graph: its composites are the sub-graphs claimed by accelerators.
    request: its RAM budget is disregarded.
    """
    target, options = request.target, request.options
    least: PlacedPoint | None = None
    parts = assign_kernels(graph, request)
    for found in least_memory_first(parts, target, options, request.accelerators):
        if least is not None and found.peak_bytes >= least.height_bytes and least.default_counts:
            break  # the live bytes of later schedules are no lower
        ((_, quick),) = _placed(((found, _Effort()),), target, options, None)
        point = min(_finished((quick,), target, options, None), key=_bytes)
        if least is None or _bytes(point) < _bytes(least):
            least = point
    assert least is not None
    return least


def bytes_and_cycles(point: PlacedPoint) -> tuple[int, int]:
    """Return the cost vector of a point: (bytes that count towards the budget, cycles)."""
    return point.height_bytes, point.schedule.cost.cycles


def _bytes(point: PlacedPoint) -> tuple[int, int]:
    """Return the bytes of a point that count, then those in the default memory region."""
    return point.height_bytes, point.default_bytes


def culled(points: Sequence[PlacedPoint], target: Target) -> tuple[PlacedPoint, ...]:
    """Return the points that are kept, in ascending order of memory.

    Points that do not fit into the target's memories are dropped; if none fits, the smallest one is
    kept.  Among points with equal costs, the one that moves the fewest bytes is kept.
    """
    by_traffic = sorted(points, key=lambda point: point.moved_bytes)
    smallest = min(by_traffic, key=lambda point: (*_bytes(point), *bytes_and_cycles(point)))
    fitting = [point for point in by_traffic if point.fits(target)] or [smallest]
    return merged(fitting, bytes_and_cycles)


def _may_survive(schedule: Schedule, placed: Sequence[PlacedPoint], target: Target) -> bool:
    """Return whether culling may keep a schedule, given the points placed before it.

    Schedules arrive in ascending order of peak live bytes, a lower bound of their memory; 0 is the
    bound if the default region does not count.  So neither this schedule nor a later one dominates
    a point that needs no more memory than this bound.  If the schedule is not noticeably faster
    than the fastest such point that culling keeps, it need not be placed.
    """
    bound = schedule.peak_bytes if target.memory_for("arena").budget else 0
    final = (p for p in placed if p.height_bytes <= bound and p.fits(target))
    kept = merged(final, bytes_and_cycles)
    return not kept or noticeably_faster(schedule.cost.cycles, kept[-1].schedule.cost.cycles)


def _useful_bytes(schedule: Schedule, placed: Sequence[PlacedPoint], target: Target) -> float:
    """Return the bytes from which on a placement of a schedule is of no use.

    A point that needs no more is noticeably faster than the schedule with contiguous rows, which
    are never noticeably slower than rows at addresses.  Infinite if the default region does not
    count."""
    if not target.memory_for("arena").budget:
        return math.inf
    rivals = (
        point.height_bytes
        for point in placed
        if noticeably_faster(point.schedule.cost.cycles, than=schedule.cost.cycles)
        and point.fits(target)
    )
    return min(rivals, default=math.inf)


def _finished(
    points: Sequence[PlacedPoint], target: Target, options: Options, executor: Executor | None
) -> list[PlacedPoint]:
    """Return points whose placements are checked; they are no higher than those of `points`.

    If the cost of a point depends on addresses, it is among them.
    """
    known = ((point.schedule, _Effort(point.placements)) for point in points)
    return [point for _, point in _placed(known, target, options, executor)]


def with_even_layouts(
    schedules: Sequence[Schedule], request: Request, executor: Executor | None
) -> list[PlacedPoint]:
    """Return the feasible points of schedules, their rows in rings or whole tensors as far as the
    RAM budget allows."""
    target, options = request.target, request.options
    every = _placed(((s, _Effort()) for s in schedules), target, options, executor)
    known = (
        (point.schedule, _Effort(point.placements, point.available_bytes(request)))
        for _, point in every
        if point.is_feasible(request)
    )
    found = (point for _, point in _placed(known, target, options, executor))
    return [point for point in found if point.is_feasible(request)]


def _placed(
    schedules: Iterable[tuple[Schedule, _Effort]],
    target: Target,
    options: Options,
    executor: Executor | None,
) -> Iterator[tuple[Schedule, PlacedPoint]]:
    """Yield (schedule, point) for each placement of each schedule; the cost of a point is that at
    its addresses.

    A schedule that cannot be placed is dropped if there are others.
    Without an executor, a schedule is requested only after the previous one is placed.  Workers
    receive the placement problems, not the network.
    """
    unbudgeted = frozenset(memory.name for memory in target.memories if not memory.budget)
    limits = ExactOptions(max_nodes=options.placement_nodes, solver_work=options.placement_work)
    banks = {m.name: m.bank_bytes for m in target.memories if m.bank_bytes}
    tasks, again = tee(outcome(partial(_task, banks), each) for each in schedules)
    blocks = (task if isinstance(task, Failed) else (task.problems, task.effort) for task in again)
    place_options = PlaceOptions(exact=limits)
    place_blocks = _place_blocks if executor is None else _all_placements
    place_one = partial(outcome, partial(place_blocks, place_options))
    pairs = zip(tasks, mapped(place_one, blocks, executor), strict=True)

    def costed(pair: tuple[_Task | Failed, Iterable[_Placements] | Failed]) -> _Points:
        task, schedule = succeeded(pair[0]), succeeded(pair[0]).expanded.schedule
        return [(schedule, point) for point in costed_points(task, succeeded(pair[1]))]

    def costed_points(task: _Task, every: Iterable[_Placements]) -> Iterator[PlacedPoint]:
        for placements in chain(every, _kept(task)):
            counted = (p.height_bytes for memory, p in placements if memory not in unbudgeted)
            if sum(counted) >= task.effort.useful_bytes:
                continue
            scratched = _with_least_scratch(task, placements, banks, place_options)
            if scratched is None:
                continue
            expanded, found, known = scratched
            parts = expanded.schedule.parts.parts
            line = max((part.kernel.cache_line_bytes for part in parts), default=1)
            point = PlacedPoint(expanded.schedule, found[0][1], found[1:], unbudgeted, line)
            schedule = expanded.schedule
            if expanded is not task.expanded or not _are_same(found, task.effort.known):
                schedule = with_placed_costs(expanded, point.addresses, known)
            yield replace(point, schedule=schedule)
            if not noticeably_faster(task.expanded.schedule.cost.cycles, schedule.cost.cycles):
                break  # the others are no faster

    return chain.from_iterable(attempt_all("a point of the frontier", pairs, costed))


@frozen
class _Effort:
    """What is done to place a schedule.

    known: placements to finish: to lower further, and to check; the schedule has its costs at their
        addresses.  None: the schedule is placed quickly.
    ceiling_bytes: of the default region, to which rows in rings or whole tensors may raise it.
    in_runs: whether the rows of each tensor are adjacent as far as possible, in several placements
        of different heights.
    useful_bytes: placements that need as much, in all regions that count, are dropped.
    """

    known: _Placements | None = None
    ceiling_bytes: int = 0
    in_runs: bool = False
    useful_bytes: float = math.inf


@frozen
class _Task:
    """A schedule, what is to be placed in each of its memory regions, and how."""

    expanded: ExpandedSchedule
    problems: tuple[_Problem, ...]
    effort: _Effort


def _task(banks: Mapping[str, int], wanted: tuple[Schedule, _Effort]) -> _Task:
    """Return what is to be placed of a schedule.

    Even rows are for the code of finished points, and for kernels whose cost depends on addresses.
    banks: the size of a bank of each region in which buffers must not share one.
    """
    schedule, effort = wanted
    expanded = ExpandedSchedule(schedule)
    is_even = effort.known is not None or depends_on_addresses(schedule)
    series = dict(row_series(expanded, addressed=effort.in_runs) if is_even else ())
    problems = (
        (
            memory,
            in_whole_banks(problem, banks[memory]) if memory in banks else problem,
            series.get(memory, ()),
        )
        for memory, problem in placement_problems(expanded)
    )
    return _Task(expanded, tuple(problems), effort)


def _with_least_scratch(
    task: _Task, found: _Placements, banks: Mapping[str, int], options: PlaceOptions
) -> _Scratched | None:
    """Return the lower one of two results of `_with_placed_scratch` if calls of a schedule that is
    placed quickly need more scratch memory than their kernels state.

    Orders that are improved scatter more rows: bytes gained are lost again if scratch grows."""
    best = _with_placed_scratch(task, found, banks, options)
    if best is None or best[0] is task.expanded or task.effort != _Effort():
        return best
    plain = options.unimproved
    (found, *_) = _place_blocks(plain, (task.problems, task.effort))
    other = _with_placed_scratch(task, found, banks, plain)
    return min((x for x in (best, other) if x), key=lambda x: sum(p.height_bytes for _, p in x[1]))


def _with_placed_scratch(
    task: _Task, found: _Placements, banks: Mapping[str, int], options: PlaceOptions
) -> _Scratched | None:
    """Return the schedule and placements with the scratch memory that calls need at the addresses,
    and what computes the costs of the calls, if it is known.

    Calls may need more than their kernels state if rows are scattered in memory.  Where the
    placements `found` reserve less, the schedule is placed again, or keeps the placements that it
    had before, or the result is None if its rows are to be in runs; where they reserve more, the
    rest is released.
    """
    expanded = task.expanded
    if not any(part.kernel.placed_scratch for part in expanded.schedule.steps):
        return expanded, found, None
    while True:
        costs = CallCosts.of(expanded, _addresses(found))
        needs = costs.placed_scratch()
        plans = expanded.schedule.plans
        lacking = [n > plan.scratch_block_bytes for n, plan in zip(needs, plans, strict=True)]
        if not any(lacking):
            break
        if task.effort.in_runs:
            return None
        if task.effort.known is not None:
            found = task.effort.known
            continue
        more = (
            replace(plan, placed_scratch_bytes=need) if lacks else plan
            for plan, need, lacks in zip(plans, needs, lacking, strict=True)
        )
        schedule = replace(expanded.schedule, plans=tuple(more))
        again = _task(banks, (schedule, _Effort()))
        (found,) = _place_blocks(options, (again.problems, again.effort))
        expanded = again.expanded
    exact = tuple(
        need if need > plan.scratch_bytes else 0 for plan, need in zip(plans, needs, strict=True)
    )
    if exact == tuple(plan.placed_scratch_bytes for plan in plans):
        return expanded, found, costs
    fewer = (
        replace(plan, placed_scratch_bytes=size) for plan, size in zip(plans, exact, strict=True)
    )
    expanded = ExpandedSchedule(replace(expanded.schedule, plans=tuple(fewer)))
    problems = dict(placement_problems(expanded))
    return expanded, tuple((m, _restricted(placed, problems[m])) for m, placed in found), None


def _restricted(placement: Placement, problem: PlacementProblem) -> Placement:
    """Return a placement for a problem with fewer or smaller buffers, at the same offsets."""
    known = dict(placement.offsets)
    offsets = tuple((buffer.name, known[buffer.name]) for buffer in problem.buffers)
    height = max((known[b.name] + b.size_bytes for b in problem.buffers), default=0)
    return replace(placement, offsets=offsets, height_bytes=height)


def _addresses(found: _Placements) -> Addresses:
    offsets = {name: at for _, placement in found for name, at in placement.offsets}
    return Addresses(offsets, tuple((memory, p.height_bytes) for memory, p in found))


_Blocks = tuple[tuple[_Problem, ...], _Effort]
"""What is to be placed, and how."""


def _all_placements(options: PlaceOptions, blocks: _Blocks) -> tuple[_Placements, ...]:
    """Return all results of `_place_blocks`, for a worker."""
    return tuple(_place_blocks(options, blocks))


def _place_blocks(options: PlaceOptions, blocks: _Blocks) -> Iterable[_Placements]:
    """Return (memory region, placement) for each problem; several times, on demand, if rows are to
    be in runs."""
    problems, effort = blocks
    if effort.in_runs:
        return _in_runs(problems, options, effort.useful_bytes)
    if effort.known is None:
        return (
            tuple(
                (memory, with_even_rows(problem, place_buffers(problem, options.quick), series))
                for memory, problem, series in problems
            ),
        )
    found: list[tuple[str, Placement]] = []
    for (memory, problem, series), (_, quick) in zip(problems, effort.known, strict=True):
        placement = None
        if effort.ceiling_bytes and not found:
            ceiling_bytes = effort.ceiling_bytes
            placement = placed_evenly(problem, series, ceiling_bytes, options.quick.rows)
        placement = placement or placed_further(problem, quick, options)
        if not placement.optimal and (
            even := placed_evenly(problem, series, placement.height_bytes - 1, options.quick.rows)
        ):
            placement = even
        placement = with_even_rows(problem, placement, series)
        placement = replace(placement, bound_bytes=quick.bound_bytes)  # ties are no reason for more
        found.append((memory, _checked(problem, placement)))
    return (tuple(found),)


def _in_runs(
    problems: tuple[_Problem, ...], options: PlaceOptions, useful_bytes: float
) -> Iterator[_Placements]:
    """Yield placements with the rows of each tensor in runs of adjacent rows.

    useful_bytes: as in `_Effort`, which limits the default region."""
    limits = chain((useful_bytes,), repeat(math.inf))
    every = [
        placed_in_runs(problem, series, limit)
        if series
        else iter((place_buffers(problem, options.quick),))
        for (_, problem, series), limit in zip(problems, limits, strict=False)
    ]
    memories = [memory for memory, _, _ in problems]
    latest: list[Placement | None] = [None] * len(every)
    while True:
        found = [next(placements, last) for placements, last in zip(every, latest, strict=True)]
        if None in found or all(map(is_, found, latest)):
            return
        latest = found
        yield tuple((m, p) for m, p in zip(memories, found, strict=True) if p is not None)


def _are_same(found: _Placements, known: _Placements | None) -> bool:
    """Return whether buffers lie where they lay when the schedule got its costs."""
    return known is not None and [p.offsets for _, p in found] == [p.offsets for _, p in known]


def _kept(task: _Task) -> Iterator[_Placements]:
    """Yield the placements to finish if others that are no higher may be slower."""
    if task.effort.known is not None and depends_on_addresses(task.expanded.schedule):
        for (_, problem, _), (_, placement) in zip(task.problems, task.effort.known, strict=True):
            _checked(problem, placement)
        yield task.effort.known


def _checked(problem: PlacementProblem, placement: Placement) -> Placement:
    if faults := check(problem, placement):
        raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
    return placement
