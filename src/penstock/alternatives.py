"""alternatives: what a user could have instead of the chosen point, and the options that give it.

Every alternative is exact: the same command with its options compiles to these bytes and cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.ir.graph import Graph
from penstock.pipeline import (
    Compilation,
    Point,
    Request,
    chosen_index,
    parts_of,
    points_of,
    simplify_for,
)
from penstock.reports.report import Alternative
from penstock.scheduling.selection import Optimize, pick


@dataclass(frozen=True, slots=True)
class Streamed:
    """The frontier where the input is streamed: the least RAM, and bytes and cycles of the point
    that the request's goal selects; None where none fits."""

    least_bytes: int
    chosen: tuple[int, int] | None

    def helps(self, ram_bytes: int, cycles: int) -> bool:
        """Whether the selected point takes less RAM or fewer cycles than that."""
        return self.chosen is not None and (self.chosen[0] < ram_bytes or self.chosen[1] < cycles)


def streamed(graph: Graph, request: Request) -> Streamed:
    """Plans anew with a streamed input a graph whose nodes are assigned to engines."""
    wanted = replace(request, stream_input=True)
    points = points_of(graph, wanted)
    chosen = chosen_index(points, wanted)
    found = None if chosen is None else _bytes_and_cycles(points[chosen], wanted)
    return Streamed(points[0].ram_bytes(wanted), found)


def streamed_of(model: Graph, request: Request) -> Streamed:
    """The same, from the model on: what another process can do from the beginning, and without the
    model's file."""
    return streamed(parts_of(simplify_for(model, request), request).graph, request)


def alternatives(done: Compilation, with_streaming: Streamed) -> tuple[Alternative, ...]:
    """Other points of the frontier, then the streamed input; the chosen point is not repeated."""
    request, points = done.request, done.points
    taken = [_bytes_and_cycles(done.point, request)]
    found: list[Alternative] = []
    for options, point in _named(points, request):
        figures = _bytes_and_cycles(point, request)
        if figures not in taken:
            taken.append(figures)
            found.append(Alternative(options, *figures))
    if not request.stream_input and with_streaming.helps(*taken[0]):
        assert with_streaming.chosen is not None
        found.append(Alternative("--stream-input", *with_streaming.chosen))
    return tuple(found)


def _named(points: Sequence[Point], request: Request) -> Iterator[tuple[str, Point]]:
    """What other goals select, and the fastest point where only the budget rules it out."""
    fitting = [point for point in points if point.may_be_chosen(request)]
    cycles = [point.schedule.cost.cycles for point in fitting]
    for goal in (Optimize.SIZE, Optimize.BALANCED, Optimize.SPEED):
        yield f"--optimize {goal}", fitting[pick(cycles, goal)]
    fastest = points[-1]
    if request.sram_bytes is not None:
        budget = fastest.ram_bytes(request)
        if fastest.may_be_chosen(replace(request, sram_bytes=budget)):
            yield f"--sram {budget} --optimize {Optimize.SPEED}", fastest


def _bytes_and_cycles(point: Point, request: Request) -> tuple[int, int]:
    return point.ram_bytes(request), point.schedule.cost.cycles
