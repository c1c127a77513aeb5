"""The cascade figure: one row per layer, one box per cascade, one arc per later reader."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from small_compilation import Example
from test_report_html import Page

from penstock import api
from penstock.reports.graph_figure import graph_figure, graph_png, graph_svg
from penstock.reports.html import render_html
from penstock.reports.report import striped

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def compiled() -> api.Compiled:
    """A network with residuals in the least memory."""
    frontier = api.compile("zoo:resnet8", "cortex-m4").report.frontier
    return api.compile("zoo:resnet8", "cortex-m4", sram=frontier[0].ram_bytes)


def words(svg: str) -> list[str]:
    """Every text of the picture."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_layer_and_every_cascade_is_named(compiled: api.Compiled) -> None:
    found = words(graph_svg(compiled.layers, compiled.timelines))
    assert [text for text in found if text.isdigit()]
    for layer in compiled.layers:
        assert layer.kind in found
    cascades = striped(compiled.compilation.schedule)
    assert cascades
    for number, cascade in enumerate(cascades):
        (title,) = [text for text in found if text.startswith(f"cascade {number}: ")]
        assert title.endswith(f", {cascade.calls:,} calls")


def test_a_line_leads_to_the_next_layer_and_an_arc_to_a_later_one(compiled: api.Compiled) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    layers = compiled.layers
    (axes,) = graph_figure(layers, compiled.timelines).axes
    distances = [place - read for place, layer in enumerate(layers) for read in layer.reads]
    arcs = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    boxes = [patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)]
    assert len(arcs) == sum(distance > 1 for distance in distances) > 0
    (straight,) = (c for c in axes.collections if isinstance(c, LineCollection))
    assert len(straight.get_paths()) == sum(distance == 1 for distance in distances) > 0
    assert len(boxes) == len(striped(compiled.compilation.schedule))


def test_a_bar_says_how_much_of_an_output_is_alive_at_a_time(compiled: api.Compiled) -> None:
    found = words(graph_svg(compiled.layers, compiled.timelines))
    spans = {span.name: span for span in compiled.timelines[0].spans}
    saved = [
        (spans[layer.name].most_bytes, layer.written_bytes)
        for layer in compiled.layers
        if spans[layer.name].most_bytes < layer.written_bytes
    ]
    assert saved
    for alive, total in saved:
        assert f"{alive:,} of {total:,}" in found


def test_the_page_of_a_cascade_draws_it_and_says_rows_and_calls(compiled: api.Compiled) -> None:
    found = Page(render_html(compiled.report, compiled.layers, compiled.timelines, None))
    assert [tag for tag, _ in found.elements].count("svg") == 2
    for layer in compiled.layers:
        if layer.cascade is not None:
            assert f"{layer.cascade}: {layer.rows} row" in found.words
    assert f" {compiled.compilation.schedule.cost.calls:,} " in found.words


def test_a_page_without_cascades_has_neither_picture_nor_columns(example: Example) -> None:
    found = Page(render_html(example.report, example.layers, (example.timeline,), None))
    assert [tag for tag, _ in found.elements].count("svg") == 1
    assert "cascade" not in found.words.replace("partition into cascades", "")


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "名前/😀", "nul\x00 \x1b[31m", "$x^2$"]
)
def test_odd_names_leave_the_picture_well_formed(compiled: api.Compiled, name: str) -> None:
    first, *others = compiled.layers
    (timeline,) = compiled.timelines
    span = next(s for s in timeline.spans if s.name == first.name)
    named = dataclasses.replace(span, name=name)
    timeline = dataclasses.replace(timeline, spans=(*timeline.spans, named))
    svg = graph_svg((dataclasses.replace(first, name=name), *others), (timeline,))
    assert "<script" not in svg
    assert len(words(svg)) > len(others)


def test_the_picture_has_the_same_bytes_twice(compiled: api.Compiled) -> None:
    arguments = (compiled.layers, compiled.timelines)
    assert graph_svg(*arguments) == graph_svg(*arguments)
    assert graph_png(*arguments).startswith(b"\x89PNG")
