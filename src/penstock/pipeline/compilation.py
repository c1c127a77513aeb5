"""Compilation: the results of all stages for one request, and their errors and delivery."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import field, replace

from penstock.brief import Brief
from penstock.codegen.bundle import Bundle
from penstock.codegen.interface import interface
from penstock.codegen.names import Names, c_prefix
from penstock.codegen.packages.delivery import Delivery
from penstock.errors import CapacityError
from penstock.frozen import frozen
from penstock.hardware.load import board_names
from penstock.ir.graph import Graph
from penstock.memory.problem import Placement
from penstock.optional import attempt_each
from penstock.pipeline.capacity import (
    boards_with,
    flash_limit_bytes,
    slower_kernels,
    smaller_kernels,
    with_last_resort,
)
from penstock.pipeline.emission import lower_point, provenance, write
from penstock.pipeline.placing import PlacedPoint
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
from penstock.program.constants import weight_bytes
from penstock.program.program import Program
from penstock.reports.report import Report
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule


@frozen(repr=False)
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


def delivery(done: Compilation) -> Delivery:
    """Return the generated files of a compilation, with what build systems need to know."""
    target = done.request.target
    return Delivery(
        done.bundle,
        interface(done.program, Names.of(done.program, done.prefix)),
        provenance(done.request),
        target.name,
        target.compiler.gcc,
        target.compiler.optimise,
        done.request.stack_bytes,
    )


def flash_error(report: Report, done: Compilation) -> CapacityError:
    """Return the error for a compilation whose constants and code exceed the flash."""
    flash, request = report.flash_bytes, done.request
    memory = request.target.memory_for("constant")
    remedies = tuple(attempt_each("a remedy", lambda: _fitting(report, done)))
    subject = "constants" if flash.code is None else "constants and code"
    return CapacityError(
        "capacity-002",
        f"{subject} need {flash.total} bytes of {memory.name}, "
        f"there are {flash_limit_bytes(request)}",
        where=report.model,
        why=f"the constants of the model are {flash.model} bytes; the kernels of "
        f"{request.target.name} store them in {flash.weights}, with tables that save cycles and "
        "without what no result depends on",
        help="; ".join(with_last_resort(remedies)),
    )


def _fitting(report: Report, done: Compilation) -> Iterator[str]:
    """Yield clauses about changes with which constants and code fit."""
    needed, request = report.flash_bytes.total, done.request
    capacity = request.target.memory_for("constant").size_bytes
    if needed <= capacity:
        yield f"use at least --flash {needed}"
    smaller = _fitting_kernels(report, done)
    if smaller is not None:
        yield slower_kernels(*smaller)
    if needed > capacity and request.flash_bytes is None and request.sram_bytes is None:
        boards = boards_with(report.ram_bytes.total, needed, request.target)
        if boards and request.target.name in board_names():
            yield f"use a board with more flash: {', '.join(boards)}"


def _fitting_kernels(report: Report, done: Compilation) -> tuple[str, int] | None:
    """Return the core family whose kernels fit into the RAM and the flash of the request, and the
    bytes of their constants; None if there is none.  Their code is assumed to be no larger."""
    flash, request, limit = report.flash_bytes, done.request, flash_limit_bytes(done.request)
    smaller = smaller_kernels(done.parts, request)
    if smaller is None or flash.total - smaller[1] > limit:
        return None
    other = replace(request, target=request.target.with_kernels(smaller[0]))
    try:
        size = weight_bytes(compile_graph(done.model, other).program)
    except CapacityError:
        return None
    return (smaller[0], size) if size + (flash.code or 0) <= limit else None


def stack_error(compilation: Compilation, stack_bytes: int) -> CapacityError | None:
    """The error that a measured stack exceeds the reserve of a compilation; None if it does not."""
    reserve = compilation.request.stack_bytes
    if stack_bytes <= reserve:
        return None
    return CapacityError(
        "capacity-003",
        f"the stack needs {stack_bytes} bytes, {reserve} are reserved",
        where=compilation.model.name,
        help=f"use at least --stack {stack_bytes}",
    )
