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
    """The results of all stages for one request.

    model: the graph as read from the file.
    points: all placed schedules that were kept, in ascending order of memory; `point` is the one
        that is compiled.
    seconds: (stage name, seconds) pairs; comparisons disregard them.
    """

    request: Request
    model: Graph
    frontier: Frontier
    points: tuple[PlacedPoint, ...]
    point: PlacedPoint
    program: Program
    bundle: Bundle
    seconds: tuple[tuple[str, float], ...] = field(compare=False)

    @property
    def parts(self) -> Parts:
        """The parts of the stage `assign` that the selected schedule runs."""
        return self.schedule.assigned_parts

    @property
    def graph(self) -> Graph:
        """The graph that is compiled: simplified, and with composites for accelerators."""
        return self.parts.graph

    @property
    def schedule(self) -> Schedule:
        """The schedule of the selected point; its cost is that at the final addresses."""
        return self.point.schedule

    @property
    def placement(self) -> Placement:
        """The addresses in the default memory region, which holds inputs and outputs."""
        return self.point.placement

    @property
    def prefix(self) -> str:
        """The prefix of all public names in the generated C code."""
        return self.request.name or c_prefix(self.model.name)


def compile_request(
    request: Request,
    on_stage: OnStage = lambda name: None,
    executor: Executor | None = None,
) -> Compilation:
    """Run all stages.

    on_stage: called with the name of each stage when it begins.
    executor: runs placements in parallel; None: this process does all work.
    """
    outcomes = run_stages(STAGES, request.model, Context(request, executor), on_stage)
    return _compilation(request, outcomes.result(READ), outcomes)


def compile_graph(model: Graph, request: Request) -> Compilation:
    """Run all stages except `read` on a graph.

    Generated files contain `request.model` as the name of the model.
    """
    return _compilation(request, model, run_stages(STAGES[1:], model, Context(request)))


def _compilation(request: Request, model: Graph, outcomes: Outcomes) -> Compilation:
    placed = outcomes.result(PLACE)
    return Compilation(
        request,
        model,
        outcomes.result(SCHEDULE),
        placed.points,
        placed.chosen,
        outcomes.result(LOWER),
        outcomes.result(WRITE),
        outcomes.seconds,
    )


def with_point(done: Compilation, point: PlacedPoint) -> Compilation:
    """Return the compilation with another point selected, lowered and written."""
    program = lower_point(point, done.request.accelerators)
    return replace(done, point=point, program=program, bundle=write(program, done.request))
