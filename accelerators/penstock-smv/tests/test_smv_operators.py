"""smv: element-wise operators, depthwise convolutions and batches of images, on the reference
machine and in C, in tiles of both tilers."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from available import TARGET
from offloading import assert_exact, claimed, compiled
from onnx_models import graph_of
from penstock.errors import BackendError, UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.real_function import RealFunction
from penstock.ops.unary import Elu, LeakyRelu, Logistic, Relu, Tanh
from penstock.pipeline.graphs import simplify
from penstock.program.program import Call, Command, Invoke, Loop
from penstock.tiling.nest import Tiling
from penstock.uma import Offloaded
from penstock_smv import Smv
from penstock_smv.cost import cycles, traffic
from penstock_smv.tiling import tiling_of
from tools.onnx_writer import Model

HOST = load_target("host")
Q = Quantisation((0.02,), (3,))
UNIT = Quantisation((1 / 256,), (-128,))
SIGNED_UNIT = Quantisation((1 / 128,), (0,))
SELU = RealFunction("Selu", (1.67326319217681884765625, 1.05070102214813232421875))
SMALL = "input_bytes=1024,weights_bytes=3000,output_bytes=1024"


def constant(net: GraphBuilder, count: int) -> Value:
    elements = np.random.default_rng(count).integers(-128, 128, count).astype(np.int8)
    return net.constant(elements, Q, "constant")


def every_operator(net: GraphBuilder) -> Value:
    """Depthwise convolutions, unary operators, batch normalisation, and sums and products with
    constants per channel."""
    x = net.depthwise_conv2d(net.input((1, 11, 9, 10)), 3, stride=(1, 2), activation="relu6")
    x = net.depthwise_conv2d(x, (3, 2), multiplier=2, name="twice")
    x = net.depthwise_conv2d(x, 3, dilation=2)
    x = net.apply(LeakyRelu(0.1), x)
    x = net.apply(Elu(), x, quantisation=Q)
    scaled = net.apply(Mul(), x, constant(net, 20), quantisation=Q)
    x = net.apply(Add(), scaled, constant(net, 20), quantisation=Q, name="norm")
    x = net.apply(SELU, x, quantisation=Q)
    left = net.apply(Mul(), constant(net, 20), x, quantisation=Q)
    right = net.apply(Sub(), x, constant(net, 20), quantisation=Q)
    tail = net.apply(Relu(), net.add(left, right))
    tanh = net.apply(Tanh(), tail, quantisation=SIGNED_UNIT)
    return net.add(tanh, net.apply(Logistic(), tail, quantisation=UNIT))


@pytest.mark.parametrize("attributes", [SMALL, f"tiler=smaug,{SMALL}"])
def test_every_operator_is_exact_at_every_point(attributes: str) -> None:
    done = compiled(built(every_operator), f"smv:{attributes}")
    assert done.parts.cpu_fallbacks == ()
    assert claimed(done.graph)["norm"].kind == "batch_norm"
    assert len(done.points) > 2
    assert_exact(done, "points")


def batch(net: GraphBuilder) -> Value:
    """Four images, on every kind of kernel that distinguishes images."""
    x = net.conv2d(net.input((4, 9, 7, 12), name="images"), 16, 3, activation="relu")
    x = net.depthwise_conv2d(x, 3, stride=2)
    x = net.max_pool2d(x, 2, stride=1)
    scaled = net.apply(Mul(), x, constant(net, 16), quantisation=Q)
    x = net.add(x, net.apply(Add(), scaled, constant(net, 16), quantisation=Q))
    x = net.apply(LeakyRelu(0.1), x)
    x = net.reshape(net.average_pool2d(x, (4, 3)), (4, 16))
    return net.fully_connected(x, 10)


def built(*parts: Callable[[GraphBuilder], Value]) -> Graph:
    """A graph of independent parts."""
    net = GraphBuilder("operators")
    return net.build(*(part(net) for part in parts))


@pytest.mark.parametrize(
    "attributes",
    [
        "input_bytes=1000,weights_bytes=1800,output_bytes=1000",
        "tiler=smaug,input_bytes=1600,weights_bytes=2000,output_bytes=9000",
    ],
)
def test_batches_are_exact_in_tiles_of_images(attributes: str) -> None:
    done = compiled(built(batch), f"smv:{attributes}")
    assert done.parts.cpu_fallbacks == ()
    target = done.request.accelerators[0].target
    kernels = {node.kind: node for node in claimed(done.graph).values()}
    found = tiling_of(Offloaded(kernels["nn.conv2d"], target))
    assert len(found.tiles["n"]) > 1
    assert_exact(done, "machine")


def test_operators_and_batches_are_exact_in_c() -> None:
    sizes = "input_bytes=1600,weights_bytes=3000,output_bytes=9000"
    done = compiled(built(every_operator, batch), f"smv:tiler=smaug,{sizes}", target=TARGET)
    assert done.parts.cpu_fallbacks == ()
    target = done.request.accelerators[0].target
    kernels = {node.kind: node for node in claimed(done.graph).values()}
    assert len(tiling_of(Offloaded(kernels["nn.conv2d"], target)).tiles["n"]) > 1, "DimN"
    assert_exact(done, "core")


def test_smaug_splits_a_batch_before_channels_and_rows() -> None:
    """DimN: two images of 2,048 bytes fill a scratchpad of 5,000 bytes best."""
    net = GraphBuilder("batch")
    graph = net.build(net.conv2d(net.input((5, 16, 16, 8)), 8, 3))
    found = tiling(graph, tiler="smaug", input_bytes=5000)
    assert found.tiles["n"] == ((0, 2), (2, 4), (4, 5))
    assert {name: len(tiles) for name, tiles in found.tiles.items() if name != "n"} == {
        "h": 1,
        "w": 1,
        "c": 1,
        "sum": 1,
    }


def test_cycles_of_a_batch_are_those_of_its_images() -> None:
    """By hand: as for one image, but weights and scales are loaded once, and all images in one
    copy."""
    net = GraphBuilder("batch")
    done = compiled(net.build(net.conv2d(net.input((3, 6, 6, 32)), 8, 3)), "smv")
    (node,) = claimed(done.graph).values()
    engine = 3 * (9 * 36 + 9)
    copies = 4 * 102 + (3 * 1152 + 2304 + 72 + 3 * 288) // 8
    target = done.request.accelerators[0].target
    assert cycles(Offloaded(node, target), 18).cycles == engine + copies


def unary(op: Op, shape: tuple[int, ...]) -> Graph:
    net = GraphBuilder("unary")
    return net.build(net.apply(op, net.input(shape), quantisation=Q))


def tiling(graph: Graph, **attributes: object) -> Tiling:
    (node,) = Smv().partition(graph, attributes, HOST).nodes
    found = tiling_of(Offloaded(node, Smv().accelerator(attributes, HOST).target))
    assert isinstance(found, Tiling)
    return found


@pytest.mark.parametrize("engines", [0, 9])
def test_other_numbers_of_engines_are_refused(engines: int) -> None:
    with pytest.raises(UsageError, match=f"engines is {engines}, must be at"):
        Smv().accelerator({"engines": engines}, HOST)


def test_a_layer_without_tiles_is_refused() -> None:
    net = GraphBuilder("large")
    graph = net.build(net.conv2d(net.input((1, 56, 56, 64)), 64, 3, name="conv"))
    backend, attributes = Smv(), {"input_bytes": 64}
    (node,) = backend.partition(graph, attributes, HOST).nodes
    with pytest.raises(BackendError, match='smv does not run "conv"'):
        tiling_of(Offloaded(node, backend.accelerator(attributes, HOST).target))


def test_smaug_tiles_a_unary_operator_as_a_row_of_elements() -> None:
    """The published rule: tiles of [1, scratchpad], and the remainder last."""
    found = tiling(unary(Elu(), (1, 33, 32, 80)), tiler="smaug", input_bytes=16384)
    lengths = [upper - lower for lower, upper in found.tiles["i"]]
    assert lengths == [16384, 16384, 16384, 16384, 16384, 2560]
    assert [moved.copies for moved in found.moved] == [6, 1, 6]


def test_smaug_tiles_both_inputs_of_a_sum_in_scratchpads_of_their_own() -> None:
    net = GraphBuilder("sum")
    graph = net.build(net.add(net.input((1, 33, 32, 80)), net.input((1, 33, 32, 80))))
    sizes = dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 16384)
    found = tiling(graph, tiler="smaug", **sizes)
    assert [moved.held_bytes for moved in found.moved] == [16384, 16384, 16384]


def test_smaug_tiles_a_batch_normalisation_by_its_rule() -> None:
    """Whole channels do not fit: tiles of 8 channels more each, whole rows; DimNC comes first."""
    net = GraphBuilder("norm")
    x = net.input((1, 32, 32, 64))
    scaled = net.apply(Mul(), x, constant(net, 64), quantisation=Q)
    graph = net.build(net.apply(Add(), scaled, constant(net, 64), quantisation=Q))
    sizes = dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 16384)
    found = tiling(graph, tiler="smaug", **sizes)
    assert {name: len(tiles) for name, tiles in found.tiles.items()} == {
        "n": 1,
        "h": 1,
        "w": 1,
        "c": 4,
    }
    assert found.layer.inputs[1].shape == (2, 64)


def lookups(commands: tuple[Command, ...]) -> list[Invoke]:
    found: list[Invoke] = []
    for command in commands:
        match command:
            case Loop() | Call():
                found += lookups(command.body)
            case Invoke() if command.driver.name == "smv_lookup":
                found.append(command)
            case _:
                pass
    return found


def test_depthwise_tiles_follow_the_rule_for_pools() -> None:
    """All channels fit in no tile of 3 rows: channels are split before rows are."""
    net = GraphBuilder("depthwise")
    graph = net.build(net.depthwise_conv2d(net.input((1, 64, 64, 32)), 3))
    sizes = dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 32768)
    found = tiling(graph, tiler="smaug", **sizes)
    counts = {name: len(tiles) for name, tiles in found.tiles.items()}
    assert counts == {"n": 1, "h": 1, "w": 1, "c": 4}
    assert found.moved[0].held_bytes == 64 * 64 * 8
    assert tiling(graph).bytes <= found.bytes


def test_cycles_of_depthwise_convolutions_are_those_of_the_loops_and_of_copies() -> None:
    """By hand: 9 taps at 36 places for each of 2 groups of 8 channels, 18 loads of registers;
    copies of 36 x 16, 9 x 16, 9 x 16 and 36 x 16 bytes, 102 + bytes / 8 cycles each."""
    net = GraphBuilder("depthwise")
    graph = net.build(net.depthwise_conv2d(net.input((1, 6, 6, 16)), 3))
    (node,) = Smv().partition(graph, {}, HOST).nodes
    engine, copies = 2 * 9 * 36 + 18, 4 * 102 + (576 + 144 + 144 + 576) // 8
    assert cycles(Offloaded(node, Smv().accelerator({}, HOST).target), 6).cycles == engine + copies


def test_selu_of_onnx_in_qdq_form_runs_on_the_engine() -> None:
    model = Model()
    y = model.node("Selu", model.input(1, 3, 6, 5))
    done = compiled(simplify(graph_of(model.raw(y))), "smv", target=TARGET)
    assert [node.kind for node in claimed(done.graph).values()] == ["RealFunction"]
    assert len(lookups(done.program.run)) == 1
    assert_exact(done, "core")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [((1,), r"constant input 1 has shape \[1\]"), ((1, 1, 5, 1), "constant input 1 has shape")],
)
def test_constants_that_are_not_one_per_channel_stay_with_the_processor(
    shape: tuple[int, ...], reason: str
) -> None:
    net = GraphBuilder("scalar")
    factor = net.constant(np.full(shape, 5, np.int8), Q, "factor")
    graph = net.build(net.apply(Mul(), net.input((1, 4, 5, 20)), factor, quantisation=Q))
    (left,) = compiled(graph, "smv").parts.cpu_fallbacks
    assert re.search(reason, left.reason)


def test_a_constant_minus_a_tensor_stays_with_the_processor() -> None:
    net = GraphBuilder("difference")
    graph = net.build(net.apply(Sub(), constant(net, 20), net.input((1, 4, 5, 20)), quantisation=Q))
    (left,) = compiled(graph, "smv").parts.cpu_fallbacks
    assert "a constant is the first input of a difference" in left.reason


def test_cycles_follow_lanes_and_bandwidth() -> None:
    """By hand, as in test_smv: 9 taps at 36 places for 8 outputs and 32 channels, in 2 x 4 groups
    of 4 outputs and 8 channels; 3,816 bytes at 2 bytes per cycle."""
    net = GraphBuilder("conv")
    graph = net.build(net.conv2d(net.input((1, 6, 6, 32)), 8, 3))
    attributes = {"processing_elements": 4, "multipliers": 8, "bytes_per_cycle": 2}
    (node,) = Smv().partition(graph, attributes, HOST).nodes
    offloaded = Offloaded(node, Smv().accelerator(attributes, HOST).target)
    found = cycles(offloaded, 6)
    assert found.by_resource == {"engine": 8 * (9 * 36 + 9), "copies": 4 * 102 + 3816 // 2}
    assert found.cycles == sum(found.by_resource.values())
    assert found.macs_per_cycle == 32
    assert traffic(offloaded, 0, 6) == {
        "input": 1152,
        "weights": 2304,
        "parameters": 72,
        "output": 288,
    }


def test_one_lane_computes_exactly() -> None:
    """As many groups as channels, down to the functional model."""
    attributes = f"processing_elements=1,multipliers=1,bytes_per_cycle=1,{SMALL}"
    assert_exact(compiled(built(batch), f"smv:{attributes}"), "machine")
