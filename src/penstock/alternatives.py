"""Alternatives to the chosen point, with the command-line options that select them.

Figures are exact: the same command with these options yields these bytes and cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from penstock.choices import Optimize
from penstock.errors import UnsupportedError, UsageError
from penstock.frozen import frozen
from penstock.ir.graph import Graph
from penstock.optional import Elsewhere, attempt, attempt_each, elsewhere
from penstock.pareto import KNEE
from penstock.passes.incremental import incremental
from penstock.pipeline.assignment import assign_engines, assigned_again
from penstock.pipeline.capacity import smaller_kernels
from penstock.pipeline.choosing import chosen_index, picked
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.graphs import simplify
from penstock.pipeline.placing import PlacedPoint, culled, place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule, schedules_by_rows, searches, with_alternatives
from penstock.reports.report import Alternative, Flash, SmallerKernels
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.cascades.search import FrontierSearch
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule

# Networks of at most this many parts are also planned with other options, which takes up to 1 s.
# MobileNetV2 with 68 parts took 9 s, three quarters of the compilation.
PLANNED_PARTS: Final = 48
# The same if the search also assigns tensors to memories, which takes longer for each part.
PLANNED_PARTS_WITH_MEMORIES: Final = 32
# Relative cycles of a point that is proposed because it needs less RAM.
ACCEPTED_SLOWDOWN: Final = Fraction(11, 10)
# Estimated relative cycles up to which a point that recomputes may be selected: `balanced` accepts
# `KNEE` above the fastest point, and the estimates are rarely too high.
RELEVANT_SLOWDOWN: Final = 1.02
# Numbers of new frames per run for which a network may be made incremental; convolutions with
# strides demand more than one.
HOPS_TRIED: Final = (1, 2, 4)
# Largest tensor of a network for which an incremental network is planned: it takes one evaluation,
# with up to 100 bytes for each element.
MOST_ELEMENTS: Final = 2**22
# By what factor an incremental network has fewer multiply-accumulates per run, at least.
LEAST_SAVING: Final = 2

NOTABLE_TABLE_BYTES: Final = 4096
# Tables of kernels are notable if they need that many bytes, and that share of the model's.
NOTABLE_TABLE_SHARE: Final = Fraction(1, 8)


@frozen
class Planned:
    """The frontier with other options.

    `least_bytes` is its least RAM in bytes.  `chosen` is the RAM in bytes and the cycles of the
    point that the request's goal selects; None if no point is feasible."""

    least_bytes: int
    chosen: tuple[int, int] | None

    def helps(self, ram_bytes: int, cycles: int) -> bool:
        """Whether the selected point needs less RAM or fewer cycles than the arguments."""
        return self.chosen is not None and (self.chosen[0] < ram_bytes or self.chosen[1] < cycles)


def planned(model: Graph, request: Request) -> Planned:
    """Run the stages up to `place` on a graph as it is read."""
    simplified = simplify(model, request.rounding, request.io)
    return _planned(assign_engines(simplified, request), request)


def _planned(parts: Parts, request: Request) -> Planned:
    points = _needed_points(parts, request)
    chosen = chosen_index(points, request)
    figures = None if chosen is None else _bytes_and_cycles(points[chosen], request)
    return Planned(points[0].ram_bytes(request), figures)


def _needed_points(parts: Parts, request: Request) -> tuple[PlacedPoint, ...]:
    """The points of the frontier, without slow ones that recompute and cannot be selected."""
    # The smallest point is among them.  Building the schedules that recompute takes most of the
    # time of a search.
    target, options = request.target, request.options
    by_rows: list[Schedule] = []
    below_rows: list[tuple[FrontierSearch, Proposal]] = []
    for search in searches(parts, target, options, by_rows, request.accelerators):
        by_rows += schedules_by_rows(search)
        below_rows += ((search, proposal) for proposal in search.below_rows)
    points = place(with_alternatives(by_rows), target, options)
    slowest = RELEVANT_SLOWDOWN * min(point.schedule.pace for point in points)
    for search, proposal in below_rows:
        smaller = proposal.peak_bytes < points[0].height_bytes
        if smaller or search.estimated_cycles(proposal) <= slowest:
            found = search.schedule_below_rows(proposal)
            if found is None or found.peak_bytes > proposal.peak_bytes:
                break  # the estimates do not tell which points are needed
            points = culled((*points, *place(Frontier((found,)), target, options)), target)
    else:
        feasible = [p.schedule.cost.cycles for p in points if p.is_feasible(request)]
        exceeded = bool(feasible) and feasible[-1] * (1 + KNEE) > slowest
        if request.goal is Optimize.SIZE or not exceeded:
            return points
    return place(schedule(parts, target, options, request.accelerators), target, options)


def streamed(model: Graph, parts: Parts, request: Request) -> Planned | None:
    """The frontier with a streamed input; None if it is not planned.

    parts: those of the network without streaming."""
    # Then each placement prices its calls anew: half of a compilation for Ethos-U55.
    is_costly = any(part.kernel.placed for part in parts.parts)
    if not is_planned(len(parts.parts), request) or (is_costly and not request.plan_streaming):
        return None
    wanted = replace(request, stream_input=True)

    def compute() -> Planned:
        if request.accelerators:
            return _planned(assigned_again(parts, wanted), wanted)
        return planned(model, wanted)

    return attempt("a streamed input", compute, lambda: None)


