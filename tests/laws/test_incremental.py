"""Incremental networks equal the network with the window, after every run."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from lowered import lower
from penstock.errors import UnsupportedError
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
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
    runs = [{x.name: frames[end - hop : end].reshape(new)} for end in ends]
    for end, found in zip(ends, run_sequences(made, runs, HOPS), strict=True):
        last = frames[end - network.frames : end].reshape(x.type.shape)
        expected = run_graph(window, {x.name: last})[y.name]
        rows = found[y.name].shape[1]
        np.testing.assert_array_equal(found[y.name], expected[:, -rows:])
    assert made.macs() <= window.macs()


@given(streaming_networks(3), st.data(), st.integers(0, 99))
def test_the_program_of_an_incremental_network_equals_it(
    network: StreamingNetwork, draw: st.DataObject, seed: int
) -> None:
    window, hop = network.graph, hop_of(draw, network)
    x, y = window.inputs[0], window.outputs[0]
    frames = signal(network, seed)[network.frames :]
    made = made_incremental(window, hop)
    machine, new = Machine(lower(made).program), made.inputs[0].type.shape
    runs = [{x.name: frames[k * hop : (k + 1) * hop].reshape(new)} for k in range(HOPS)]
    for inputs, expected in zip(runs, run_sequences(made, runs, HOPS), strict=True):
        np.testing.assert_array_equal(machine.run(inputs)[y.name], expected[y.name])
