"""Law: a network whose strides exceed its windows, so that rows and columns are never read, is
computed exactly, cascaded or not, on the processor and on every accelerator.  Windows at the
borders may lie in padding alone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from available import TARGET
from benchmarks.small_tensors import bias, int8, weights
from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Node, Value
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import Relu
from penstock.pipeline.request import DEFAULT_STACK_BYTES
from penstock.scheduling.options import Options
from strategies import node_of

NETWORKS = 12
PADDED = 6
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


def random_window(dice: Random, extent: int, *, meets: bool) -> Window:
    """A window that skips elements, padded by up to more than it is long.

    meets: of a pool, of which every output reads an element that is not padding."""
    while True:
        size, dilation = dice.randint(1, 3), dice.choice((1, 1, 2))
        reach = (size - 1) * dilation + 1
        pads = [dice.choice((0, dice.randint(0, reach + 1))) for _ in range(2)]
        window = Window(size, dice.randint(1, reach + 3), dilation, *pads)
        if window.outputs(extent) > 0 and (not meets or window.always_meets(extent)):
            return window


def padded_network(number: int, most_layers: int = 4) -> Graph:
    """Convolutions, pools, transposed convolutions and slices with windows and steps that skip
    rows and columns at the beginning, in between and at the end."""
    dice = Random(number)
    extents = dice.randint(1, 14), dice.randint(1, 10), dice.choice((1, 2, 3, 8))
    x = Value("x", int8(1, *extents))
    nodes: list[Node] = []
    for k in range(dice.randint(1, most_layers)):
        y = nodes[-1].output if nodes else x
        nodes.append(_skipping(f"n{k}", y, dice))
    return Graph(f"padded{number}", (x,), (nodes[-1].output,), tuple(nodes))


def _skipping(name: str, x: Value, dice: Random) -> Node:
    """A layer that skips rows and columns."""
    _, height, width, channels = x.type.shape
    kind = dice.choice(("conv", "depthwise", "pool", "transposed", "slice", "move", "table"))
    rows, columns = (random_window(dice, n, meets=kind == "pool") for n in (height, width))
    match kind:
        case "conv":
            layer = weights(4, rows.size, columns.size, channels), bias(4)
            return node_of(name, Conv2D(rows, columns), (x,), *layer)
        case "depthwise":
            layer = weights(1, rows.size, columns.size, channels, axis=3), bias(channels)
            return node_of(name, DepthwiseConv2D(rows, columns), (x,), *layer)
        case "pool":
            op = dice.choice((MaxPool2D, AveragePool2D))(rows, columns)
            return node_of(name, op, (x,), like=x.type)
        case "transposed":
            down, across = (
                Spread(dice.randint(1, 12), dice.randint(1, 3), dice.randint(1, 4), before)
                for before in (dice.randint(0, 2), dice.randint(0, 2))
            )
            layer = weights(3, down.size, across.size, channels), bias(3)
            return node_of(name, TransposeConv(down, across), (x,), *layer)
        case "slice":
            start = tuple(dice.randint(0, n - 1) for n in (height, width))
            step = dice.randint(1, 4), dice.randint(1, 4)
            ends = zip((height, width), start, step, strict=True)
            shape = (1, *(-(-(n - first) // by) for n, first, by in ends), channels)
            return node_of(name, Slice((0, *start, 0), shape, (1, *step, 1)), (x,), like=x.type)
        case "move":
            return node_of(name, Transpose((0, 2, 1, 3)), (x,), like=x.type)
        case _:
            return node_of(name, Relu(), (x,))


@pytest.mark.parametrize("target", ["host", "cortex-m4", "two-region"])
@given(number=st.integers(0, 2**32 - 1))
def test_rows_and_columns_that_no_output_reads_are_skipped_exactly(
    target: str, number: int
) -> None:
    assert_exact(compiled(padded_network(number), target=target))


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "cpu"])
def test_padded_networks_are_exact_on_accelerators(engine: str) -> None:
    if engine.startswith("ethos"):
        pytest.importorskip("ethosu", reason="the extra 'ethos-u' is not installed")
    for number in range(PADDED):
        assert_exact(compiled(padded_network(number), *ENGINES[engine]))


@pytest.mark.parametrize("number", range(3))
def test_padded_networks_are_exact_in_c(number: int, host_compilers: Sequence[str]) -> None:
    """At the least memory, where cascades skip rows."""
    graph = padded_network(number)
    least = compiled(graph).points[0]
    done = compiled(graph, sram_bytes=least.height_bytes + DEFAULT_STACK_BYTES)
    assert_exact(done, "host")


@pytest.mark.parametrize("number", range(4))
def test_least_memory_is_exact_on_the_core(number: int) -> None:
    """In C for a Cortex-M4, in cascades wherever they save memory."""
    for extra in ("ziglang", "unicorn"):
        pytest.importorskip(extra, reason="the extra 'simulate' is not installed")
    graph = network(number)
    done = compiled(graph, target=TARGET)
    least = done.points[0].ram_bytes(done.request)
    assert_exact(compiled(graph, target=TARGET, sram_bytes=least), "core")
