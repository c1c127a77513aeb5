"""What a kernel call states about its rows: an upper bound, and the exact number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import penstock
from examples.uma import phases
from penstock import api, ladder
from penstock.backends.uma import backend as facade
from penstock.simulators.graph import run_graph
from penstock.uma import Command, Driver, KernelCall


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
    net = penstock.GraphBuilder("pools")
    graph = net.build(net.max_pool2d(net.max_pool2d(net.input((1, 28, 28, 4)), 2), 2))
    done = penstock.compile(graph, "host", accelerators=("rows",)).compilation
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
