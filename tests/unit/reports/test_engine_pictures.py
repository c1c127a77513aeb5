"""Engines in figures and pages: which one runs each layer, and when."""

from __future__ import annotations

import dataclasses
from itertools import groupby, pairwise
from xml.etree import ElementTree

import pytest
from small_compilation import Example, of_steps, span
from test_engine_reports import CPU, LEFT, NPU
from test_report_html import Page

from penstock import api
from penstock.reports.engine_lanes import lanes
from penstock.reports.graph_figure import graph_figure, graph_png, graph_svg
from penstock.reports.html import render_html
from penstock.reports.memory_figure import memory_figure
from penstock.reports.memory_picture import memory_png, memory_svg
from penstock.reports.paint import ACCELERATORS, PROCESSOR, accelerator_colors
from penstock.reports.timeline import Timeline, Turn
from penstock.simulators.machine import Machine
from toy_accelerator import Toy, toy_request

SVG = "{http://www.w3.org/2000/svg}"
SPANS = (span("a", "arena", 0, 100, 0, 1), span("b", "arena", 100, 400, 1, 2))
SHARED = dataclasses.replace(
    of_steps(SPANS, 3),
    turns=(Turn("npu", True, 1, 2), Turn("cpu", False, 2, 3), Turn("npu", True, 3, 4)),
)
ODD_NAMES = ("<script>alert(1)</script>", "名前/😀", "nul\x00 \x1b[31m", "$x^2$", "{{ 7 * 7 }}")


