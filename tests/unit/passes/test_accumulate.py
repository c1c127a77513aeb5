"""Split reductions: they compute the same, and they save memory.

`accumulate.txt` shows which reductions are split."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.small_tensors import bias, int8, weights
from lowered import inputs_of_graph
from penstock import api
from penstock.backends.processor_parts import assign
from penstock.choices import Rounding
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.running import RequantiseLast, RunningMax, RunningSum
from penstock.ops.sums import Mean, Sum
from penstock.ops.unary import Relu
from penstock.passes.accumulate import accumulate
from penstock.passes.cleaning import drop_dead
from penstock.pipeline import assignment
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.pipeline.stages import SIMPLIFY, run_through
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
    "average with columns dilated": AveragePool2D(Window(HEIGHT), Window(3, 2, 2, 1, 2)),
    "max with columns dilated": MaxPool2D(Window(HEIGHT), Window(3, 1, 2)),
    "max of all": MaxPool2D(*ALL),
    "max of some columns, padded": MaxPool2D(Window(8, 3), Window(2, 2, 1, 0, 1), Activation.RELU6),
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


@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU])
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("axis", [None, 0])
def test_a_fully_connected_layer_after_an_image_is_split(
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


def test_only_dense_layers_round_once() -> None:
    net = GraphBuilder("rounds")
    x = net.conv2d(net.input((1, 8, 8, 2)), 3, 3, name="conv")
    dense = accumulate(simplify(net.build(net.fully_connected(x, 2)), Rounding.SINGLE))
    mean = accumulate(simplify(reduced(Mean((1, 2))), Rounding.SINGLE))
    assert roundings(dense) == [Rounding.SINGLE]
    assert roundings(mean) == [Rounding.DOUBLE]


def roundings(graph: Graph) -> list[Rounding]:
    return [n.op.rounding for n in graph.nodes if isinstance(n.op, RequantiseLast)]


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


def planned(graph: Graph, *, split: bool) -> tuple[PlacedPoint, ...]:
    request = Request("spotter", HOST, options=Options(accumulate=split))
    parts = assign_engines(simplify(graph), request)
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


def test_compilation_splits_reductions_once_and_only_after_offload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Graph] = []

    def counted(graph: Graph) -> Graph:
        seen.append(graph)
        return accumulate(graph)

    monkeypatch.setattr(assignment, "ACCUMULATION", (counted, drop_dead))
    done = api.compile(
        "zoo:resnet8", "host", accelerators=("vanilla",), plan_streaming=False
    ).compilation
    assert len(seen) == 1
    assert any(isinstance(node.op, Composite) for node in seen[0].nodes)
    split = [node for node in done.graph.nodes if isinstance(node.op, RunningSum)]
    assert len(split) == 1
    simplified = run_through(done.request, "simplify").result(SIMPLIFY)
    assert isinstance(simplified, Graph)
    assert not any(isinstance(node.op, RunningSum) for node in simplified.nodes)


def test_the_row_bound_counts_one_slot_for_accumulating_rows() -> None:
    whole = simplify(keyword_spotter())
    before, after = (assign(g, HOST).rows.least_bytes for g in (whole, accumulate(whole)))
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
    assert storage.slots == HEIGHT
