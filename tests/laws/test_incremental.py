"""Incremental networks equal the network with the window, after every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import int8
from lowered import assert_equal_to_graph, lower
from penstock.errors import UnsupportedError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, Data, DType, Quantisation, Region, TensorType
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.transpose import Transpose
from penstock.passes.incremental import incremental
from penstock.simulators.graph import run_graph, run_sequences
from penstock.simulators.machine import Machine
from streaming_networks import MOST_STRIDE, StreamingNetwork, streaming_networks

HOPS = 12
MOST_FRAMES = HOPS * 4 * MOST_STRIDE


def signal(network: StreamingNetwork, seed: int) -> Array:
    """As many zero frames as the window has, then random frames for all runs; (frames, size)."""
    x = network.graph.inputs[0].type
    size = x.elements // network.frames
    drawn = np.random.default_rng(seed).integers(-128, 128, (MOST_FRAMES, size))
    zero = np.full((network.frames, size), x.zero_point)
    return np.concatenate((zero, drawn)).astype(np.int8)


def hop_of(draw: st.DataObject, network: StreamingNetwork) -> int:
    """A multiple of the stride, at most the window."""
    most = network.frames // network.stride
    return network.stride * draw.draw(st.integers(1, max(1, min(4, most))))


def made_incremental(window: Graph, hop: int) -> Graph:
    """The incremental network, where a run can use what an earlier one has computed."""
    try:
        return incremental(window, hop)
    except UnsupportedError as error:
        assume(error.code != "incremental-004")
        raise


@given(streaming_networks(), st.data(), st.integers(0, 99))
def test_every_run_equals_the_network_with_the_window(
    network: StreamingNetwork, draw: st.DataObject, seed: int
) -> None:
    window, hop = network.graph, hop_of(draw, network)
    x, y = window.inputs[0], window.outputs[0]
    frames = signal(network, seed)
    made = made_incremental(window, hop)
    ends = [network.frames + (k + 1) * hop for k in range(HOPS)]
    new = made.inputs[0].type.shape
    runs = [{x.name: network.input(frames[end - hop : end], new)} for end in ends]
    for end, found in zip(ends, run_sequences(made, runs, HOPS), strict=True):
        last = network.input(frames[end - network.frames : end], x.type.shape)
        expected = run_graph(window, {x.name: last})[y.name]
        rows = found[y.name].shape[1]
        np.testing.assert_array_equal(found[y.name], expected[:, -rows:])
    assert made.macs() <= window.macs()


def test_states_are_computed_of_a_row_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the network: the dense layer is not evaluated at all."""
    net = GraphBuilder("dense")
    first = net.conv2d(net.input((1, 60, 1, 8)), 4, (3, 1), padding="valid")
    second = net.conv2d(first, 4, (3, 1), padding="valid")
    window = net.build(net.fully_connected(second, 5))
    evaluated: list[tuple[str, int]] = []
    for op in (Conv2D, FullyConnected):
        monkeypatch.setattr(op, "evaluate", recorded(op, evaluated))
    made = incremental(window, 2)
    assert len(made.states) > 1
    assert evaluated == [("Conv2D", 4), ("Conv2D", 4)]


def recorded(op: type[Op], found: list[tuple[str, int]]) -> Callable[..., Array]:
    """The evaluation of an operator, which records how many elements it computes."""
    evaluate = op.evaluate

    def recording(self: Op, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        found.append((op.__name__, out.elements))
        return evaluate(self, site, inputs, out)

    return recording


@given(streaming_networks(3), st.data(), st.integers(0, 99))
def test_the_program_of_an_incremental_network_equals_it(
    network: StreamingNetwork, draw: st.DataObject, seed: int
) -> None:
    window, hop = network.graph, hop_of(draw, network)
    x, y = window.inputs[0], window.outputs[0]
    frames = signal(network, seed)[network.frames :]
    made = made_incremental(window, hop)
    machine, new = Machine(lower(made).program), made.inputs[0].type.shape
    runs = [{x.name: network.input(frames[k * hop : (k + 1) * hop], new)} for k in range(HOPS)]
    for inputs, expected in zip(runs, run_sequences(made, runs, HOPS), strict=True):
        np.testing.assert_array_equal(machine.run(inputs)[y.name], expected[y.name])


def test_the_channels_of_an_image_are_no_frames() -> None:
    """Equal weights of all channels, as of a mean over windows with a scale of its own."""
    net = GraphBuilder("pool")
    x = net.input((1, 4, 8, 8))
    y = net.apply(Transpose((0, 2, 3, 1)), x, quantisation=x.type.quantisation)
    window = Window(2, 2)
    type = TensorType((1, 2, 2, 4), DType.INT8, Quantisation((0.002,) * 4, (0,) * 4, 3))
    weights = Value("w", type, Data.of(np.full((1, 2, 2, 4), 127, np.int8)))
    zeros = net.constant(np.zeros(4, np.int32), None, "bias")
    mean = net.apply(DepthwiseConv2D(window, window), y, weights, zeros)
    graph = net.build(net.apply(Transpose((0, 3, 1, 2)), mean, quantisation=mean.type.quantisation))
    assert incremental(graph, 2).inputs[0].type.shape == (1, 4, 2, 8)


def test_constants_along_time_keep_the_scales_of_their_rows() -> None:
    """A series along an axis of which weights have a scale for each index."""
    x = Value("x", int8(1, 1, 1, 6))
    type = TensorType((1, 1, 1, 6), DType.INT8, Quantisation((0.01,) * 6, (0,) * 6, 3))
    weights = Value("w", type, Data.of(np.full(type.shape, 3, np.int8)))
    bias = Value("b", TensorType((6,), DType.INT32), Data.of(np.zeros(6, np.int32)))
    one = Window(1)
    y = Value("y", int8(1, 1, 1, 6))
    graph = Graph("g", (x,), (y,), (Node(DepthwiseConv2D(one, one), (x, weights, bias), y),))
    made = incremental(graph, 2)
    for value in made.constants():
        assert value.type.quantisation is None or len(value.type.quantisation.scales) == 2
    assert_equal_to_graph(lower(made), seed=1)
