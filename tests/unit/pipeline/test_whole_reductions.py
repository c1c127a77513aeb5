"""Graphs with whole reductions compete with those that accumulate row by row."""

from __future__ import annotations

from penstock import api
from penstock.choices import Optimize
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.scheduling.options import Options


def averaged() -> Graph:
    """A convolution with many channels, whose output is averaged over all pixels."""
    net = GraphBuilder("averaged")
    x = net.conv2d(net.input((1, 16, 16, 3)), 64, 1)
    return net.build(net.global_average_pool(x))


def compiled(goal: Optimize, *, accumulate: bool = True) -> Compilation:
    request = api.request(
        "zoo:resnet8",
        "cortex-m55",
        optimize=goal.value,
        options=Options(accumulate=accumulate),
    )
    return compile_graph(averaged(), request)


def test_speed_is_at_least_as_fast_as_without_accumulations() -> None:
    default = compiled(Optimize.SPEED)
    whole = compiled(Optimize.SPEED, accumulate=False)
    assert default.schedule.cost.cycles <= whole.schedule.cost.cycles
    assert default.schedule.assigned_parts.is_for_speed


def test_balanced_spends_no_memory_on_whole_reductions() -> None:
    chosen = compiled(Optimize.BALANCED).schedule
    fastest = compiled(Optimize.SPEED).schedule
    assert not chosen.assigned_parts.is_for_speed
    assert fastest.cost.cycles * 101 < chosen.cost.cycles * 100
    assert chosen.cost.cycles <= fastest.pace * 101 // 100
