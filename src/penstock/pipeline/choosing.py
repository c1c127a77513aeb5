"""Selection of the point to compile."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.pipeline.capacity import capacity_error
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.request import Request
from penstock.scheduling.cascades.selection import pick


def choose(points: tuple[PlacedPoint, ...], request: Request) -> PlacedPoint:
    """Return the feasible point that the request's goal selects.

    points: in ascending order of memory.

    Raises CapacityError if no point is feasible.
    """
    chosen = chosen_index(points, request)
    if chosen is None:
        raise capacity_error(points[0], request)
    return points[chosen]


def chosen_index(points: Sequence[PlacedPoint], request: Request) -> int | None:
    """Return the index of the point that `choose` selects; None if no point is feasible."""
    feasible = [k for k, point in enumerate(points) if point.is_feasible(request)]
    if not feasible:
        return None
    cycles = [points[k].schedule.cost.cycles for k in feasible]
    return feasible[pick(cycles, request.goal)]
