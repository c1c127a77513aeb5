"""Tensors that are stored in unused slots of rings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowered import lower
from penstock.backends.processor_parts import assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Node, State
from penstock.ops.registry import COPY
from penstock.passes.incremental import incremental
from penstock.passes.order import STATES, run_passes
from penstock.scheduling.model.parts import Parts
from penstock.simulators.graph import run_sequences
from penstock.simulators.machine import Machine

HOPS = 20


def tower(hop: int = 1) -> Graph:
    """Three windows over time, each followed by a pointwise layer."""
    net = GraphBuilder("tower")
    x = net.input((1, 9, 1, 8))
    for size in (2, 3, 4):
        x = net.conv2d(net.depthwise_conv2d(x, (size, 1), padding="valid"), 8, 1)
    return incremental(net.build(net.softmax(x)), hop)


def parts(graph: Graph, *, stream_input: bool = False) -> Parts:
    target = load_target("host")
    return assign(run_passes(graph, STATES), target, stream_input=stream_input)


def guests(found: Parts) -> dict[str, list[tuple[str, int]]]:
    """By queue, the guests and the rows of the window in whose slots they are."""
    return {
        memory.queue.before.name: [(guest.value.name, guest.row) for guest in memory.guests]
        for memory in found.queues
    }


def test_rows_are_stored_before_the_new_row_and_after_the_oldest_row() -> None:
    found = guests(parts(tower()))
    assert found == {
        "input/kept": [("depthwise_conv2d_1", 0)],
        "conv2d/kept": [("depthwise_conv2d_2", 0)],
        "conv2d_1/kept": [("depthwise_conv2d", 3), ("conv2d_2", 0)],
    }


def test_the_oldest_row_stays_if_a_run_may_fail() -> None:
    found = guests(parts(tower(), stream_input=True))
    rows = {row for every in found.values() for _, row in every}
    assert rows == {3}


def test_there_are_no_guests_if_parts_have_several_rows() -> None:
    assert not any(guests(parts(tower(2))).values())


def test_a_window_that_becomes_a_state_keeps_its_oldest_row() -> None:
    found = parts(tower())
    queue = found.graph.queues[0]
    append = found.graph.producers()[queue.window.name]
    other = replace(append.inputs[0], name="other", type=queue.window.type)
    raw = bytes(queue.window.type.size_bytes)
    state = State(replace(queue.initial, raw=raw), Node(COPY, (queue.window,), other))
    graph = replace(found.graph, states=(state,))
    assert not [row for _, row in guests(replace(found, graph=graph))["input/kept"] if row == 0]


def test_guests_change_no_result() -> None:
    graph = tower()
    lowered = lower(graph)
    machine, x = Machine(lowered.program), graph.inputs[0]
    rng = np.random.default_rng(0)
    runs = [{x.name: rng.integers(-128, 128, x.type.shape).astype(np.int8)} for _ in range(HOPS)]
    assert any(memory.guests for memory in lowered.schedule.parts.queues)
    for inputs, expected in zip(runs, run_sequences(graph, runs, HOPS), strict=True):
        found = machine.run(inputs)
        for value in graph.outputs:
            np.testing.assert_array_equal(found[value.name], expected[value.name])
