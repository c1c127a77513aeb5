"""Cascades in bands of columns in timelines and tables of layers."""

from __future__ import annotations

from embedded_data import plain

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.pipeline.compilation import compile_graph
from penstock.pipeline.emission import lower_point
from penstock.reports.layer import model_layers
from penstock.reports.page.data import memory_data, stretches
from penstock.reports.steps import layers
from penstock.reports.traced import engine_times, timelines
from penstock.scheduling.options import Options


def test_bands_are_layers_of_a_cascade_and_their_arena_is_a_block() -> None:
    net = GraphBuilder("wide")
    x = net.conv2d(net.input((1, 24, 24, 1)), 12, 3, 2, name="stem")
    z = net.conv2d(net.depthwise_conv2d(x, 3, name="depthwise"), 12, 1, name="pointwise")
    graph = net.build(net.conv2d(z, 4, 3, 2, name="last"))
    options = Options(max_recompute=2.0)
    done = compile_graph(graph, api.request("zoo:lenet5", "cortex-m4", options=options))
    points = [point for point in done.points if point.schedule.bands]
    assert points
    for point in points:
        program = lower_point(point)
        found, (timeline,) = layers(point.schedule, program), timelines(point.schedule, program)
        assert timeline.peak_bytes == point.schedule.peak_bytes
        assert timeline.height_bytes == point.placement.height_bytes
        assert all(read < place for place, layer in enumerate(found) for read in layer.reads)
        whole = model_layers(found, done.model)
        for stretch in plain(stretches(timeline.stretches, whole)):
            assert stretch["layers"]
            for n in stretch["layers"]:
                assert stretch["cascade"] in {step.cascade for step in whole[n].steps}
        assert any(stretch.cascade is not None for stretch in timeline.stretches)
        blocks = plain(memory_data(timeline, whole, None))["blocks"]
        (arena,) = (block for block in blocks if block["kind"] == "scratch")
        assert len(arena["layers"]) > 1
        times = engine_times(point.schedule)
        assert round(times.call_cycles[-1]) == point.schedule.cost.cycles
