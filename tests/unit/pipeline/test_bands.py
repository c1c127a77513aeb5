"""Cascades in bands of columns, from the search to generated C."""

from __future__ import annotations

from functools import cache

import pytest

from penstock import api
from penstock.backends.processor_parts import assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ladder import Truth, climb, run_point
from penstock.pipeline.compilation import Compilation, compile_graph, with_point
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.search import schedule
from penstock.program.program import Loop
from penstock.scheduling.bands import below_rows
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph


@cache
def compiled(max_recompute: float = 2.0) -> Compilation:
    """A network whose tensors are large between a small input and a small output."""
    net = GraphBuilder("wide")
    x = net.conv2d(net.input((1, 32, 32, 1)), 12, 3, 2, name="stem")
    y = net.add(x, net.conv2d(x, 12, 3, name="conv"), name="sum")
    z = net.conv2d(net.depthwise_conv2d(y, 3, name="depthwise"), 12, 1, name="pointwise")
    z = net.conv2d(z, 4, 3, 2, name="last")
    graph = net.build(net.fully_connected(z, 10, name="dense"))
    options = Options(max_recompute=max_recompute)
    return compile_graph(graph, api.request("zoo:lenet5", "cortex-m4", options=options))


def factor(point: PlacedPoint) -> float:
    """Executed multiply-accumulates as a multiple of the necessary ones."""
    return point.schedule.cost.nominal_macs / compiled().model.macs()


def in_bands() -> tuple[PlacedPoint, ...]:
    """The points with a cascade in bands."""
    return tuple(point for point in compiled().points if point.schedule.bands)


def test_bands_need_less_memory_than_rows_and_recompute() -> None:
    rows = compiled(1.0).points
    assert not any(point.schedule.bands for point in rows)
    assert [p.height_bytes for p in compiled().points][len(in_bands()) :] == [
        p.height_bytes for p in rows
    ]
    assert in_bands()
    for point in in_bands():
        assert point.height_bytes < rows[0].height_bytes
        assert 1.0 < factor(point) <= 2.0


def test_the_limit_of_recomputation_is_kept() -> None:
    factors = [factor(point) for point in in_bands()]
    limit = (min(factors) + max(factors)) / 2
    limited = compiled(limit).points
    assert any(point.schedule.bands for point in limited)
    assert all(factor(point) <= limit for point in limited)
    assert max(factors) > limit


def test_every_point_is_exact_and_costs_what_was_estimated() -> None:
    done = compiled()
    (inputs,) = api.drawn_sets(done, 1)
    reference = {**inputs, **run_graph(done.model, inputs)}
    for point in done.points:
        found = run_point(done, inputs, reference, point)
        assert (found.mismatches, found.tensors > 6) == (0, True)


def test_gaps_of_an_arena_count_in_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    net = GraphBuilder("gaps")
    x = net.conv2d(net.conv2d(net.input((1, 8, 12, 1)), 6, 1), 1, 3)
    x = net.conv2d(net.depthwise_conv2d(net.depthwise_conv2d(x, 3, 2), 3), 11, 1)
    parts = assign(net.build(x), load_target("host"))

    def least() -> tuple[int, int]:
        first = schedule(parts, load_target("host"), Options()).schedules[0]
        return first.peak_bytes, first.cost.nominal_macs

    measured = least()
    monkeypatch.setattr(below_rows, "MOST_ROUNDS", 1)
    estimated = least()
    assert measured[0] < estimated[0]
    assert measured[1] < estimated[1]


def test_generated_c_computes_bands_exactly() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    done = with_point(compiled(), in_bands()[0])
    rungs = {rung.step: rung.comparison for rung in climb(done, Truth(), api.drawn_sets(done, 2))}
    assert set(rungs) == {"machine", "host", "core"}
    assert all(found.elements and not found.mismatches for found in rungs.values())
    assert len({found.elements for found in rungs.values()}) == 1  # those in bands, too


def test_equal_bands_are_one_loop_and_share_tables() -> None:
    done = with_point(compiled(), in_bands()[0])
    (bands,) = in_bands()[0].schedule.bands
    repeated = [band for band in bands.bands if band.count > 1]
    loops = [c for c in done.program.run if isinstance(c, Loop) and c.variable == "band"]
    assert len(loops) == len(repeated) > 0
    weights = done.bundle[f"{done.prefix}_weights.c"]
    whole = with_point(compiled(), compiled().points[-1]).bundle[f"{done.prefix}_weights.c"]
    assert len(weights) < 1.1 * len(whole)
