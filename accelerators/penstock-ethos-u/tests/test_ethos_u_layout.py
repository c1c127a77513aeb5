"""ethos_u: the search compares layouts where blocks of 16 channels are not full."""

from __future__ import annotations

import pytest

from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pareto import is_dominated
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.placing import bytes_and_cycles

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

NPU = "ethos_u55:macs=128"


def residual(channels: int) -> Graph:
    net = GraphBuilder("net", seed=1)
    x = net.conv2d(net.input((1, 14, 14, 16)), 32, (3, 3))
    y = net.conv2d(net.conv2d(x, channels, (3, 3)), 32, (3, 3))
    return net.build(net.conv2d(net.add(x, y), channels, (3, 3), stride=2))


def costs(done: Compilation) -> list[tuple[int, int]]:
    return [bytes_and_cycles(point) for point in done.points]


def test_the_frontier_has_points_of_both_layouts() -> None:
    graph = residual(20)
    done = compiled(graph, NPU)
    used = {point.schedule.assigned_parts.alternative for point in done.points}
    assert used == {0, 1}
    for layout in ("nhwc", "nhcwb16"):
        alone = compiled(graph, f"{NPU},layout={layout}")
        least, fastest = costs(alone)[0], costs(alone)[-1]
        assert costs(done)[0] == least or not is_dominated(costs(done)[0], [least])
        assert costs(done)[-1] == fastest or not is_dominated(costs(done)[-1], [fastest])
    assert_exact(done, "points")


def test_layouts_are_not_compared_where_all_blocks_are_full() -> None:
    done = compiled(residual(32), NPU)
    assert not any(point.schedule.assigned_parts.alternative for point in done.points)
