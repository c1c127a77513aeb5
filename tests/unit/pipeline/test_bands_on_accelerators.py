"""Bands of columns whose parts run on an accelerator, from the search to generated C."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ladder import Truth, climb, run_point
from penstock.pipeline.compilation import Compilation, compile_graph, with_point
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.search import band_source
from penstock.scheduling.options import Options
from penstock.scheduling.text.printer import print_frontier
from penstock.simulators.graph import run_graph
from texts.schedule_reader import read_frontier


@cache
def compiled(accelerator: str, max_recompute: float = 2.0) -> Compilation:
    """A bottleneck whose expanded tensors are wide; some layers may run on the processor."""
    net = GraphBuilder("bottleneck")
    x = net.conv2d(net.input((1, 12, 20, 2)), 4, 3, name="stem")
    wide = net.conv2d(x, 16, 1, name="expand")
    wide = net.conv2d(net.depthwise_conv2d(wide, 3, name="depthwise"), 16, 3, name="mix")
    x = net.add(x, net.conv2d(wide, 4, 1, name="project"), name="sum")
    graph = net.build(net.conv2d(x, 2, 1, 2, name="last"))
    options = Options(max_recompute=max_recompute)
    request = api.request("zoo:lenet5", options=options, accelerators=[accelerator])
    return compile_graph(graph, replace(request, stream_input=True))


def below(done: Compilation) -> tuple[PlacedPoint, ...]:
    """The points with bands."""
    return tuple(point for point in done.points if point.schedule.bands)


ACCELERATORS = pytest.mark.parametrize("accelerator", ["smv", "ethos_u55:layout=nhwc"])


@ACCELERATORS
def test_accelerators_compute_bands(accelerator: str) -> None:
    rows, done = compiled(accelerator, 1.0), compiled(accelerator)
    assert not below(rows)
    assert below(done)[0].height_bytes < 0.8 * rows.points[0].height_bytes
    engines = {
        part.engine
        for bands in below(done)[0].schedule.bands
        for band in bands.bands
        for part in band.parts.parts
    }
    assert accelerator.split(":")[0] in engines


@ACCELERATORS
def test_every_point_is_exact_and_costs_what_was_estimated(accelerator: str) -> None:
    done = compiled(accelerator)
    (inputs,) = api.drawn_sets(done, 1)
    reference = {**inputs, **run_graph(done.model, inputs)}
    for point in (below(done)[0], below(done)[-1]):
        found = run_point(done, inputs, reference, point)
        assert (found.mismatches, found.tensors > 5) == (0, True)


@ACCELERATORS
def test_generated_code_computes_bands_exactly(accelerator: str) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    done = with_point(compiled(accelerator), below(compiled(accelerator))[0])
    rungs = {rung.step: rung for rung in climb(done, Truth(), api.drawn_sets(done, 1))}
    assert set(rungs) >= {"machine", "host", "core"}
    assert not any(rung.mismatches for rung in rungs.values())
    executed = {step for step, rung in rungs.items() if rung.comparison is not None}
    assert executed == {"machine", "host", "core"}


@ACCELERATORS
def test_texts_of_bands_on_accelerators_read_back(accelerator: str) -> None:
    done = compiled(accelerator)
    bands = band_source(done.request.target, done.request.accelerators)
    text = print_frontier(done.frontier)
    assert print_frontier(read_frontier(text, done.parts, bands)) == text


def test_tiles_that_a_call_does_not_reach_are_skipped() -> None:
    """The rows of a padded layer are in tiles of unequal size, of which a call in a band computes
    only some."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 40, 40, 3)), 16, 3, 2, activation="relu6", name="first")
    x = net.conv2d(x, 24, 1, activation="relu6", name="expand")
    graph = net.build(net.depthwise_conv2d(x, 3, 2, activation="relu6", name="depthwise"))
    smv = ("smv:input_bytes=512,output_bytes=512",)
    found = api.verify(graph, accelerators=smv, every_point=True, last_rung="machine")
    assert found.passed
    done = found.compiled.compilation
    sram = done.points[0].ram_bytes(done.request)
    assert api.verify(graph, accelerators=smv, sram=sram, last_rung="host").passed
