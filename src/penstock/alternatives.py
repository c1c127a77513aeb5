"""Alternatives to the chosen point, with the command-line options that select them.

Figures are exact: the same command with these options yields these bytes and cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.ir.graph import Graph
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.choosing import chosen_index
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.graphs import simplify
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.placing import placed_points
from penstock.pipeline.request import Request
from penstock.reports.report import Alternative
from penstock.scheduling.cascades.selection import Optimize, pick

PLANNED_PARTS: Final = 128
"""Networks of at most this many parts are also planned with a streamed input.  Larger ones took 3
to 78 s more, which delayed the output."""
PLANNED_PARTS_WITH_MEMORIES: Final = 32
"""The same if the search also assigns tensors to memories, which takes longer for each part."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The frontier with a streamed input.

    `least_bytes` is its least RAM in bytes.  `chosen` is the RAM in bytes and the cycles of the
    point that the request's goal selects; None if no point is feasible."""

    least_bytes: int
    chosen: tuple[int, int] | None

    def helps(self, ram_bytes: int, cycles: int) -> bool:
        """Whether the selected point needs less RAM or fewer cycles than the arguments."""
        return self.chosen is not None and (self.chosen[0] < ram_bytes or self.chosen[1] < cycles)


def streamed(graph: Graph, part_count: int, request: Request) -> Streamed | None:
    """Schedule and place, with a streamed input, a graph whose nodes are assigned to engines; None
    if the request does not plan this.

    part_count: the parts of the network without streaming."""
    if not is_planned(part_count, request):
        return None
    wanted = replace(request, stream_input=True)
    points = placed_points(graph, wanted)
    chosen = chosen_index(points, wanted)
    found = None if chosen is None else _bytes_and_cycles(points[chosen], wanted)
    return Streamed(points[0].ram_bytes(wanted), found)


def is_planned(part_count: int, request: Request) -> bool:
    """Whether a network is also planned with a streamed input: as the request states, or else if
    that is cheap."""
    if request.plan_streaming is not None:
        return request.plan_streaming
    several = len(request.target.memories_for("arena")) > 1
    return part_count <= (PLANNED_PARTS_WITH_MEMORIES if several else PLANNED_PARTS)


def streamed_model(model: Graph, request: Request) -> Streamed | None:
    """`streamed` for a model; a worker can run it at once and without the model's file."""
    parts = assign_engines(simplify(model, request.rounding, request.io), request)
    return streamed(parts.graph, len(parts.parts), request)


def alternatives(done: Compilation, with_streaming: Streamed | None) -> tuple[Alternative, ...]:
    """The points that other options select, without repetitions of the chosen point."""
    request, points = done.request, done.points
    taken = [_bytes_and_cycles(done.point, request)]
    found: list[Alternative] = []
    for options, point in _named(points, request):
        figures = _bytes_and_cycles(point, request)
        if figures not in taken:
            taken.append(figures)
            found.append(Alternative(options, *figures))
    if with_streaming is None or request.stream_input:
        return tuple(found)
    if with_streaming.chosen is not None and with_streaming.helps(*taken[0]):
        found.append(Alternative("--stream-input", *with_streaming.chosen))
    return tuple(found)


def _named(points: Sequence[PlacedPoint], request: Request) -> Iterator[tuple[str, PlacedPoint]]:
    """The points of the three goals, and the fastest point if only the budget excludes it."""
    fitting = [point for point in points if point.is_feasible(request)]
    cycles = [point.schedule.cost.cycles for point in fitting]
    for goal in (Optimize.SIZE, Optimize.BALANCED, Optimize.SPEED):
        yield f"--optimize {goal}", fitting[pick(cycles, goal)]
    fastest = points[-1]
    if request.sram_bytes is not None:
        budget = fastest.ram_bytes(request)
        if fastest.is_feasible(replace(request, sram_bytes=budget)):
            yield f"--sram {budget} --optimize {Optimize.SPEED}", fastest


def _bytes_and_cycles(point: PlacedPoint, request: Request) -> tuple[int, int]:
    return point.ram_bytes(request), point.schedule.cost.cycles
