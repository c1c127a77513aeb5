"""Tiles beside those that SMAUG's own code chose, recorded in a file of cases; and executed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cases
from benchmarks.smaug_cases import case_of, chosen, layer_of, recorded_layers, scratchpads_of
from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Add, Mul
from penstock.scheduling.options import Options
from penstock.tiling.nest import choose
from penstock.uma import Offloaded
from penstock_smv import Smv
from penstock_smv.smaug import Smaug
from penstock_smv.tiling import layer_on_engine, scratchpads

CASES = Path(__file__).resolve().parents[3] / "tests" / "cases" / "smaug_drawn.json"
ROLES = ("input", "weights", "output")


def test_shapes_and_refusals_are_smaug_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(CASES)]) == 0
    assert "732 of 732 agree" in capsys.readouterr().out


@pytest.mark.parametrize("operator", ["conv", "fc", "pool", "bn4", "bn2"])
def test_what_smaug_tiles_is_not_refused(operator: str) -> None:
    for line, expected in recorded_layers(operator):
        if expected != "refused":
            case = case_of(line)
            assert choose(Smaug(), layer_of(case, line), scratchpads_of(case)).count >= 1, line


def graph_of(line: str) -> Graph | None:
    """A network of the layer of a line; None if it pads as TFLite does not."""
    op, _, *numbers = line.split()
    n = [int(number) for number in numbers]
    net = GraphBuilder(op)
    match op:
        case "conv":
            kernel, stride, padded = (n[4], n[5]), (n[6], n[7]), bool(n[8])
            if padded and (stride != (1, 1) or 0 in (n[4] % 2, n[5] % 2)):
                return None
            padding = "same" if padded else "valid"
            x = net.input(tuple(n[:4]))
            y = net.conv2d(x, channels=n[9], kernel=kernel, stride=stride, padding=padding)
        case "fc":
            y = net.fully_connected(net.input((n[0], n[1])), n[2])
        case "bn4" | "bn2":
            elements = (np.arange(n[-1]) - n[-1] // 2).astype(np.int8)
            q = Quantisation((0.02,), (3,))
            y = net.apply(Mul(), net.input(tuple(n)), net.constant(elements, q), quantisation=q)
            y = net.apply(Add(), y, net.constant(elements, q), quantisation=q)
        case _:
            x = net.input(tuple(n[:4]))
            y = net.max_pool2d(x, kernel=(n[4], n[5]), stride=(n[6], n[7]), padding="valid")
    return net.build(y)


def on_engine(line: str) -> tuple[Graph, dict[str, object]] | None:
    graph, size = graph_of(line), int(line.split()[1])
    if graph is None:
        return None
    return graph, {"tiler": "smaug", **dict.fromkeys((f"{role}_bytes" for role in ROLES), size)}


@pytest.mark.parametrize("operator", ["conv", "fc", "pool", "bn4", "bn2"])
def test_layers_of_networks_have_smaug_s_shapes(operator: str) -> None:
    """Biases, multipliers, shifts and partial sums take no room in the three scratchpads."""
    compared = 0
    for line, expected in recorded_layers(operator):
        found = on_engine(line) if macs(line) < 3_000_000 else None
        if found is None or expected == "refused":
            continue
        graph, attributes = found
        (node,) = Smv().partition(graph, attributes).nodes
        offloaded = Offloaded(node, Smv().accelerator(attributes).target)
        layer = layer_on_engine(offloaded)
        assert chosen(layer, scratchpads(offloaded.target)) == expected, line
        compared += 1
    assert compared > 10


def macs(line: str) -> int:
    """The work of the layer of a line, roughly."""
    op, _, *numbers = line.split()
    n = [int(number) for number in numbers]
    if op in ("fc", "bn2", "bn4"):
        return math.prod(n)
    window = n[0] * n[1] * n[2] * n[3] * n[4] * n[5]
    return window * n[9] if op == "conv" else window


@pytest.mark.parametrize("operator", ["conv", "fc", "pool", "bn4", "bn2"])
def test_they_are_executed_exactly(operator: str) -> None:
    executed = 0
    most = 600_000 if operator == "conv" else 100_000
    for line, expected in recorded_layers(operator):
        found = on_engine(line) if macs(line) < most else None
        if found is None or expected == "refused":
            continue
        graph, attributes = found
        words = ",".join(f"{key}={value}" for key, value in attributes.items())
        done = compiled(graph, f"smv:{words}", options=Options(max_parts=1))
        assert not done.parts.cpu_fallbacks, line
        assert_exact(done, "machine")
        executed += 1
    assert executed > 10


def test_a_layer_whose_sums_are_not_split_is_charged_a_byte_for_each_element() -> None:
    """16 x 16 x 16 -> 32, 3 x 3, in scratchpads of 4 KiB: SMAUG's tiles fill them."""
    found = on_engine("conv 4096 1 16 16 16 3 3 1 1 1 32")
    assert found is not None
    graph, attributes = found
    (node,) = Smv().partition(graph, attributes).nodes
    offloaded = Offloaded(node, Smv().accelerator(attributes).target)
    shapes = Smaug().tensor_shapes(layer_on_engine(offloaded), scratchpads(offloaded.target))
    assert shapes.tiles["weights"] == (16, 3, 3, 16)
    assert shapes.tiles["output"] == (1, 16, 16, 16)


def test_convolutions_of_a_batch_of_four_are_tiled() -> None:
    net = GraphBuilder("batch")
    graph = net.build(net.conv2d(net.input((4, 32, 32, 32)), channels=64, kernel=3))
    (node,) = Smv().partition(graph, {"tiler": "smaug"}).nodes
    assert isinstance(node.op, Composite)
