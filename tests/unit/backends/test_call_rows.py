"""What a kernel call states about its rows: an upper bound, and the exact number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import penstock
from examples.uma import npu16, phases
from penstock import api, ladder
from penstock.backends.uma import backend as facade
from penstock.pipeline.emission import lower_point
from penstock.program.steps import calls
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.uma import Command, Driver, Graph, KernelCall, OpStrategy


def network() -> Graph:
    net = penstock.GraphBuilder("pools")
    return net.build(net.max_pool2d(net.max_pool2d(net.input((1, 28, 28, 4)), 2), 2))


def test_stripes_have_at_most_the_stated_rows_and_sometimes_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, int, int]] = []

    def note(device: dict[str, int], height: int, exact: int, most: int) -> None:
        seen.append((height, exact, most))

    def compute(call: KernelCall) -> Sequence[Command]:
        height = call.output.shape[1]
        driver = Driver("rows_note", "rows", note, device=dict)
        noted = call.invoke(driver, height, call.computed_rows, call.rows)
        return [noted, *whole_rows(call)]

    whole_rows = phases.compute
    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(phases, "compute", compute)
    phases.Rows().register()
    done = penstock.compile(network(), "host", accelerators=("rows",)).compilation
    (inputs,) = api.drawn_sets(done, 1)
    reference = run_graph(done.model, inputs)
    fewer = 0
    for point in done.points:
        seen.clear()
        assert ladder.run_point(done, inputs, reference, point).mismatches == 0
        for height in (14, 7):
            mine = [(exact, most) for h, exact, most in seen if h == height]
            assert sum(exact for exact, _ in mine) == height
            assert max(exact for exact, _ in mine) == mine[0][1], "the bound is tight"
            fewer += any(exact < most for exact, most in mine)
    assert fewer


def test_in_chains_the_stated_rows_are_those_of_the_longest_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chain computes all of its parts for a few rows at a time, and some rows again."""
    seen: dict[tuple[str, tuple[int, ...]], set[tuple[int, int]]] = {}
    tensors: list[tuple[str, tuple[int, ...]]] = []

    def note(local: object, tensor: int, exact: int, most: int) -> None:
        seen.setdefault(tensors[tensor], set()).add((exact, most))

    def compute(call: KernelCall) -> Sequence[Command]:
        tensors.append((call.result.view.tensor, call.output.shape))
        driver = Driver("npu16_note", "npu16", note, npu16.new_memory)
        noted = call.invoke(driver, len(tensors) - 1, call.computed_rows, call.rows)
        return [noted, *tiles(call)]

    tiles = npu16.compute
    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(npu16, "compute", compute)
    npu16.Npu16().register()
    net = penstock.GraphBuilder("bottleneck")
    x = net.conv2d(net.input((1, 16, 16, 3)), 8, 3, 2, name="stem")
    x = net.depthwise_conv2d(net.conv2d(x, 24, 1), 3, 2, name="depthwise")
    graph = net.build(net.conv2d(x, 8, 1, name="project"))
    done = penstock.compile(
        graph, "host", accelerators=("npu16",), stream_input=True, options=Options(max_recompute=2)
    ).compilation
    (inputs,) = api.drawn_sets(done, 1)
    reference = run_graph(done.model, inputs)
    point = done.points[0]
    assert [bands.call_rows for bands in point.schedule.bands] == [1]
    assert ladder.run_point(done, inputs, reference, point).mismatches == 0
    inside = {name: rows for (name, shape), rows in seen.items() if shape[2] < 8}
    assert len(inside) > 1
    for rows in inside.values():
        assert {most for _, most in rows} == {max(exact for exact, _ in rows)}
        assert max(exact for exact, _ in rows) <= 3, "a row of the depthwise layer reads three"


def test_the_cost_of_whole_layers_chooses_the_implementation_of_every_stripe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row costs 110 or 20 cycles, 14 rows cost 240 or 280, and 7 rows 170 or 140."""

    def strategy(*facts: object) -> OpStrategy:
        found = OpStrategy()
        for name, once, each in (("large", 100, 10), ("small", 0, 20)):
            found.add_implementation(
                phases.compute,
                name=name,
                by_rows=True,
                cost=lambda offloaded, rows, once=once, each=each: once + rows * each,
            )
        return found

    monkeypatch.setattr(facade, "REGISTERED", {})
    monkeypatch.setattr(phases, "strategy", strategy)
    phases.Rows().register()
    done = penstock.compile(network(), "host", accelerators=("rows",)).compilation
    for point in done.points:
        first, second = (
            {call.kernel.name for call in calls(lower_point(point)) if call.output.tensor == name}
            for name in (node.name for node in done.graph.nodes)
        )
        assert (first, second) == ({"large"}, {"small"}), "of 14 rows, and of 7"