def words(svg: str) -> list[str]:
    """Every text of the picture."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture(scope="module", params=["whole layers", "cascades", "streamed"])
def compiled(request: pytest.FixtureRequest) -> api.Compiled:
    """A network, its convolutions on an accelerator."""
    streamed = request.param == "streamed"
    first = api.compile(toy_request("zoo:lenet5", "cortex-m4", stream_input=streamed))
    if request.param == "whole layers":
        return first
    least = first.report.frontier[0].ram_bytes
    return api.compile(toy_request("zoo:lenet5", "cortex-m4", stream_input=streamed, sram=least))


def test_turns_are_those_that_the_machine_takes(compiled: api.Compiled) -> None:
    """The machine runs the program, command by command; pulls, which it does not trace, aside."""
    done = compiled.compilation
    engines = {part.name: part.engine for part in done.parts.parts}
    ran: list[str] = []
    machine = Machine(done.program, lambda name, region, elements: ran.append(engines[name]))
    machine.run(api.drawn_sets(done, 1)[0])
    turns = [t for t in compiled.timelines[0].turns if t.engine != "caller"]
    shown = [t.engine for t in turns for _ in range(t.ended - t.begun)]
    assert shown == ran
    assert len({turn.engine for turn in turns}) == 2
    assert {t.engine for t in turns if t.offloaded} == {"toy"}


def test_turns_follow_each_other_from_the_first_tick_to_the_last(compiled: api.Compiled) -> None:
    for timeline in compiled.timelines:
        turns = timeline.turns
        assert (turns[0].begun, turns[-1].ended) == (1, timeline.ticks - 1)
        assert all(a.ended == b.begun for a, b in pairwise(turns))
        assert [k for k, _ in groupby(turn.engine for turn in turns)] == [t.engine for t in turns]


def test_an_accelerator_that_takes_nothing_has_no_turns() -> None:
    done = api.compile(toy_request("zoo:lenet5", "host", Toy(takes=lambda node: False)))
    assert [timeline.turns for timeline in done.timelines] == [()]


def test_a_lane_an_engine_is_filled_in_its_turns_from_the_processor_up() -> None:
    assert lanes(SHARED) == ("cpu", "npu")
    (axes,) = memory_figure(SHARED).axes
    _, *bars = axes.collections  # the blocks, then the ground and the turns of each lane
    found = [[tuple(path.get_extents().intervalx) for path in b.get_paths()] for b in bars]
    assert found == [[(-1, 4)], [(1, 2)], [(-1, 4)], [(0, 1), (2, 3)]]
    heights = [bar.get_paths()[0].get_extents().intervaly.tolist() for bar in bars]
    assert heights[0] == heights[1]
    assert heights[2] == heights[3]
    assert 1.0 < heights[0][0] < heights[0][1] < heights[2][0]


def test_lanes_are_labelled_below_the_legend() -> None:
    found = words(memory_svg(SHARED))
    assert {"cpu", "npu"} <= set(found)
    (axes,) = memory_figure(SHARED).axes
    top = max(b.get_paths()[0].get_extents().ymax for b in axes.collections[1:])
    legend = axes.get_legend()
    assert legend.get_bbox_to_anchor().transformed(axes.transAxes.inverted()).y0 > top


def test_without_turns_the_picture_has_no_lanes_and_no_room_for_them() -> None:
    bare = dataclasses.replace(SHARED, turns=())
    assert len(memory_figure(bare).axes[0].collections) == 1
    assert memory_figure(bare).get_figheight() < memory_figure(SHARED).get_figheight()
    inner = [
        f.axes[0].get_position().height * f.get_figheight()
        for f in map(memory_figure, (bare, SHARED))
    ]
    assert inner[0] == pytest.approx(inner[1])


def test_equal_turns_give_equal_pictures() -> None:
    assert memory_png(SHARED) == memory_png(SHARED)
    assert memory_svg(SHARED) == memory_svg(SHARED)


def test_accelerators_differ_in_colour_from_each_other_and_from_the_processor() -> None:
    colors = accelerator_colors(["b", "a", "b", "c"])
    assert [colors[name] for name in "abc"] == list(ACCELERATORS[:3])
    assert len({*ACCELERATORS, PROCESSOR}) == len(ACCELERATORS) + 1


def test_the_graph_names_engines_and_has_a_square_for_each_layer_of_an_accelerator(
    compiled: api.Compiled,
) -> None:
    layers = compiled.layers
    found = words(graph_svg(layers, compiled.timelines))
    for engine in {layer.engine for layer in layers}:
        assert found.count(engine) == sum(layer.engine == engine for layer in layers)
    assert "engine" in found
    (axes,) = graph_figure(layers, compiled.timelines).axes
    squares = [line for line in axes.lines if line.get_marker() == "s"]
    count = sum(len(line.get_xdata()) for line in squares)
    assert count == sum(layer.offloaded for layer in layers) == 2
    assert graph_png(layers, compiled.timelines).startswith(b"\x89PNG")


def test_without_accelerators_the_graph_has_no_engines(example: Example) -> None:
    named = of_steps(example.timeline.spans, 3)
    assert "engine" not in words(graph_svg(example.layers, (named,)))


def test_the_page_says_who_runs_what(compiled: api.Compiled) -> None:
    found = Page(render_html(compiled.report, compiled.layers, compiled.timelines, None))
    assert [tag for tag, _ in found.elements].count("svg") == 2
    for engine in compiled.report.engines:
        counts = f"{engine.nodes} {engine.calls} {engine.macs:,} {engine.cycles.estimated:,}"
        assert f"{engine.name} {counts}" in found.words
    for node in compiled.report.left_to_cpu:
        assert f"{node.where} {node.cycles:,}" in found.words
    swatches = [a["style"] for _, a in found.elements if a.get("class") == "engine"]
    assert len(swatches) == len(compiled.report.engines) + len(compiled.layers)
    assert swatches.count(f"background:{ACCELERATORS[0]}") == 1 + 2
    striped = any(layer.cascade is not None for layer in compiled.layers)
    assert ("Cascades" in found.words) == striped
    assert ("Layers by engine" in found.words) != striped


def shared_page(example: Example, name: str = "npu") -> Page:
    """The page of the small compilation, its first layer and all its turns an accelerator's."""
    first, *others = example.layers
    layers = (dataclasses.replace(first, engine=name, offloaded=True), *others)
    engines = (dataclasses.replace(CPU), dataclasses.replace(NPU, name=name).simulated(17))
    left = (dataclasses.replace(LEFT[0], origin=name, reason=name), LEFT[1])
    report = dataclasses.replace(example.report, engines=engines, left_to_cpu=left)
    turns = (Turn(name, True, 1, 2), Turn("cpu", False, 2, 4))
    timeline: Timeline = dataclasses.replace(example.timeline, turns=turns)
    counts = (None, *example.counts[1:])
    return Page(render_html(report, layers, (timeline,), counts))


def test_the_page_sums_no_simulated_figures_where_an_accelerator_has_none(
    example: Example,
) -> None:
    found = shared_page(example)
    assert "9,000,000 – – 9.00" in found.words
    assert "9,876,543 – –" in found.words
    assert "to estimated ones for layers that run on an accelerator" in found.words
    assert "750,000" not in found.words


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_engines_are_only_names(example: Example, name: str) -> None:
    found = shared_page(example, name)
    assert "script" not in {tag for tag, _ in found.elements}
    shown = "".join(c if c.isprintable() else "\ufffd" for c in name)
    assert found.words.count(shown) >= 4


def test_a_page_without_accelerators_speaks_of_no_engine(example: Example) -> None:
    found = Page(render_html(example.report, example.layers, (example.timeline,), None))
    assert "engine" not in found.words.lower()
