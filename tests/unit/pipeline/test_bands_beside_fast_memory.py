"""Bands of columns on a target with a slow and a fast memory: their tensors are in the slow one."""

from __future__ import annotations

from dataclasses import replace

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ladder import run_point
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph


def compiled(max_recompute: float) -> Compilation:
    """An inverted bottleneck, whose expanded tensors are wide."""
    net = GraphBuilder("bottleneck")
    x = net.conv2d(net.input((1, 12, 20, 2)), 4, 3, name="stem")
    wide = net.depthwise_conv2d(net.conv2d(x, 16, 1, name="expand"), 3, name="depthwise")
    graph = net.build(net.conv2d(wide, 2, 1, 2, name="project"))
    request = api.request("zoo:lenet5", "two-region", options=Options(max_recompute=max_recompute))
    return compile_graph(graph, replace(request, stream_input=True))


def test_schedules_in_bands_need_less_memory_and_are_exact() -> None:
    rows, done = compiled(1.0), compiled(2.0)
    assert not any(point.schedule.bands for point in rows.points)
    below = [point for point in done.points if point.schedule.bands]
    assert below[0].height_bytes < 0.8 * rows.points[0].height_bytes
    (inputs,) = api.drawn_sets(done, 1)
    reference = {**inputs, **run_graph(done.model, inputs)}
    for point in (below[0], below[-1]):
        found = run_point(done, inputs, reference, point)
        assert (found.mismatches, found.tensors > 3) == (0, True)
