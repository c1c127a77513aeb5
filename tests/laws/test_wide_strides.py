"""Law: a network whose strides exceed its windows, so that rows and columns are never read, is
computed exactly, cascaded or not, on the processor and on every accelerator."""

from __future__ import annotations

from random import Random

import pytest

from available import TARGET
from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.scheduling.options import Options

NETWORKS = 12
ENGINES = {
    "cpu": (),
    "smv": ("smv:input_bytes=2048,weights_bytes=2048,output_bytes=2048",),
    "smv-smaug": ("smv:input_bytes=2048,weights_bytes=2048,output_bytes=2048,tiler=smaug",),
    "nvdla": ("nvdla",),
    "ethos_u55": ("ethos_u55:macs=32",),
}


def network(number: int) -> Graph:
    """Two or three layers, each of which skips rows and columns; sizes leave some at the end."""
    dice = Random(number)
    net = GraphBuilder(f"wide{number}", seed=number)
    x = net.input((1, dice.randint(20, 40), dice.randint(10, 30), dice.choice((1, 3, 8, 16))))
    for _ in range(dice.randint(2, 3)):
        x = _layer(net, x, dice)
    return net.build(x)


def _layer(net: GraphBuilder, x: Value, dice: Random) -> Value:
    window = (dice.randint(1, 2), dice.randint(1, 2))
    stride = (window[0] + dice.randint(1, 2), window[1] + dice.randint(0, 2))
    padding = dice.choice(("same", "valid"))
    if min(x.type.shape[1:3]) < 6:
        return net.conv2d(x, 8, 1)
    kind = dice.choice(("conv", "conv", "depthwise", "average", "max"))
    if kind == "conv":
        return net.conv2d(x, dice.choice((5, 8, 24)), window, stride, padding)
    if kind == "depthwise":
        return net.depthwise_conv2d(x, window, stride, padding)
    pool = net.average_pool2d if kind == "average" else net.max_pool2d
    return pool(x, window, stride, padding)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_point_of_the_frontier_is_exact(engine: str) -> None:
    if engine.startswith("ethos"):
        pytest.importorskip("ethosu", reason="the extra 'ethos-u' is not installed")
    offloaded = 0
    for number in range(NETWORKS):
        graph = network(number)
        done = compiled(graph, *ENGINES[engine], options=Options(max_stripe=4))
        offloaded += len(claimed(done.graph))
        assert_exact(done)
    assert bool(offloaded) == bool(ENGINES[engine])


@pytest.mark.parametrize("number", range(4))
def test_least_memory_is_exact_on_the_core(number: int) -> None:
    """In C for a Cortex-M4, in cascades wherever they save memory."""
    for extra in ("ziglang", "unicorn"):
        pytest.importorskip(extra, reason="the extra 'simulate' is not installed")
    graph = network(number)
    done = compiled(graph, target=TARGET)
    least = done.points[0].ram_bytes(done.request)
    assert_exact(compiled(graph, target=TARGET, sram_bytes=least), "core")
