"""Planned networks, checked points and counted searches, on small networks."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import points, search_time
from benchmarks.peers import read_peers
from benchmarks.planned import Planned, fastest, plan
from benchmarks.shared import Shared
from benchmarks.striped_networks import STRIPED
from penstock import api
from penstock.pipeline.compilation import compile_graph, compile_request
from penstock.scheduling.options import DEFAULTS
from penstock.simulators.compare import Comparison

LENET = "zoo:lenet5"


@pytest.fixture(scope="module")
def lenet() -> Planned:
    return plan(LENET)


def test_examples_in_the_text_are_right() -> None:
    found = doctest.testmod(points)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_network_is_planned_as_the_compiler_does(lenet: Planned) -> None:
    heights = [point.height_bytes for point in lenet.points]
    assert heights == sorted(heights)
    assert lenet.least_bytes == heights[0] < heights[-1]
    assert lenet.proposed >= len(heights)
    assert {lenet.ratio(point) for point in lenet.points} == {1.0}


def test_the_fastest_point_within_a_limit(lenet: Planned) -> None:
    least, most = lenet.points[0], lenet.points[-1]
    assert fastest(lenet.points, most.height_bytes) is most
    assert fastest(lenet.points, most.height_bytes - 1) is lenet.points[-2]
    assert fastest(lenet.points, least.height_bytes) is least
    assert fastest(lenet.points, least.height_bytes - 1) is None


def test_bounds_of_streamed_inputs_are_read(tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "memory-bounds.md").write_text(
        "| model | row bound, F = 1.00 | row bound, input streamed |\n|---|--:|--:|\n"
        "| MLPerf vww_96 | **28,032** | 10,272 |\n"
    )
    peers = read_peers(Shared(tmp_path / "models"))["vww_96_int8"]
    assert (peers.row_bound_bytes, peers.row_bound_streamed_bytes) == (28_032, 10_272)


def test_every_point_is_run_and_counted() -> None:
    done = compile_request(api.request(LENET, "cortex-m4"))
    checked = list(points.check(done, on_core=0))
    assert [c.point for c in checked] == list(done.points)
    assert all(c.right and c.machine.elements > 9_000 for c in checked)


def test_a_point_whose_estimate_is_wrong_is_not_right() -> None:
    done = compile_request(api.request(LENET, "cortex-m4"))
    first = done.points[0].schedule
    plan = first.plans[0]
    doubled = replace(first, plans=(replace(plan, costs=plan.costs * 2), *first.plans[1:]))
    wrong = replace(done, points=(replace(done.points[0], schedule=doubled), *done.points[1:]))
    found = next(points.check(wrong, on_core=0))
    assert not found.right
    assert found.fault.startswith("error[ladder-001]: the machine counts ")


def test_points_on_the_core_are_compared_too() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = compile_request(api.request(LENET, "cortex-m4"))
    checked = list(points.check(done, on_core=2))
    ran = [c for c in checked if c.core is not None]
    assert ran == [checked[0], checked[-1]]
    for c in ran:
        assert c.core is not None
        assert c.core.mismatches == 0
        assert 0 < c.core.elements == c.machine.elements
        assert c.counted_cycles is not None
        assert abs(c.point.schedule.cost.cycles / c.counted_cycles - 1) < 0.25


def test_an_estimate_of_cycles_beyond_the_limit_is_not_right() -> None:
    point = compile_request(api.request(LENET, "cortex-m4")).points[0]
    counted = {sign: round(point.schedule.cost.cycles / (1 + 0.11 * sign)) for sign in (-1, 0, 1)}
    for sign, cycles in counted.items():
        checked = points.Checked(point, Comparison(), Comparison(), cycles)
        assert checked.right == (sign == 0)
        assert replace(checked, limited=False).right


def test_points_state_how_they_save_memory() -> None:
    done = compile_graph(STRIPED["hidden_channels"](), api.request(LENET, "cortex-m4"))
    assert {points.means(point.schedule) for point in done.points} == {"channel groups"}
    done = compile_request(api.request("zoo:resnet8:resolution=16", "cortex-m4", stream_input=True))
    found = [points.means(point.schedule) for point in done.points]
    assert (found[0], found[-1]) == ("1 chain", "whole reductions")


def test_counted_work_of_a_search_is_repeatable() -> None:
    first, again = (
        search_time.search(LENET, "cortex-m4", DEFAULTS, "streamed", 1)[1] for _ in range(2)
    )
    assert replace(first, seconds=0.0, calls=0) == replace(again, seconds=0.0, calls=0)
    assert first.chain_plans > 0
