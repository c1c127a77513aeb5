"""Compilation: the results of all stages for one request."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from penstock.brief import Brief
from penstock.codegen.bundle import Bundle
from penstock.ir.graph import Graph
from penstock.memory.problem import Placement
from penstock.pipeline.emission import lower_point, write
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.provenance import c_prefix
from penstock.pipeline.request import Request
from penstock.pipeline.stages import (
    ASSIGN,
    LOWER,
    PLACE,
    READ,
    SCHEDULE,
    STAGES,
    WRITE,
    Context,
    OnStage,
    Outcomes,
    run_stages,
)
from penstock.program.program import Program
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule


@dataclass(frozen=True, slots=True, repr=False)
class Compilation(Brief):
    """The results of all stages.

    `model` is the graph as read; `graph` is the graph that is compiled, whose nodes are assigned to
    engines.  `seconds` holds (stage name, seconds) and does not take part in comparisons."""

    request: Request
    model: Graph
    parts: Parts
    frontier: Frontier
    points: tuple[PlacedPoint, ...]
    point: PlacedPoint
    program: Program
    bundle: Bundle
    seconds: tuple[tuple[str, float], ...] = field(compare=False)

    @property
    def graph(self) -> Graph:
        """The graph that is compiled."""
        return self.parts.graph

    @property
    def schedule(self) -> Schedule:
        """The schedule of the chosen point, with the cost at its addresses."""
        return self.point.schedule

    @property
    def placement(self) -> Placement:
        """The addresses in the memory of inputs and outputs."""
        return self.point.placement

    @property
    def prefix(self) -> str:
        """The prefix of all public names in the C."""
        return c_prefix(self.model.name)


def compile_request(
    request: Request,
    on_stage: OnStage = lambda name: None,
    executor: Executor | None = None,
) -> Compilation:
    """Run all stages.  `on_stage` receives the name of each as it begins."""
    outcomes = run_stages(STAGES, request.model, Context(request, executor), on_stage)
    return _compilation(request, outcomes.result(READ), outcomes)


def compile_graph(model: Graph, request: Request) -> Compilation:
    """Run all stages but `read` on a graph; `request.model` is its name in generated files."""
    return _compilation(request, model, run_stages(STAGES[1:], model, Context(request)))


def _compilation(request: Request, model: Graph, outcomes: Outcomes) -> Compilation:
    placed = outcomes.result(PLACE)
    return Compilation(
        request,
        model,
        outcomes.result(ASSIGN),
        outcomes.result(SCHEDULE),
        placed.points,
        placed.chosen,
        outcomes.result(LOWER),
        outcomes.result(WRITE),
        outcomes.seconds,
    )


def with_point(done: Compilation, point: PlacedPoint) -> Compilation:
    """The compilation as if `point` had been chosen."""
    program = lower_point(point, done.request.accelerators)
    return replace(done, point=point, program=program, bundle=write(program, done.request))
