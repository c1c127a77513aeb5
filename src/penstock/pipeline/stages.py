"""The table of stages: each is a function from one frozen result to the next.

`STAGES` defines the order and the functions of the stages, `STAGE_NAMES` their names.
Compilation, `--stop-after`, progress and timing use this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

from penstock.codegen.bundle import Bundle
from penstock.frozen import frozen
from penstock.ir.graph import Graph
from penstock.optional import attempt
from penstock.pipeline.assignment import assign_engines, assign_kernels
from penstock.pipeline.capacity import check_added_memory
from penstock.pipeline.choosing import choose, has_spare_memory, simplest, with_point
from penstock.pipeline.emission import draft, final, finished, lower_point, write
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import STAGE_NAMES, Request
from penstock.pipeline.search import schedule
from penstock.pipeline.stated_schedules import stated_schedule
from penstock.program.program import Program
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier

_Input = TypeVar("_Input")
_Result = TypeVar("_Result")

OnStage = Callable[[str], None]
"""A function that is called with the name of each stage when it begins."""


@frozen
class Placed:
    """The result of `place`.

    points: in ascending order of memory; chosen: the one to compile.
    program: the program of `chosen`, if it is known.
    """

    points: tuple[PlacedPoint, ...]
    chosen: PlacedPoint
    program: Program | None = None


@frozen
class Context:
    """The inputs of every stage besides the result of the previous stage.

    executor: runs placements in parallel; None: this process does all work.
    """

    request: Request
    executor: Executor | None = None


@frozen
class Stage(Generic[_Input, _Result]):
    """A stage of the pipeline.

    name: argument of `--stop-after`, label of the progress bar, and key of the times.
    run: computes the result of the stage from that of the previous stage.
    """

    name: str
    run: Callable[[_Input, Context], _Result]


def frontier(parts: Parts, request: Request) -> Frontier:
    """Return the schedule that the request states, or those that the search finds."""
    if request.schedule is None:
        return schedule(parts, request.target, request.options, request.accelerators)
    stated = stated_schedule(
        parts,
        request.schedule,
        request.target,
        partial(assign_kernels, request=request),
        request.accelerators,
        keep_inputs=request.options.keep_input,
    )
    return Frontier((stated,))


def _place_and_choose(found: Frontier, context: Context) -> Placed:
    request = context.request
    points = place(found, request.target, request.options, context.executor)
    placed = _chosen(points, request)

    def with_less_code() -> Placed:
        point, program = simplest(found, placed.chosen, request, context.executor)
        return Placed(with_point(placed.points, point), point, program)

    if has_spare_memory(request):
        placed = attempt("a point with less code", with_less_code, lambda: placed)
    return _after_stripes(placed, request)


def _after_stripes(placed: Placed, request: Request) -> Placed:
    """Run the passes of PROGRAM_PHASE_1 on the chosen schedule."""
    old = placed.chosen
    new = finished(old, request.accelerators)
    points = tuple(new if point is old else point for point in placed.points)
    return replace(placed, points=points, chosen=new)


def _chosen(points: tuple[PlacedPoint, ...], request: Request) -> Placed:
    """Choose a point.  An optional one is replaced by another one if it cannot be lowered."""
    chosen = choose(points, request)
    if not chosen.is_optional or len(points) == 1:
        return Placed(points, chosen)
    program = attempt("the chosen point", partial(draft, chosen, request), lambda: None)
    if program is not None:
        return Placed(points, chosen, final(program, request))
    return _chosen(tuple(point for point in points if point is not chosen), request)


def _lower(placed: Placed, context: Context) -> Program:
    program = placed.program or lower_point(placed.chosen, context.request.accelerators)
    check_added_memory(placed.chosen, program, context.request)
    return program


READ: Stage[str, Graph] = Stage(
    "read",
    lambda model, context: read_request(context.request),
)
SIMPLIFY: Stage[Graph, Graph] = Stage(
    "simplify",
    lambda graph, context: simplify(graph, context.request.rounding, context.request.io),
)
ASSIGN: Stage[Graph, Parts] = Stage(
    "assign",
    lambda graph, context: assign_engines(graph, context.request),
)
SCHEDULE: Stage[Parts, Frontier] = Stage(
    "schedule",
    lambda parts, context: frontier(parts, context.request),
)
PLACE: Stage[Frontier, Placed] = Stage(
    "place",
    _place_and_choose,
)
LOWER: Stage[Placed, Program] = Stage(
    "lower",
    _lower,
)
WRITE: Stage[Program, Bundle] = Stage(
    "write",
    lambda program, context: write(program, context.request),
)

AnyStage = Stage[Any, Any]

STAGES: tuple[AnyStage, ...] = (READ, SIMPLIFY, ASSIGN, SCHEDULE, PLACE, LOWER, WRITE)


@frozen
class Outcome:
    """The result of a stage, and its run time in seconds."""

    stage: AnyStage
    result: object
    seconds: float


@frozen
class Outcomes:
    """The results of consecutive stages, in order."""

    outcomes: tuple[Outcome, ...]

    def result(self, stage: Stage[Any, _Result]) -> _Result:
        """Return the result of `stage`, which must be one of the stages that ran."""
        found = next(one.result for one in self.outcomes if one.stage is stage)
        return cast(_Result, found)

    @property
    def seconds(self) -> tuple[tuple[str, float], ...]:
        """(stage name, run time in seconds) for each stage, in order."""
        return tuple((one.stage.name, one.seconds) for one in self.outcomes)


def run_stages(
    stages: Sequence[AnyStage],
    first_input: object,
    context: Context,
    on_stage: OnStage = lambda name: None,
) -> Outcomes:
    """Run consecutive stages of the table, each with the result of the previous one.

    first_input: input of the first stage; for `READ`, the name of a model.
    """
    return Outcomes(tuple(_outcomes(stages, first_input, context, on_stage)))


def run_through(request: Request, name: str, executor: Executor | None = None) -> Outcomes:
    """Run the stages up to and including the one with this name (see `STAGE_NAMES`)."""
    stages = STAGES[: STAGE_NAMES.index(name) + 1]
    return run_stages(stages, request.model, Context(request, executor))


def _outcomes(
    stages: Sequence[AnyStage], value: object, context: Context, on_stage: OnStage
) -> Iterator[Outcome]:
    for stage in stages:
        on_stage(stage.name)
        begun = perf_counter()
        value = stage.run(value, context)
        yield Outcome(stage, value, perf_counter() - begun)
