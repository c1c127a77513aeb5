"""The placed frontier, against every schedule placed by itself and each compared to all others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import api
from penstock.pipeline import Point, parts_of, place, read, schedule, simplify_for
from penstock.scheduling.schedule import Frontier


def figures(point: Point) -> tuple[int, int]:
    return point.height_bytes, point.schedule.cost.cycles


def is_beaten(point: Point, others: list[Point]) -> bool:
    """Whether another is as good in both figures, and better in one."""
    height, cycles = figures(point)
    return any(
        h <= height and c <= cycles and (h, c) != (height, cycles) for h, c in map(figures, others)
    )


NPU = ("ethos_u55:macs=256",)


@pytest.mark.parametrize(
    ("accelerators", "arena_bytes", "left_out"),
    [((), None, True), (NPU, None, True), (NPU, 24_000, True)],
)
def test_what_is_not_placed_would_not_be_on_the_frontier(
    accelerators: tuple[str, ...], arena_bytes: int | None, left_out: bool
) -> None:
    if accelerators:
        pytest.importorskip("ethosu.vela", reason="the package ethos-u-vela is not installed")
    request = api.request("zoo:resnet8", "cortex-m55", accelerators=accelerators)
    if arena_bytes is not None:
        (arena,) = request.target.memories_for("arena")
        small = replace(arena, size_bytes=arena_bytes)
        memories = tuple(small if m == arena else m for m in request.target.memories)
        request = replace(request, target=replace(request.target, memories=memories))
    parts = parts_of(simplify_for(read("zoo:resnet8"), request), request)
    frontier = schedule(parts, request.target, request.options)
    begun: list[int] = []
    found = place(frontier, request.target, request.options, on_count=begun.append)
    every: list[Point] = []
    for one in frontier.schedules:
        every += place(Frontier((one,)), request.target, request.options)
    fitting = [point for point in every if point.fits(request.target)]
    assert fitting
    wanted = {figures(point) for point in fitting if not is_beaten(point, fitting)}
    assert [figures(point) for point in found] == sorted(wanted)
    assert (len(begun) < len(every)) == left_out
