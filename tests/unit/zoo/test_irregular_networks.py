"""NASNet and RandWire have the structure and the counts of their papers."""

from __future__ import annotations

from functools import cache

import pytest

from penstock.frontends.calibration import SeededRandom
from penstock.ir.graph import Graph
from penstock.zoo.randwire import small_world
from penstock.zoo.registry import open_zoo

opened = cache(open_zoo)
NASNET = "zoo:nasnet_mobile:resolution=32"
RANDWIRE = "zoo:randwire:resolution=32"
RANDWIRE_MACS, RANDWIRE_DEVIATION = 583e6, 6.2e6
"""Mean and standard deviation over five networks.  Source: table 2 of the paper."""
HEAD_MACS = 1280 * 1000
"""Of the dense layer, which does not shrink with the resolution."""


def weights(graph: Graph) -> int:
    """Number of weights without biases."""
    return sum(value.type.elements for value in graph.constants() if value.type.rank > 1)


def normalised_channels(graph: Graph) -> int:
    """Number of channels that have a scale and a shift in the paper's network: depthwise
    convolutions have none."""
    return sum(node.output.type.shape[3] for node in graph.nodes if node.kind == "Conv2D")


def count(graph: Graph, kind: str) -> int:
    return sum(node.kind == kind for node in graph.nodes)


def test_nasnet_has_the_weights_of_the_keras_model() -> None:
    """keras.applications.NASNetMobile has 5,326,716 parameters, of which 36,738 are not trained:
    means and variances."""
    graph = opened(NASNET)
    assert normalised_channels(graph) == 36_738 // 2
    assert weights(graph) == 5_326_716 - 2 * 36_738 - 1000
    kinds = ("Conv2D", "DepthwiseConv2D", "Concatenation")
    assert [count(graph, kind) for kind in kinds] == [196, 160, 20]


@pytest.mark.long
def test_nasnet_takes_the_multiplications_of_the_keras_model() -> None:
    assert open_zoo("zoo:nasnet_mobile").macs() == 563_638_816


def test_randwire_has_the_counts_of_its_paper() -> None:
    """All maps shrink by 49 from resolution 224 to 32."""
    graph = opened(RANDWIRE)
    macs = (graph.macs() - HEAD_MACS) * 49 + HEAD_MACS
    assert abs(macs - RANDWIRE_MACS) < 3 * RANDWIRE_DEVIATION
    edges = sum(c.type.elements == 1 for c in graph.constants())
    parameters = weights(graph) - edges + 2 * normalised_channels(graph) + 1000
    assert abs(parameters / 1e6 - 5.6) < 0.3
    assert count(graph, "DepthwiseConv2D") == 3 * 32


@pytest.mark.parametrize("nodes", [6, 7, 32])
def test_small_worlds_keep_the_number_of_edges(nodes: int) -> None:
    for seed in range(10):
        edges = small_world(nodes, 4, 0.75, SeededRandom(seed, 7))
        assert len(set(edges)) == len(edges) == 2 * nodes
        assert all(0 <= a < b < nodes for a, b in edges)
        assert list(edges) == sorted(edges)


def test_without_moves_a_small_world_is_a_ring() -> None:
    edges = small_world(8, 4, 0.0, SeededRandom(0, 7))
    assert {min(b - a, a + 8 - b) for a, b in edges} == {1, 2}


def test_three_quarters_of_the_edges_move() -> None:
    """Some of them, 4 of 31 at most, to nodes that a ring connects, too."""
    ring = set(small_world(32, 4, 0.0, SeededRandom(0, 7)))
    kept = [len(ring & set(small_world(32, 4, 0.75, SeededRandom(s, 7)))) for s in range(40)]
    assert 0.25 * 0.9 < sum(kept) / (40 * 64) < 0.25 + 4 / 31


def test_the_seed_selects_the_wiring() -> None:
    sets = [
        open_zoo(f"zoo:randwire:nodes=8,channels=2,resolution=32,classes=2,seed={seed}")
        for seed in (1, 2)
    ]
    first, second = ([(n.kind, n.output.type.shape) for n in graph.nodes] for graph in sets)
    assert first != second
