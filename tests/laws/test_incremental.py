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
from streaming_networks import StreamingNetwork, streaming_networks

HOPS = 12


def signal(window: Graph, hop: int, seed: int) -> Array:
    """As many zero frames as the window has, then random frames for all runs."""
    x = window.inputs[0].type
    rng = np.random.default_rng(seed)
    zero = np.full(x.shape, x.zero_point, np.int8)
    drawn = rng.integers(-128, 128, (1, HOPS * hop, *x.shape[2:])).astype(np.int8)
    return np.concatenate((zero, drawn), 1)


def hop_of(draw: st.DataObject, network: StreamingNetwork) -> int:
    """A multiple of the stride, at most the window."""
    frames = network.graph.inputs[0].type.shape[1]
    return network.stride * draw.draw(st.integers(1, max(1, min(4, frames // network.stride))))


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
    frames = signal(window, hop, seed)
    made = made_incremental(window, hop)
    ends = [x.type.shape[1] + (k + 1) * hop for k in range(HOPS)]
    runs = [{x.name: frames[:, end - hop : end]} for end in ends]
    for end, found in zip(ends, run_sequences(made, runs, HOPS), strict=True):
        expected = run_graph(window, {x.name: frames[:, end - x.type.shape[1] : end]})[y.name]
        rows = found[y.name].shape[1]
        np.testing.assert_array_equal(found[y.name], expected[:, -rows:])
    assert made.macs() <= window.macs()


@given(streaming_networks(3), st.data(), st.integers(0, 99))
def test_the_program_of_an_incremental_network_equals_it(
    network: StreamingNetwork, draw: st.DataObject, seed: int
) -> None:
    window, hop = network.graph, hop_of(draw, network)
    x, y = window.inputs[0], window.outputs[0]
    frames = signal(window, hop, seed)[:, x.type.shape[1] :]
    made = made_incremental(window, hop)
    machine = Machine(lower(made).program)
    runs = [{x.name: frames[:, k * hop : (k + 1) * hop]} for k in range(HOPS)]
    for inputs, expected in zip(runs, run_sequences(made, runs, HOPS), strict=True):
        np.testing.assert_array_equal(machine.run(inputs)[y.name], expected[y.name])
