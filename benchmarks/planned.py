"""Planned: a network's frontier, as the compiler searches and places it, without writing C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmarks.figures import TARGET
from penstock import api
from penstock.ir.tensor import Region
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import DEFAULTS, Options


@dataclass(frozen=True, slots=True)
class Planned:
    """The points of a network, least memory first, and the seconds that search and placement took.

    `proposed`: how many schedules were placed, of which those points are left."""

    request: Request
    parts: Parts
    proposed: int
    points: tuple[PlacedPoint, ...]
    search_seconds: float
    place_seconds: float

    @property
    def least_bytes(self) -> int:
        """The least arena: total RAM less the stack's reserve."""
        return self.points[0].height_bytes

    def ratio(self, point: PlacedPoint) -> float:
        """Nominal multiply-accumulates of a point by those of the model."""
        own = sum(part.macs(Region.whole(part.output.type.shape)) for part in self.parts.parts)
        return point.schedule.cost.nominal_macs / own if own else 1.0


def plan(
    model: str,
    target: str = TARGET,
    *,
    stream_input: bool = False,
    accelerators: Sequence[str] = (),
    options: Options = DEFAULTS,
) -> Planned:
    """The frontier of a model.  Raises PenstockError where penstock does not take it."""
    request = api.request(
        model, target, stream_input=stream_input, accelerators=accelerators, options=options
    )
    graph = simplify(read(request.model, request.reading), request.rounding, request.io)
    parts = assign_engines(graph, request)
    begun = perf_counter()
    frontier = schedule(parts, request.target, request.options)
    searched = perf_counter()
    points = place(frontier, request.target, request.options)
    seconds = searched - begun, perf_counter() - searched
    return Planned(request, parts, len(frontier.schedules), points, *seconds)


def fastest(points: Sequence[PlacedPoint], limit_bytes: int) -> PlacedPoint | None:
    """The fastest point whose arena has at most so many bytes; points have the least first."""
    fitting = [point for point in points if point.height_bytes <= limit_bytes]
    return fitting[-1] if fitting else None
