"""The grouping benchmark: networks as grouping problems, and `best` against all others."""

from __future__ import annotations

import pytest

from benchmarks import partition
from benchmarks.compared import compare
from benchmarks.graph_groups import graph_problem, network_problem
from benchmarks.traffic import GroupLimits, Traffic
from penstock.frontends.builder import GraphBuilder


def test_a_graph_becomes_a_problem() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 8, 8, 4))
    wide = net.conv2d(x, 16, 3, name="wide")
    flat = net.conv2d(wide, 4, 1, name="flat")
    problem = graph_problem(net.build(net.add(x, flat, name="sum")))
    assert [node.output_bytes for node in problem.nodes] == [1024, 256, 256]
    assert [node.reads for node in problem.nodes] == [(3,), (0,), (1, 3)]
    assert problem.nodes[0].weight_bytes >= 16 * 3 * 3 * 4
    assert problem.input_bytes == (256,)
    assert problem.outputs == {2}


def test_best_is_compared_with_every_strategy_and_order() -> None:
    for kilobytes in (8, 64):
        limits = GroupLimits(kilobytes << 10, kilobytes << 10)
        found = compare("resnet8", Traffic(network_problem("zoo:resnet8"), limits))
        assert not found.worse
        assert found.found.optimal
        assert found.gain(found.baselines["layer"]) > 0


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert partition.main(["--network", "zoo:resnet8"]) == 0
    out = capsys.readouterr().out
    assert "networks: bytes moved" in out
    assert "resnet8, large" in out
