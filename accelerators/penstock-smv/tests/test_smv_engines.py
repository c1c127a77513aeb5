"""smv: several engines share the rows of a layer, or images, and the port to memory."""

from __future__ import annotations

import pytest

from lowered import inputs_of_graph
from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.scheduling.options import Options
from penstock.simulators.machine import Machine
from penstock.uma import Offloaded
from penstock_smv import Smv
from penstock_smv.cost import cycles

HOST = load_target("host")
LAYER_BY_LAYER = Options(max_parts=1)


def every_kind() -> Graph:
    net = GraphBuilder("every_kind")
    x = net.conv2d(net.input((1, 17, 14, 8)), 16, 3, activation="relu", name="conv")
    x = net.depthwise_conv2d(x, 3, stride=2)
    x = net.add(x, net.tanh(x))
    x = net.batch_norm(net.max_pool2d(x, 2, stride=1))
    vectors = net.fully_connected(net.input((13, 40), name="vectors"), 12)
    batch = net.conv2d(net.input((5, 6, 6, 8), name="batch"), 8, 3)
    batch = net.batch_norm(net.max_pool2d(net.depthwise_conv2d(batch, 3), 2))
    batch = net.softmax(net.add(batch, net.tanh(batch)))
    return net.build(net.softmax(net.fully_connected(x, 20)), net.maximum(x, x), vectors, batch)


def convolution(rows: int, channels: int, kernel: int = 3, images: int = 1) -> Graph:
    net = GraphBuilder("conv")
    x = net.input((images, rows, rows, channels))
    return net.build(net.conv2d(x, channels=channels, kernel=kernel, name="conv"))


@pytest.mark.parametrize("attributes", ["engines=2", "engines=4,tiler=smaug", "engines=8",
                                        "engines=3,double_buffering=true"])  # fmt: skip
def test_shared_layers_are_exact_on_every_rung(attributes: str) -> None:
    sizes = "input_bytes=1024,weights_bytes=2048,output_bytes=1024"
    done = compiled(every_kind(), f"smv:{attributes},{sizes}", options=LAYER_BY_LAYER)
    assert not done.parts.cpu_fallbacks
    assert_exact(done, "host")


def test_shared_layers_are_exact_in_cascades() -> None:
    done = compiled(every_kind(), "smv:engines=4,input_bytes=2048,output_bytes=2048")
    assert len(done.points) > 1
    assert_exact(done, "points")


def estimated(graph: Graph, engines: int, bytes_per_cycle: int = 8) -> float:
    attributes = {"engines": engines, "bytes_per_cycle": bytes_per_cycle}
    (node,) = Smv().partition(graph, attributes, HOST).nodes
    offloaded = Offloaded(node, Smv().accelerator(attributes, HOST).target)
    return cycles(offloaded, node.output.type.shape[1]).cycles


def simulated(graph: Graph, engines: int) -> float:
    """The cycles that the functional models of the driver count."""
    done = compiled(graph, f"smv:engines={engines}", options=LAYER_BY_LAYER)
    machine = Machine(done.program)
    machine.run(inputs_of_graph(graph, 1))
    return sum(machine.driver_cycles.values())


@pytest.mark.parametrize(
    ("rows", "channels", "kernel", "bytes_per_cycle"),
    [(64, 32, 7, 8), (112, 32, 5, 8), (64, 128, 3, 32)],
)
def test_layers_bound_by_computation_are_faster_by_the_number_of_engines(
    rows: int, channels: int, kernel: int, bytes_per_cycle: int
) -> None:
    """Their copies take less than an eighth of the time of their computation."""
    graph = convolution(rows, channels, kernel)
    one = estimated(graph, 1, bytes_per_cycle)
    for engines, least in ((2, 1.8), (4, 3.2), (8, 5.0)):
        assert least <= one / estimated(graph, engines, bytes_per_cycle) <= engines


def test_the_functional_models_are_faster_by_as_much() -> None:
    graph = convolution(64, 16, 7)
    one = simulated(graph, 1)
    for engines, least in ((2, 1.8), (4, 3.2), (8, 5.0)):
        assert least <= one / simulated(graph, engines) <= engines


def test_engines_share_the_images_of_a_batch() -> None:
    """Each computes whole images: no rows are read twice, as between intervals of rows."""
    graph = convolution(24, 16, 7, images=8)
    one = simulated(graph, 1)
    for engines, least in ((2, 1.8), (4, 3.2), (8, 5.0)):
        many = simulated(graph, engines)
        assert least <= one / many <= engines
        assert estimated(graph, engines) == pytest.approx(many, rel=0.02)


@pytest.mark.parametrize("engines", [1, 2, 5, 8])
@pytest.mark.parametrize("rows", [12, 31])
def test_the_estimate_is_what_the_functional_models_count(rows: int, engines: int) -> None:
    graph = convolution(rows, 40)
    assert estimated(graph, engines) == pytest.approx(simulated(graph, engines), rel=0.02)


def test_engines_wait_for_the_port_to_memory() -> None:
    """A copy at a time: elements that are only copied are not copied faster by more engines."""
    net = GraphBuilder("sum")
    x = net.input((1, 64, 64, 64))
    graph = net.build(net.add(x, net.input((1, 64, 64, 64), name="other"), name="add"))
    one, eight = estimated(graph, 1), estimated(graph, 8)
    copied = 3 * 64 * 64 * 64 / 8
    assert one > eight > copied
    assert simulated(graph, 8) > copied
