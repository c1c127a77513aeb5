"""ethos_u: cascades whose parts compute all rows that a later call lacks at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from offloading import assert_exact, compiled
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, live_bytes
from penstock.scheduling.text.printer import print_frontier
from texts.schedule_reader import read_frontier

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")


def pooled() -> Graph:
    net = GraphBuilder("net", seed=1)
    x = net.max_pool2d(net.conv2d(net.input((1, 16, 16, 3)), 16, (5, 5)), 2)
    return net.build(net.conv2d(x, 8, (3, 3)))


def test_a_pool_requests_the_rows_of_a_window_in_one_call() -> None:
    """Both rows of a window are live while the pool runs, however they are computed."""
    done = compiled(pooled(), "ethos_u55:macs=128")
    found = [s for s in done.frontier.schedules if any(p.whole_requests for p in s.plans)]
    least = min(found, key=lambda schedule: schedule.peak_bytes)
    apart = tuple(replace(plan, whole_requests=False) for plan in least.plans)
    cascade = next(c for c in ExpandedSchedule(least).cascades if c.plan.whole_requests)
    assert cascade.plan.stripe == 1
    assert {end - first for p, first, end in cascade.calls[:, :3].tolist() if p == 0} == {2}
    bytes_apart = live_bytes(ExpandedSchedule(replace(least, plans=apart))).max()
    assert least.peak_bytes <= bytes_apart + 16 * 3  # a row of the input
    assert_exact(done, "points")


def test_whole_requests_are_part_of_the_text_of_a_schedule() -> None:
    done = compiled(pooled(), "ethos_u55:macs=128")
    back = read_frontier(print_frontier(done.frontier), done.parts)
    plans = [plan.whole_requests for s in done.frontier.schedules for plan in s.plans]
    assert any(plans)
    assert [plan.whole_requests for s in back.schedules for plan in s.plans] == plans


def test_rows_that_no_call_requests_are_computed_in_one_call_too() -> None:
    """The last rows of `features` are computed, but never read."""
    net = GraphBuilder("left_over")
    x = net.conv2d(net.input((1, 7, 3, 2)), 4, 1, name="features")
    weights = net.constant(np.ones((8, 4, 1, 4), np.int8), Quantisation((0.01,), (0,)), "w")
    bias = net.constant(np.zeros(8, np.int32), Quantisation((x.type.scale * 0.01,), (0,)), "b")
    op = TransposeConv(Spread(2, 4, 1, 3), Spread(2, 1, 1, 0))
    y = net.apply(op, x, weights, bias, quantisation=Quantisation((0.25,), (0,)), name="y")
    npu = "ethos_u55:macs=32,layout=nhcwb16"
    done = api.verify(
        net.build(y), "cortex-m55", last_rung="machine", every_point=True, accelerators=[npu]
    )
    assert all(rung.compared.mismatches == 0 for rung in done.rungs if rung.compared)


def test_a_layer_alone_computes_several_stripes_in_a_call_below_the_peak() -> None:
    """Its output grows by more than its input shrinks, so the last call decides the peak."""
    net = GraphBuilder("speech", seed=1)
    x = net.conv2d(net.input((1, 49, 40, 1)), 8, (10, 8), stride=2, name="x")
    done = compiled(net.build(net.fully_connected(x, 4)), "ethos_u55:macs=128")
    heights = set[int]()
    for schedule in done.frontier.schedules:
        apart = tuple(replace(plan, whole_requests=False) for plan in schedule.plans)
        equal = ExpandedSchedule(replace(schedule, plans=apart))
        found = ExpandedSchedule(schedule)
        assert live_bytes(found).max() == live_bytes(equal).max()
        for cascade, other in zip(found.cascades, equal.cascades, strict=True):
            if cascade.plan.whole_requests:
                assert len(cascade.calls) < len(other.calls)
                heights |= {end - first for first, end in cascade.calls[:, 1:3].tolist()}
    assert len(heights) > 1
    assert_exact(done, "points")


def test_a_layer_alone_computes_rows_besides_whole_stripes_if_that_saves_a_call() -> None:
    """25 rows in stripes of 8 take four calls; 9 rows fit below the peak of the second one."""
    net = GraphBuilder("rows", seed=1)
    x = net.conv2d(net.input((1, 25, 5, 1)), 64, (3, 3), name="x")
    x = net.conv2d(net.depthwise_conv2d(x, (3, 3), name="y"), 64, 1)
    done = compiled(net.build(x), "ethos_u85:macs=1024")
    schedule = next(s for s in done.frontier.schedules if all(len(p.parts) == 1 for p in s.plans))

    def expanded(*, whole: bool) -> ExpandedSchedule:
        plans = [replace(p, stripe=None, prefetches=(), costs=()) for p in schedule.plans]
        plans[1] = replace(plans[1], stripe=8, whole_requests=whole)
        return ExpandedSchedule(replace(schedule, plans=tuple(plans)))

    equal, found = expanded(whole=False), expanded(whole=True)
    assert np.diff(equal.cascades[1].calls[:, 1:3]).ravel().tolist() == [8, 8, 8, 1]
    assert np.diff(found.cascades[1].calls[:, 1:3]).ravel().tolist() == [9, 8, 8]
    inside = slice(found.cascades[1].tick, found.cascades[1].end)
    before = slice(equal.cascades[1].tick, equal.cascades[1].end)
    assert live_bytes(found)[inside].max() == live_bytes(equal)[before].max()
    prefetching = (
        p.prefetches for s in done.frontier.schedules for p in s.plans if p.whole_requests
    )
    assert any(prefetching)
    assert_exact(done, "points")
