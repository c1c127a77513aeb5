"""Reductions in two halves: which are split, and what that is worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowered import inputs_of_graph
from penstock.backends.portable import assign
from penstock.errors import InternalError
from penstock.fixedpoint import Rounding
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.ops.activation import Activation
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.mean import Mean
from penstock.ops.relu import Relu
from penstock.ops.requantise_last import RequantiseLast
from penstock.ops.reshape import Reshape
from penstock.ops.running_max import RunningMax
from penstock.ops.samples import bias, int8, weights
from penstock.ops.sum import Sum
from penstock.ops.window import Window
from penstock.passes.accumulate import accumulate
from penstock.passes.drop_dead import drop_dead
from penstock.pipeline import Point, Request, parts_of, place, schedule, simplify
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from strategies import node_of

HOST = load_target("host")
HEIGHT, WIDTH = 9, 6
ALL = Window(HEIGHT), Window(WIDTH)
SPLIT: dict[str, Op] = {
    "mean of rows and columns": Mean((1, 2)),
    "mean of rows": Mean((1,)),
    "mean of an image of a batch of one": Mean((0, 1, 2)),
    "sum": Sum((1, 2)),
    "average of all": AveragePool2D(*ALL, Activation.RELU),
    "average of some columns, padded": AveragePool2D(Window(HEIGHT), Window(3, 2, 1, 1, 1)),
    "average of the first rows": AveragePool2D(Window(7, 5), Window(WIDTH)),
    "average with rows padded": AveragePool2D(Window(11, 1, 1, 1, 1), Window(WIDTH)),
    "max of all": MaxPool2D(*ALL),
    "max of some columns, padded": MaxPool2D(Window(8, 3), Window(2, 2, 1, 0, 1), Activation.RELU6),
}
LEFT: dict[str, Op] = {
    "mean of columns": Mean((2,)),
    "mean of channels, too": Mean((1, 2, 3)),
    "average of two rows": AveragePool2D(Window(8), Window(WIDTH)),
}


def image(channels: int = 3, height: int = HEIGHT) -> Value:
    return Value("x", int8(1, height, WIDTH, channels))


def reduced(op: Op, x: Value | None = None, made: Op | None = None) -> Graph:
    """The reduction of an image that another operator makes."""
    x = x or image()
    before = node_of("image", made or Relu(), (x,), like=x.type)
    after = node_of("y", op, (before.output,), like=x.type)
    return Graph("g", (x,), (after.output,), (before, after))


def results(graph: Graph, seed: int) -> list[np.ndarray]:
    values = run_graph(graph, inputs_of_graph(graph, seed))
    return [values[v.name] for v in graph.outputs]


@pytest.mark.parametrize("name", SPLIT)
def test_a_reduction_to_one_row_is_split(name: str) -> None:
    before = reduced(SPLIT[name])
    after = accumulate(before)
    _, running, last = after.nodes
    assert running.op.kernel(running.site).accumulates
    assert last.output == before.outputs[0]
    for seed in range(20):
        np.testing.assert_array_equal(results(after, seed), results(before, seed))


@pytest.mark.parametrize("name", LEFT)
def test_other_reductions_are_left(name: str) -> None:
    graph = reduced(LEFT[name])
    assert accumulate(graph) == graph


def test_totals_of_more_than_half_the_image_are_left() -> None:
    for height, left in ((7, True), (8, False)):  # a row of totals has the bytes of four rows
        graph = reduced(AveragePool2D(Window(height), Window(1)), image(height=height))
        assert (accumulate(graph) == graph) is left


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("axis", [None, 0])
def test_a_dense_layer_behind_an_image_is_split(
    activation: Activation, rounding: Rounding, axis: int | None
) -> None:
    """However many views there are between them."""
    before = dense_behind(FullyConnected(activation, rounding=rounding), image(), axis=axis)
    after = drop_dead(accumulate(before))
    assert not any(isinstance(node.op, FullyConnected) for node in after.nodes)
    assert sum(node.op.ALIAS for node in after.nodes) == 1  # from a row to the output's shape
    for seed in range(20):
        np.testing.assert_array_equal(results(after, seed), results(before, seed))


def dense_behind(op: FullyConnected, x: Value, axis: int | None = None) -> Graph:
    before = node_of("image", Relu(), (x,), like=x.type)
    column = node_of("column", Reshape((1, x.type.elements)), (before.output,), like=x.type)
    flat = node_of("flat", Reshape((x.type.elements,)), (column.output,), like=x.type)
    layer = weights(4, x.type.elements, axis=axis), bias(4)
    after = node_of("y", op, (flat.output,), *layer)
    return Graph("g", (x,), (after.output,), (before, column, flat, after))


def test_a_dense_layer_of_several_rows_or_of_a_view_that_is_kept_is_left() -> None:
    x = image()
    before = node_of("image", Relu(), (x,), like=x.type)
    several = node_of("y", FullyConnected(), (before.output,), weights(4, 81), bias(4))
    kept = dense_behind(FullyConnected(), x)
    for graph in (
        Graph("g", (x,), (several.output,), (before, several)),
        replace(kept, outputs=(*kept.outputs, kept.nodes[1].output)),
    ):
        assert accumulate(graph) == graph


def test_only_dense_layers_round_once() -> None:
    net = GraphBuilder("rounds")
    x = net.conv2d(net.input((1, 8, 8, 2)), 3, 3, name="conv")
    dense = simplify(net.build(net.fully_connected(x, 2)), Rounding.SINGLE)
    mean = simplify(reduced(Mean((1, 2))), Rounding.SINGLE)
    assert roundings(dense) == [Rounding.SINGLE]
    assert roundings(mean) == [Rounding.DOUBLE]


def roundings(graph: Graph) -> list[Rounding]:
    return [n.op.rounding for n in graph.nodes if isinstance(n.op, RequantiseLast)]


def test_a_single_row_is_left() -> None:
    graph = reduced(Mean((1, 2)), image(height=1))
    assert accumulate(graph) == graph


def test_an_image_that_must_be_there_anyway_is_left() -> None:
    """Where it is an input or output, or read twice, or made at once."""
    x = image()
    of_input = node_of("y", Mean((1, 2)), (x,))
    graph = reduced(Mean((1, 2)))
    pixels, mean = graph.nodes
    second = node_of("second", Relu(), (pixels.output,))
    dense = FullyConnected(keep_dimensions=True)
    made = node_of("image", dense, (x,), weights(3, 3), bias(3), like=x.type)
    of_made = node_of("y", Mean((1, 2)), (made.output,))
    for kept in (
        Graph("g", (x,), (of_input.output,), (of_input,)),
        Graph("g", graph.inputs, (mean.output, pixels.output), graph.nodes),
        Graph("g", graph.inputs, (mean.output, second.output), (*graph.nodes, second)),
        Graph("g", (x,), (of_made.output,), (made, of_made)),
    ):
        assert accumulate(kept) == kept


def keyword_spotter(blocks: int = 4, width: int = 64) -> Graph:
    """As DS-CNN: convolutions at 25 x 5, their mean, ten classes."""
    net = GraphBuilder("spotter")
    x = net.input((1, 49, 10, 1))
    x = net.conv2d(x, width, (10, 4), stride=2, activation="relu", name="first")
    for k in range(blocks):
        x = net.depthwise_conv2d(x, 3, activation="relu", name=f"depthwise{k}")
        x = net.conv2d(x, width, 1, activation="relu", name=f"pointwise{k}")
    x = net.global_average_pool(x)
    return net.build(net.softmax(net.fully_connected(x, 10)))


def planned(graph: Graph, *, split: bool) -> tuple[Point, ...]:
    request = Request("spotter", HOST, options=Options(accumulate=split))
    parts = parts_of(simplify(graph, options=request.options), request)
    return place(schedule(parts, HOST, request.options), HOST, request.options)


def test_a_global_mean_no_longer_needs_its_image() -> None:
    graph = keyword_spotter()
    whole, by_rows = planned(graph, split=False), planned(graph, split=True)
    image_bytes, row_bytes, total_bytes = 25 * 5 * 64, 5 * 64, 4 * 64
    assert whole[0].height_bytes >= image_bytes + 64
    assert by_rows[0].height_bytes < 8_640 / 2
    # the input, three rows and one of each layer of 3 x 3, one row behind it: no more at a time
    assert by_rows[0].height_bytes < 490 + 4 * (3 + 1) * row_bytes + row_bytes + total_bytes
    assert by_rows[-1].height_bytes <= whole[-1].height_bytes
    assert by_rows[-1].schedule.cost.cycles < 1.005 * whole[-1].schedule.cost.cycles


def test_the_row_bound_knows_that_totals_take_one_place() -> None:
    graph = keyword_spotter()
    before, after = (
        assign(simplify(graph, options=Options(accumulate=split)), HOST).rows.least_bytes
        for split in (False, True)
    )
    assert before == 25 * 5 * 64 + 64  # the mean reads all of the image
    assert after == max(490, (3 + 1) * 5 * 64, 5 * 64 + 4 * 64)  # a layer of 3 x 3 reads 3 rows


def test_who_reads_a_row_that_is_written_over_is_our_mistake() -> None:
    x = image()
    maxima = node_of("maxima", RunningMax(HEIGHT, Window(WIDTH)), (x,), like=x.type)
    every = node_of("every", Relu(), (maxima.output,))
    graph = Graph("g", (x,), (every.output,), (maxima, every))
    with pytest.raises(InternalError, match='row 0 of "maxima" is read'):
        _ = assign(graph, HOST).rows


def test_what_reads_all_rows_as_one_array_finds_all_rows() -> None:
    x = image()
    maxima = node_of("maxima", RunningMax(HEIGHT, Window(WIDTH)), (x,), like=x.type)
    graph = Graph("g", (x,), (maxima.output,), (maxima,))
    (_, storage) = assign(graph, HOST).rows.storages
    assert storage.places == HEIGHT
