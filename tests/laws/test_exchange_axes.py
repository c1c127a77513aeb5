"""Laws of `exchange_axes`: exchanged networks compute the same, wide ones need less memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lowered import assert_equal_to_graph, inputs_of_graph, lower
from offloading import assert_exact, compiled
from penstock.choices import Optimize
from penstock.frontends.builder import GraphBuilder
from penstock.ir.exchange import (
    Exchangeable,
    exchanged_data,
    exchanged_elements,
    exchanged_type,
    is_image,
)
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Array
from penstock.ir.verify import verify
from penstock.ops.resize import Sampling, UnsignedResizeBilinear
from penstock.passes.exchange_axes import exchange_axes
from penstock.pipeline.graphs import simplify
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from small_networks import networks
from strategies import graphs, seeds
from texts.graph_reader import graph_from_text


def transposed(graph: Graph) -> Graph | None:
    """The network with exchanged inputs, tensors and outputs; None if an operator allows none."""

    def value(one: Value) -> Value:
        data = None if one.data is None else exchanged_data(one.type, one.data)
        return Value(one.name, exchanged_type(one.type), data)

    nodes: list[Node] = []
    for node in graph.nodes:
        images = (*node.variable_inputs, node.output)
        if not isinstance(node.op, Exchangeable) or not all(is_image(v.type.shape) for v in images):
            return None
        op = node.op.exchanged(node.output.type.rank)
        nodes.append(Node(op, tuple(map(value, node.inputs)), value(node.output), node.origin))
    inputs, outputs = (tuple(map(value, some)) for some in (graph.inputs, graph.outputs))
    return Graph(graph.name, inputs, outputs, tuple(nodes))


def outputs(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    found = run_graph(graph, inputs)
    return {value.name: found[value.name] for value in graph.outputs}


@given(graph=graphs(), seed=seeds)
def test_exchanged_networks_compute_the_same(graph: Graph, seed: int) -> None:
    made = exchange_axes(graph)
    assume(made is not None)
    assert made is not None
    verify(made)
    inputs = inputs_of_graph(graph, seed)
    np.testing.assert_equal(outputs(made, inputs), outputs(graph, inputs))
    assert_equal_to_graph(lower(simplify(made)), seed)


def test_interpolation_in_single_precision_is_not_exchanged() -> None:
    """Its roundings depend on the order of rows and columns."""
    net = GraphBuilder("resized")
    x = net.input((1, 2, 18, 14))
    op = UnsignedResizeBilinear(4, 10, Sampling.HALF_PIXEL)
    graph = net.build(net.apply(op, x, quantisation=x.type.quantisation))
    for seed in range(8):
        inputs, made = inputs_of_graph(graph, seed), exchange_axes(graph) or graph
        np.testing.assert_equal(outputs(made, inputs), outputs(graph, inputs))


@given(graph=graphs(constants=True), seed=seeds)
def test_networks_with_constant_images_compute_the_same(graph: Graph, seed: int) -> None:
    made = exchange_axes(graph)
    assume(made is not None)
    assert made is not None
    verify(made)
    inputs = inputs_of_graph(graph, seed)
    np.testing.assert_equal(outputs(made, inputs), outputs(graph, inputs))


@given(tall=networks(), seed=seeds, accumulate=st.booleans())
def test_wide_networks_compute_the_same(tall: Graph, seed: int, accumulate: bool) -> None:
    wide = transposed(tall)
    assume(wide is not None)
    assert wide is not None
    inputs = inputs_of_graph(tall, seed)
    across = {name: exchanged_elements(elements) for name, elements in inputs.items()}
    expected = {name: exchanged_elements(y) for name, y in outputs(tall, inputs).items()}
    np.testing.assert_equal(outputs(wide, across), expected)
    made = exchange_axes(wide)
    assume(made is not None)
    assert made is not None
    np.testing.assert_equal(outputs(made, across), expected)
    found = Machine(lower(made, accumulate=accumulate).program).run(across)
    np.testing.assert_equal(found, expected)


def chain(shape: tuple[int, ...], layers: int = 6) -> Graph:
    """Convolutions 3 x 3 with SAME padding and 16 channels."""
    net = GraphBuilder("chain")
    x = net.input(shape)
    for k in range(layers):
        x = net.conv2d(x, 16, 3, name=f"layer{k}")
    return net.build(x)


def exchanged(graph: Graph) -> Graph:
    found = exchange_axes(graph)
    assert found is not None
    return found


@pytest.mark.parametrize("goal", Optimize)
def test_a_strip_needs_the_same_memory_along_both_axes(goal: Optimize) -> None:
    tall, wide = chain((1, 256, 1, 16)), exchanged(chain((1, 1, 256, 16)))
    alone = Options(alternatives=False)
    here, there = (
        compiled(graph, target="cortex-m4", optimize=goal, options=alone) for graph in (tall, wide)
    )
    assert there.placement.height_bytes == here.placement.height_bytes
    assert there.schedule.cost.macs == here.graph.macs()


def test_the_output_of_a_wide_network_overwrites_its_input() -> None:
    graph = exchanged(chain((1, 8, 512, 16)))
    done = compiled(graph, target="cortex-m4", optimize=Optimize.SIZE)
    assert done.placement.height_bytes <= 70_000  # the input alone takes 65,536 bytes
    assert done.schedule.cost.macs == graph.macs()


@pytest.mark.parametrize("keep", [False, True])
def test_inputs_that_must_survive_are_converted_row_by_row(keep: bool) -> None:
    net = GraphBuilder("small_end")
    x = net.max_pool2d(net.conv2d(net.input((1, 8, 64, 4)), 4, 3), 2)
    graph = exchange_axes(net.build(net.fully_connected(x, 3)), keep_inputs=keep)
    assert graph is not None
    assert graph.nodes[0].kind == ("Transpose" if keep else "ExchangeAxes")
    options = Options(keep_input=keep)
    done = compiled(graph, target="cortex-m4", options=options, optimize=Optimize.SIZE)
    assert done.placement.height_bytes <= 2048 + 640  # the input and a quarter of it
    assert_exact(done, "machine")


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 64, 16),
        (1, 6, 40, 16),
        pytest.param((1, 1, 256, 16), marks=pytest.mark.long),
        pytest.param((1, 8, 512, 16), marks=pytest.mark.long),
    ],
)
def test_wide_networks_are_exact_on_all_rungs(shape: tuple[int, ...]) -> None:
    for extra in ("ziglang", "unicorn"):
        pytest.importorskip(extra, reason="the extra 'simulate' is not installed")
    done = compiled(exchanged(chain(shape)), target="cortex-m4", optimize=Optimize.SIZE)
    assert_exact(done, "core")


STRIPES = """
graph g
input x: int8[1,6,6,2] scale 0.05 zero -3
input z: int8[1,6,6,2] scale 0.03 zero 7
constant w: int8[1,1,3,2] scale 0.02 = 1
constant b: int32[2] = 7
n0: int8[1,6,4,2] scale 0.1 = DepthwiseConv2D(z, w, b, rows=Window(size=1), columns=Window(size=3))
n1: int8[1,6,6,2] scale 0.1 = Add(x, x)
n2: int8[1,6,9,3] scale 0.1 = Pad(n1, before=(0, 0, 1, 0), after=(0, 0, 2, 1), fill=5)
n3: int8[1,6,6,2] scale 0.00390625 zero -128 = Softmax(z)
n4: int8[1,6,6,2] scale 0.1 = Add(n1, x)
n5: int8[1,4,4,2] scale 0.1 = MaxPool2D(n4, rows=Window(size=3), columns=Window(size=3))
output n0, n2, n3, n5
"""
"""Its schedule computes the 9 rows of `n2/exchanged` in stripes of 8; one call reads them all."""


def test_a_call_that_reads_all_rows_does_not_merge_the_stripes_of_their_producer() -> None:
    graph = exchanged(graph_from_text(STRIPES))
    assert_equal_to_graph(lower(simplify(graph)), seed=0)
