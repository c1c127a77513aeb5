"""The least memory beside an Ethos-U: that of the kernels of least scratch, whatever reads fast.

Windows of more than three rows of a ring are gathered in scratch, with weights buffered or not, so
no kernel of such a layer does without scratch."""

from __future__ import annotations

import random

import pytest

from offloading import compiled
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import simplify
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from test_ethos_u_faults import NETWORKS

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

MODES = ("shared_sram", "sram_only")


def tall_windows(seed: int) -> Graph:
    """Convolutions with windows of up to ten rows, and pools, on tall images; large weights."""
    drawn = random.Random(seed)
    net = GraphBuilder(f"tall{seed}", seed)
    x = net.input((1, 49, 20, drawn.choice((1, 3, 16))))
    for _ in range(drawn.randint(2, 4)):
        height, width = extents(x)
        window = min(drawn.choice((3, 5, 10)), height), min(4, width)
        x = net.conv2d(x, drawn.choice((16, 32, 48)), window, activation="relu")
        if min(extents(x)) > 1 and drawn.random() < 0.7:
            x = drawn.choice((net.max_pool2d, net.average_pool2d))(x, 2)
    return net.build(net.fully_connected(x, 12))


def extents(x: Value) -> tuple[int, int]:
    _, height, width, _ = x.type.shape
    return height, width


def least_live_bytes(graph: Graph, accelerator: str) -> int:
    wanted: Request = api.request("tall", "cortex-m55", accelerators=(accelerator,))
    parts = assign_engines(simplify(graph, wanted.rounding), wanted)
    found = schedule(parts, wanted.target, wanted.options).schedules
    return min(one.peak_bytes for one in found)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_memory_depends_on_neither_multipliers_nor_where_constants_lie(
    seed: int,
) -> None:
    graph = tall_windows(seed)
    found = {
        (macs, mode): least_live_bytes(graph, f"ethos_u55:macs={macs},memory_mode={mode}")
        for macs in (32, 128)
        for mode in MODES
    }
    assert len(set(found.values())) == 1, found


def test_rows_are_not_scattered_where_scratch_costs_more_than_that_saves() -> None:
    """An improved order of rows is 4 bytes lower, and then needs 1,120 bytes more of scratch."""
    done = compiled(NETWORKS["scattered rows"], "ethos_u55:macs=128,memory_mode=sram_only")
    least = done.points[0]
    assert any(plan.placed_scratch_bytes for plan in least.schedule.plans)
    assert least.height_bytes <= least.schedule.peak_bytes + 64
