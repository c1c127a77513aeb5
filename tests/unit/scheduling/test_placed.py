"""The placed frontier, against every schedule placed by itself and each compared to all others; the
least memory, against the lowest of all; and live bytes, against the blocks that are placed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from penstock import api
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place, smallest_point
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    live_bytes,
    placement_problems,
)


def figures(point: PlacedPoint) -> tuple[int, int]:
    return point.height_bytes, point.schedule.cost.cycles


def is_beaten(point: PlacedPoint, others: list[PlacedPoint]) -> bool:
    """Whether another is as good in both figures, and better in one."""
    height, cycles = figures(point)
    return any(
        h <= height and c <= cycles and (h, c) != (height, cycles) for h, c in map(figures, others)
    )


NPU = ("ethos_u55:macs=256",)


def asked(accelerators: tuple[str, ...], *, stream_input: bool = False) -> tuple[Request, Parts]:
    """ResNet8 as parts."""
    if accelerators:
        pytest.importorskip("ethosu.vela", reason="the package ethos-u-vela is not installed")
    request = api.request(
        "zoo:resnet8", "cortex-m55", accelerators=accelerators, stream_input=stream_input
    )
    return request, assign_engines(simplify(read("zoo:resnet8"), request.rounding), request)


@pytest.mark.parametrize(("accelerators", "arena_bytes"), [((), None), (NPU, None), (NPU, 24_000)])
def test_what_is_not_placed_would_not_be_on_the_frontier(
    accelerators: tuple[str, ...], arena_bytes: int | None
) -> None:
    request, parts = asked(accelerators)
    if arena_bytes is not None:
        (arena,) = request.target.arenas
        small = replace(arena, size_bytes=arena_bytes)
        memories = tuple(small if m == arena else m for m in request.target.memories)
        request = replace(request, target=replace(request.target, memories=memories))
    frontier = schedule(parts, request.target, request.options)
    begun: list[int] = []
    found = place(frontier, request.target, request.options, on_count=begun.append)
    every: list[PlacedPoint] = []
    for one in frontier.schedules:
        every += place(Frontier((one,)), request.target, request.options)
    fitting = [point for point in every if point.fits(request.target)]
    assert fitting
    wanted = [figures(point) for point in fitting if not is_beaten(point, fitting)]
    have = [figures(point) for point in found]
    assert {*have} <= {*wanted}
    assert have == sorted(have)
    for height, cycles in wanted:  # something no larger is less than 0.1 % slower
        assert any(h <= height and 1000 * c < 1001 * cycles for h, c in have)
    assert all(1000 * slow >= 1001 * fast for (_, slow), (_, fast) in pairwise(have))
    assert len(begun) < len(every)


@pytest.mark.parametrize("stream_input", [False, True])
@pytest.mark.parametrize("accelerators", [(), NPU])
def test_the_least_memory_is_that_of_the_lowest_of_all_schedules(
    accelerators: tuple[str, ...], stream_input: bool
) -> None:
    request, parts = asked(accelerators, stream_input=stream_input)
    found = schedule(parts, request.target, request.options).schedules
    assert [one.peak_bytes for one in found] == sorted(one.peak_bytes for one in found)
    points = (place(Frontier((one,)), request.target, request.options) for one in found)
    heights = [point.height_bytes for several in points for point in several]
    assert smallest_point(parts.graph, request).height_bytes == min(heights)


@pytest.mark.parametrize("accelerators", [(), NPU])
def test_live_bytes_are_those_of_the_blocks_that_are_placed(accelerators: tuple[str, ...]) -> None:
    request, parts = asked(accelerators)
    for one in schedule(parts, request.target, request.options).schedules:
        expanded = ExpandedSchedule(one)
        buffers = dict(placement_problems(expanded))[one.memory.default].buffers
        ticks = range(max(buffer.upper for buffer in buffers) + 1)
        live = [sum(b.size_bytes for b in buffers if b.lower <= t < b.upper) for t in ticks]
        assert live_bytes(expanded).tolist() == live
        assert max(live) == one.peak_bytes
