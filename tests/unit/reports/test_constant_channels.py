"""Channels that do not depend on the input are found, skipped and reported."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lowered import assert_equal_to_graph, lower
from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibrated_graph import Weights
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.reports.layer import ConstantChannels
from penstock.reports.making import folded_macs
from penstock.reports.steps import constant_by_layer, layers
from penstock.simulators.graph import run_graph

CHANNELS, DEPTH = 16, 8
SCALE = Quantisation((0.1,), (-10,))
TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m55")
HIGH = 1 << 24
"""A bias that saturates an output, whatever the input is."""


def network(seed: int) -> tuple[Graph, tuple[int, ...]]:
    """A convolution, and the channels whose bias saturates them."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, CHANNELS - 1))
    saturated = sorted(rng.choice(CHANNELS, count, replace=False).tolist())
    bias = rng.integers(-200, 200, CHANNELS)
    bias[saturated] = rng.choice([-HIGH, HIGH], count)
    weights = rng.integers(-127, 128, (CHANNELS, 3, 3, DEPTH), np.int8)
    net = GraphBuilder(f"saturated{seed}", seed)
    x = net.input((1, 6, 6, DEPTH))
    given = Weights(weights, (0.01,), bias.astype(np.int32))
    y = net.conv2d(
        x, CHANNELS, 3, activation="relu", weights=given, quantisation=SCALE, name="saturated"
    )
    return net.build(net.conv2d(y, 4, 1, name="last")), tuple(saturated)


def varying_channels(graph: Graph, tensor: str) -> set[int]:
    """Channels of which two of many inputs give different values: by trying, no arithmetic."""
    dice = random.Random(1)
    found: set[int] = set()
    first = None
    for turn in range(24):
        fill = (-128, 127)[turn % 2] if turn < 2 else None
        rng = np.random.default_rng(dice.randrange(1 << 30))
        inputs = {
            v.name: np.full(v.type.shape, fill, np.int8)
            if fill is not None
            else rng.integers(-128, 128, v.type.shape).astype(np.int8)
            for v in graph.inputs
        }
        pixels = run_graph(graph, inputs)[tensor].reshape(-1, CHANNELS)
        first = pixels[0] if first is None else first
        found |= set(np.flatnonzero((pixels != first).any(axis=0)).tolist())
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(4))
def test_reported_constant_channels_never_vary(seed: int, target: str) -> None:
    graph, saturated = network(seed)
    lowered = lower(graph, target)
    found = constant_by_layer(lowered.schedule)["saturated"]
    assert found.channels == saturated
    assert set(range(CHANNELS)) - set(found.channels) == varying_channels(graph, "saturated")
    assert (found.count, found.weights) == (CHANNELS, "saturated/weights")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(4))
def test_executed_and_constant_macs_are_counted_apart(seed: int, target: str) -> None:
    graph, saturated = network(seed)
    lowered = lower(graph, target)
    counts, cost = assert_equal_to_graph(lowered, seed).counts, lowered.schedule.cost
    found = constant_by_layer(lowered.schedule)["saturated"]
    a_channel = 6 * 6 * 3 * 3 * DEPTH
    assert cost.constant_macs == (a_channel * len(saturated) if found.skipped else 0)
    assert cost.macs + cost.constant_macs == cost.nominal_macs == graph.macs()
    assert (counts.macs, counts.constant_macs) == (cost.macs, cost.constant_macs)
    rows = layers(lowered.schedule, lowered.program)
    assert sum(row.macs for row in rows) == cost.macs
    assert [row.constant for row in rows if row.name == "saturated"] == [found]


def test_kernels_that_skip_channels_have_no_weights_for_them() -> None:
    skipping = 0
    for seed, target in ((s, t) for s in range(4) for t in TARGETS):
        graph, saturated = network(seed)
        lowered = lower(graph, target)
        found = constant_by_layer(lowered.schedule)["saturated"]
        (part,) = (p for p in lowered.schedule.steps if p.name == "saturated")
        sizes = {name: table.type.size_bytes for name, table in part.kernel.tables}
        whole = CHANNELS * 3 * 3 * DEPTH
        assert found.dropped_bytes == (len(saturated) * 3 * 3 * DEPTH if found.skipped else 0)
        if target == "cortex-m4" and found.skipped:
            fours = -(-(CHANNELS - len(saturated)) // 4) * 4
            assert sizes["weights"] == fours * 3 * 3 * DEPTH
        elif not found.skipped:
            assert sizes.get("weights", whole) >= whole
        skipping += found.skipped
    assert skipping >= 4


def test_nodes_that_were_evaluated_at_compile_time_count_as_constant() -> None:
    net = GraphBuilder("folded")
    x = net.input((1, 4, 4, 2))
    always = net.constant(np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2), SCALE)
    folded = net.conv2d(always, 3, 1, name="folded")
    graph = net.build(net.add(net.conv2d(x, 3, 1, name="kept"), folded))
    kept = Graph(
        graph.name,
        graph.inputs,
        graph.outputs,
        tuple(node for node in graph.nodes if node.output.name != "folded"),
    )
    assert folded_macs(graph, graph) == 0
    assert folded_macs(graph, kept) == 4 * 4 * 2 * 3


def test_indices_are_shown_as_runs() -> None:
    found = ConstantChannels("a", (0, 1, 2, 5, 9, 10), 12, "w", False, 0)
    assert found.ranges == "0-2, 5, 9-10"
    assert found.words == "6 of 12 output channels are constant: computed anyway"
