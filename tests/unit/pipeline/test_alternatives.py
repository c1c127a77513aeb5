"""Graphs that compute the same in another way, and their schedules in the frontier."""

from __future__ import annotations

from functools import cache

import pytest

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ladder import Truth, climb, run_point
from penstock.ops.partial_product import PartialProduct
from penstock.pipeline.compilation import Compilation, compile_graph, with_point
from penstock.pipeline.request import Request
from penstock.pipeline.search import band_source
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.text.printer import print_frontier
from penstock.simulators.graph import run_graph
from texts.schedule_reader import read_frontier


def chain(rows: int, columns: int) -> Graph:
    """Six convolutions of 3 x 3 and 16 channels."""
    net = GraphBuilder("chain")
    x = net.input((1, rows, columns, 16))
    for k in range(6):
        x = net.conv2d(x, 16, 3, name=f"conv{k}")
    return net.build(x)


def pair() -> Graph:
    """Pointwise layers whose hidden channels need far more memory than input and output."""
    net = GraphBuilder("pair")
    hidden = net.conv2d(net.input((1, 1, 1, 16)), 1024, 1, name="expand")
    return net.build(net.conv2d(hidden, 16, 1, name="project"))


def bottleneck() -> Graph:
    """An inverted bottleneck of 5 x 5 pixels, whose residual addition overwrites the sums."""
    net = GraphBuilder("bottleneck")
    x = net.input((1, 5, 5, 8))
    hidden = net.depthwise_conv2d(net.conv2d(x, 64, 1, name="expand"), 3, name="depthwise")
    return net.build(net.add(x, net.conv2d(hidden, 8, 1, name="project")))


def summed() -> Graph:
    """A wide first layer, and many channels that are summed over all rows for a classifier."""
    net = GraphBuilder("summed")
    x = net.conv2d(net.input((1, 40, 40, 4)), 24, 3, 2, "same", "relu6")
    x = net.depthwise_conv2d(net.conv2d(x, 8, 3, 2, "same"), 3, 2, "same")
    x = net.global_average_pool(net.conv2d(x, 192, 1, name="expand"))
    return net.build(net.fully_connected(net.reshape(x, (1, 192)), 8))


GRAPHS = {
    "strip": lambda: chain(1, 64),
    "wide": lambda: chain(4, 48),
    "pair": pair,
    "bottleneck": bottleneck,
    "summed": summed,
}


@cache
def compiled(name: str) -> Compilation:
    options = Options(max_recompute=1.0) if name == "bottleneck" else DEFAULTS
    return compile_graph(GRAPHS[name](), requested(options, stream_input=name == "summed"))


def requested(options: Options, *, stream_input: bool) -> Request:
    return api.request("zoo:lenet5", "cortex-m4", options=options, stream_input=stream_input)


def test_a_strip_of_columns_needs_what_a_strip_of_rows_needs() -> None:
    tall = compile_graph(chain(64, 1), api.request("zoo:lenet5", "cortex-m4"))
    assert compiled("strip").points[0].height_bytes == tall.points[0].height_bytes
    assert not tall.points[0].schedule.assigned_parts.alternative


def test_the_output_of_a_wide_image_replaces_its_input_column_by_column() -> None:
    image = 4 * 48 * 16
    assert image < compiled("wide").points[0].height_bytes < 1.5 * image


def test_hidden_channels_need_memory_for_a_group() -> None:
    done = compiled("pair")
    assert done.points[0].height_bytes < 1024 / 4
    assert done.points[0].schedule.cost.macs == done.model.macs()


def test_a_bottleneck_keeps_hidden_rows_of_all_groups_but_computes_those_of_one() -> None:
    """Two of three rows are read again.  Meanwhile, a group has a third row and its output, and
    there are a row of sums and an input that its output overwrites."""
    done = compiled("bottleneck")
    row, image, sums = 5 * 64, 5 * 5 * 8, 4 * 5 * 8
    groups = {
        sum(
            isinstance(node.op, PartialProduct) for node in point.schedule.parts.graph.nodes
        ): point.schedule.peak_bytes
        for point in reversed(done.points)
    }
    assert groups[0] == image + 4 * row
    assert groups[8] == image + 2 * row + 2 * row // 8 + sums
    assert all(point.schedule.cost.macs == done.model.macs() for point in done.points)


def test_groups_of_what_is_summed_over_rows_lower_the_memory_of_recomputation() -> None:
    """Row by row, the first layers need more.  Chains lower that to the memory of the summed rows,
    which only groups lower."""
    least = compiled("summed").points[0].schedule
    whole = compile_graph(summed(), requested(Options(alternatives=False), stream_input=True))
    row, sums, pixels = 5 * 192, 4 * 192, 5 * 8
    assert whole.points[0].schedule.peak_bytes >= row + sums + pixels
    assert least.peak_bytes < row + sums + pixels
    assert least.bands
    assert least.assigned_parts.alternative


@pytest.mark.parametrize("name", GRAPHS)
def test_points_of_alternatives_are_exact(name: str) -> None:
    done = compiled(name)
    (inputs,) = api.drawn_sets(done, 1)
    reference = {**inputs, **run_graph(done.model, inputs)}
    assert any(point.schedule.assigned_parts.alternative for point in done.points)
    for point in done.points:
        found = run_point(done, inputs, reference, point)
        assert found.elements
        assert not found.mismatches
    least = with_point(done, done.points[0])
    rungs = [rung for rung in climb(least, Truth(), (inputs,)) if rung.step == "host"]
    assert [rung.comparison.mismatches for rung in rungs] == [0]


@pytest.mark.parametrize("name", GRAPHS)
def test_texts_state_the_alternative(name: str) -> None:
    done = compiled(name)
    every = (point.schedule.assigned_parts for point in done.points)
    parts = next(parts for parts in every if not parts.alternative)
    bands = band_source(done.request.target)
    text = print_frontier(done.frontier)
    assert "\nalternative " in text
    assert read_frontier(text, parts, bands) == done.frontier
