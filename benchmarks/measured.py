"""Measured: graphs compiled and run on a simulated core, with the cycles of every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from penstock import api, execution
from penstock.backends.cores.common.layer import with_forms
from penstock.codegen.names import Names
from penstock.ir.graph import Graph
from penstock.ir.op import Kernel, Op, Site
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point, write
from penstock.pipeline.graphs import simplify
from penstock.pipeline.placing import place
from penstock.pipeline.search import schedule
from penstock.reports.steps import CostedStep, costed_steps
from penstock.scheduling.model.part import Part
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule

WHOLE = Options(max_parts=1)
"""Every layer runs whole."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A layer on the core: the kernel that served it, in so many calls, and
    cycles, estimated and simulated."""

    name: str
    op: Op
    site: Site
    kernel: Kernel
    calls: int
    estimated: int
    simulated: int

    @property
    def error(self) -> float:
        return self.estimated / max(1, self.simulated) - 1


def chosen(part: Part) -> Part:
    """The part as it is."""
    return part


def without_scratch(part: Part) -> Part:
    """The part by the kernel that needs no scratch, where it has one."""
    return part if part.fallback is None else replace(part, kernel=part.fallback, fallback=None)


def in_portable_c(part: Part) -> Part:
    """The part by its portable kernel."""
    op, site = part.nodes[-1].op, part.nodes[-1].site
    return replace(part, kernel=with_forms(op, site, op.kernel(site)), fallback=None)


def compiled(
    graph: Graph, target: str, options: Options = DEFAULTS, serve: Callable[[Part], Part] = chosen
) -> Compilation:
    """A graph as the pipeline compiles models, with other kernels if wanted."""
    request = api.request(f"zoo:{graph.name}", target, options=options)
    parts = assign_engines(simplify(graph, request.rounding, request.io), request)
    parts = replace(parts, parts=tuple(map(serve, parts.parts)), alternatives=())
    frontier = schedule(parts, request.target, request.options)
    points = place(frontier, request.target, request.options)
    program = lower_point(points[-1])
    return Compilation(
        request, graph, frontier, points, points[-1], program,
        write(program, request), (),
    )  # fmt: skip


def run(done: Compilation) -> execution.CoreRun:
    """One inference on drawn inputs."""
    with execution.firmware(done) as chip:
        return chip.run(api.drawn_sets(done, 1)[0])


def layers(done: Compilation, ran: execution.CoreRun) -> Iterator[Measured]:
    """The layers of a run, in the order of its steps."""
    waiting: dict[str, list[CostedStep]] = {}
    for cascade in ExpandedSchedule(done.schedule).cascades:
        for one in costed_steps(done.schedule, cascade):
            waiting.setdefault(one.tensor, []).append(one)
    steps = Names.of(done.program, done.prefix).steps
    for call, counts in zip(steps, ran.steps, strict=True):
        one = waiting[call.output.tensor].pop(0)
        node, cost = one.part.nodes[-1], one.cost
        yield Measured(
            one.tensor, node.op, node.site, one.part.kernel, cost.calls, cost.cycles, counts.cycles
        )