def streamed_model(model: Graph, request: Request) -> Elsewhere[Planned | None]:
    """`streamed` in a worker, for a model of which the parts are not known yet.

    Without accelerators: their passes and strategies run once."""

    def compute() -> Planned | None:
        parts = assign_engines(simplify(model, request.rounding, request.io), request)
        return streamed(model, parts, request)

    return elsewhere(lambda: attempt("a streamed input", compute, lambda: None))


def is_planned(part_count: int, request: Request) -> bool:
    """Whether a network is also planned with other options: as the request states, or else if that
    is cheap; a stated schedule is of the network as it is."""
    if request.schedule is not None:
        return False
    if request.plan_streaming is not None:
        return request.plan_streaming
    several = len(request.target.arenas) > 1
    return part_count <= (PLANNED_PARTS_WITH_MEMORIES if several else PLANNED_PARTS)


def alternatives(done: Compilation, with_streaming: Planned | None) -> tuple[Alternative, ...]:
    """The points that other options select, without repetitions of the chosen point."""
    request, points = done.request, done.points
    taken = [_bytes_and_cycles(done.point, request)]
    found: list[Alternative] = []
    for options, point in attempt_each(
        "other options", lambda: _named(points, request, done.point)
    ):
        figures = _bytes_and_cycles(point, request)
        if figures not in taken:
            taken.append(figures)
            found.append(Alternative(options, *figures))
    if with_streaming is not None and not request.stream_input and with_streaming.helps(*taken[0]):
        assert with_streaming.chosen is not None
        condition = "the caller supplies the input row by row"
        found.append(Alternative("--stream-input", *with_streaming.chosen, condition))
    return (*found, *attempt_each("an incremental network", lambda: _incremental(done)))


def with_measured_stack(done: Compilation, stack_bytes: int) -> tuple[Alternative, ...]:
    """The same point with the measured stack as the reserve, if that is smaller.

    Empty if the budget then allows another point, whose stack is not known."""
    request = done.request
    smaller = replace(request, stack_bytes=stack_bytes)
    chosen = chosen_index(done.points, smaller)
    if stack_bytes >= request.stack_bytes or chosen is None or done.points[chosen] != done.point:
        return ()
    condition = "callers and interrupts have a stack reserve of their own"
    figures = _bytes_and_cycles(done.point, smaller)
    return (Alternative(f"--stack {stack_bytes}", *figures, condition),)


def with_smaller_kernels(done: Compilation, flash: Flash) -> SmallerKernels | None:
    """Kernels that save much flash; None unless the tables of the selected kernels need much."""
    notable_bytes = max(NOTABLE_TABLE_BYTES, int(NOTABLE_TABLE_SHARE * flash.model))
    if flash.weights - flash.model < notable_bytes:
        return None
    found = attempt(
        "other kernels", lambda: smaller_kernels(done.parts, done.request), lambda: None
    )
    return SmallerKernels(*found) if found is not None and found[1] >= notable_bytes else None


def _named(
    points: Sequence[PlacedPoint], request: Request, selected: PlacedPoint
) -> Iterator[tuple[str, PlacedPoint]]:
    # Within the budget, these are the point of least RAM, those of the goals `balanced` and
    # `speed`, and the one of least RAM that is hardly slower than the selected one.  Without the
    # budget, they are the knee and the fastest point.  A budget selects the point of least RAM,
    # because the goal `size` would also compile its C code with -Os.
    fitting = [point for point in points if point.is_feasible(request)]
    yield _selecting(fitting[0], request)
    for goal in (Optimize.BALANCED, Optimize.SPEED):
        yield f"--optimize {goal}", fitting[picked(fitting, goal)]
    limit = ACCEPTED_SLOWDOWN * selected.schedule.cost.cycles
    hardly_slower = (point for point in fitting if point.schedule.cost.cycles <= limit)
    yield _selecting(next(hardly_slower), request)
    unlimited = replace(request, sram_bytes=None)
    possible = [point for point in points if point.is_feasible(unlimited)]
    for goal in (Optimize.BALANCED, Optimize.SPEED):
        yield _selecting(possible[picked(possible, goal)], request)


def _selecting(point: PlacedPoint, request: Request) -> tuple[str, PlacedPoint]:
    return f"--sram {point.ram_bytes(request)} --optimize {Optimize.SPEED}", point


def _incremental(done: Compilation) -> Iterator[Alternative]:
    """The incremental network of fewest new frames per run, if the network can be made
    incremental and that saves work."""
    request, model = done.request, done.model
    # Passes and strategies of accelerators see no network that is not compiled.
    already = request.reading.incremental is not None or request.stream_input
    largest = max(value.type.elements for value in model.variables())
    is_small = largest <= MOST_ELEMENTS and is_planned(len(done.parts.parts), request)
    if already or request.accelerators or not is_small:
        return
    for hop in HOPS_TRIED:
        try:
            made = incremental(model, hop)
        except (UsageError, UnsupportedError):
            continue
        reading = replace(request.reading, incremental=hop)
        figures = planned(made, replace(request, reading=reading)).chosen
        if figures is not None and made.macs() * LEAST_SAVING <= model.macs():
            frames = "frame" if hop == 1 else "frames"
            condition = f"each input is the previous one moved by {hop} {frames}"
            yield Alternative(f"--incremental {hop}", *figures, condition)
        return


def _bytes_and_cycles(point: PlacedPoint, request: Request) -> tuple[int, int]:
    return point.ram_bytes(request), point.schedule.cost.cycles
