"""Culling: removal of points that no request can select.

A point is kept if it is Pareto-optimal in (memory, cycles) and noticeably faster than the kept
point before it, see `selection.merged`.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.hardware.target import Target
from penstock.pipeline.placed_point import PlacedPoint
from penstock.scheduling.cascades.selection import merged, noticeably_faster
from penstock.scheduling.model.schedule import Schedule


def bytes_and_cycles(point: PlacedPoint) -> tuple[int, int]:
    """Return the cost vector of a point: (bytes that count towards the budget, cycles)."""
    return point.height_bytes, point.schedule.cost.cycles


def culled(points: Sequence[PlacedPoint], target: Target) -> tuple[PlacedPoint, ...]:
    """Return the points that are kept, in ascending order of memory.

    Points that do not fit into the target's memories are dropped; if none fits, the smallest one is
    kept.  Among points with equal costs, the one that moves the fewest bytes is kept.
    """
    by_traffic = sorted(points, key=lambda point: point.moved_bytes)
    smallest = min(by_traffic, key=bytes_and_cycles)
    fitting = [point for point in by_traffic if point.fits(target)] or [smallest]
    return merged(fitting, bytes_and_cycles)


def may_survive(schedule: Schedule, placed: Sequence[PlacedPoint], target: Target) -> bool:
    """Return whether culling may keep a schedule, given the points placed before it.

    Schedules arrive in ascending order of peak live bytes, a lower bound of their memory.  So
    neither this schedule nor a later one dominates a point that needs no more memory than this
    bound.  If the schedule is not noticeably faster than the fastest such point that
    culling keeps, it need not be placed.
    """
    final = (p for p in placed if p.height_bytes <= schedule.peak_bytes and p.fits(target))
    kept = merged(final, bytes_and_cycles)
    return not kept or noticeably_faster(schedule.cost.cycles, kept[-1].schedule.cost.cycles)
