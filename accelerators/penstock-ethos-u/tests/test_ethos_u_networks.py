"""ethos_u: networks as register command streams, run by the interpreter; layouts; refusals."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from available import path_of
from lowered import inputs_of_graph
from offloading import assert_exact, claimed, compiled
from penstock import api
from penstock.backends.discovery import open_accelerators
from penstock.execution import unpacked
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.channel_packs import PackChannels, UnpackChannels
from penstock.ops.conversions import Quantize
from penstock.ops.sums import Sum
from penstock.ops.unary import HardSwish, LeakyRelu, Logistic, Relu, Tanh
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request
from penstock.program.steps import submissions
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler
from penstock_ethos_u.ethos_u55 import EthosU55
from penstock_ethos_u.interpreter import disassemble, driver_payload
from penstock_ethos_u.vela import payload_configuration

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

HOST = load_target("host")
EVERY = (
    *(f"ethos_u55:macs={macs}" for macs in (32, 64, 128, 256)),
    "ethos_u65:macs=256,memory_mode=dedicated_sram",
    "ethos_u65_256",
    "ethos_u65:macs=512",
    "ethos_u85:macs=512",
    "ethos_u85:macs=2048,memory_mode=sram_only",
)
SHORT_SEARCH = Options(placement_work=0.05)
"""A tenth of the default search for the least memory, of which these tests say nothing."""
FUNCTIONS = (
    Relu(), Relu(Activation.RELU6), Logistic(), Tanh(), HardSwish(), LeakyRelu(0.1), Quantize(),
)  # fmt: skip


def rungs(
    model: str, accelerator: str, sram: int | None = None
) -> dict[str, tuple[int | None, str]]:
    """By rung of the ladder, how many elements differ, and what is said of it."""
    opened = open_accelerators((accelerator,), HOST)
    request = Request(
        path_of(model), HOST, sram_bytes=sram, accelerators=opened, options=SHORT_SEARCH
    )
    found = api.verify(request).rungs
    return {rung.step: (rung.mismatches, rung.note) for rung in found}


@pytest.mark.parametrize("accelerator", [EVERY[0], "ethos_u65:macs=256,memory_mode=dedicated_sram"])
def test_a_network_is_bit_exact_on_every_rung(accelerator: str) -> None:
    found = rungs("zoo:lenet5", accelerator)
    assert {step: mismatches for step, (mismatches, _) in found.items()} == {
        "machine": 0,
        "host": 0,
    }


@pytest.mark.parametrize("sram", [13_000, pytest.param(30_000, marks=pytest.mark.long)])
def test_cascades_run_too(sram: int) -> None:
    """Stripes through rings, at budgets between the least memory and that of whole layers."""
    opened = open_accelerators(("ethos_u55",), HOST)
    request = Request(
        "zoo:resnet8", HOST, sram_bytes=sram, accelerators=opened, options=SHORT_SEARCH
    )
    done = compile_request(request)
    assert any(len(plan.parts) > 2 for plan in done.schedule.plans)
    assert_exact(done, "machine")


@pytest.mark.long
@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=128", "ethos_u55:macs=256",
                                         "ethos_u65_256"])  # fmt: skip
@pytest.mark.parametrize("model", ["pretrainedResnet_quant", "kws_ref_model", "vww_96_int8",
                                   "person_detect", "mobilenetv2_160_035"])  # fmt: skip
def test_real_networks_run_bit_exactly_at_every_point(model: str, accelerator: str) -> None:
    opened = open_accelerators((accelerator,), HOST)
    request = Request(path_of(model), HOST, accelerators=opened)
    found = api.verify(request, every_point=True).rungs
    assert {rung.step: rung.mismatches for rung in found} == {
        "machine": 0,
        "points": 0,
        "host": 0,
    }


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Layers of any kind that the NPU has, of odd sizes."""
    net = GraphBuilder("net", seed=draw(st.integers(0, 99)))
    size = draw(st.integers(5, 12)), draw(st.integers(5, 12))
    x = net.input((1, *size, draw(st.integers(1, 20))), zero_point=draw(st.integers(-128, 127)))
    for k in range(draw(st.integers(1, 4))):
        x = layer(draw, net, x, k)
    if draw(st.booleans()):
        return net.build(x, net.fully_connected(x, draw(st.integers(1, 12)), name="dense"))
    return net.build(x)


def layer(draw: st.DrawFn, net: GraphBuilder, x: Value, k: int) -> Value:
    kernel = draw(st.sampled_from((1, 2, 3, 5, (3, 1), (2, 3))))
    stride, dilation = draw(st.sampled_from(((1, 1), (2, 1), ((1, 2), 1), (1, 2), (3, 1))))
    padding = draw(st.sampled_from(("same", "valid")))
    activation = draw(st.sampled_from(("none", "relu", "relu6")))
    height, width, channels = x.type.shape[1:]
    if min(height, width) < 6:
        kernel, dilation = 1, 1
    multiplier = draw(st.integers(1, 9)) if channels == 1 else 1
    zero = draw(st.integers(-128, 127))
    quantisation = Quantisation((x.type.scale * draw(st.floats(0.4, 2.5)),), (zero,))
    match draw(st.sampled_from(("conv", "conv", "depthwise", "max", "average", "sum", "function",
                                "factor", "difference"))):  # fmt: skip
        case "conv":
            return net.conv2d(x, draw(st.integers(1, 40)), kernel, stride, padding, activation,
                              dilation, name=f"conv{k}")  # fmt: skip
        case "depthwise":
            return net.depthwise_conv2d(x, kernel, stride, padding, activation, dilation,
                                        multiplier, name=f"depthwise{k}")  # fmt: skip
        case "max":
            return net.max_pool2d(x, kernel, stride, padding, name=f"max{k}")
        case "average":
            return net.average_pool2d(x, kernel, stride, padding, name=f"average{k}")
        case "function":
            op = draw(st.sampled_from(FUNCTIONS))
            if isinstance(op, Logistic | Tanh):
                fixed = Quantisation((1 / 256,), (-128,)), Quantisation((1 / 128,), (0,))
                quantisation = fixed[isinstance(op, Tanh)]
            return net.apply(op, x, quantisation=quantisation, name=f"function{k}")
        case "factor":
            return number(draw, net, x, Mul(), quantisation, f"factor{k}")
        case "difference":
            return number(draw, net, x, Sub(), quantisation, f"difference{k}")
        case _:
            side = net.conv2d(x, channels, 1, name=f"side{k}")
            op = draw(st.sampled_from((Add, Sub, Mul)))(draw(st.sampled_from(Activation)))
            return net.apply(op, x, side, quantisation=quantisation, name=f"sum{k}")


def number(
    draw: st.DrawFn, net: GraphBuilder, x: Value, op: Mul | Sub, into: Quantisation, name: str
) -> Value:
    """With a constant, on either side."""
    element = np.array(draw(st.integers(-128, 127)), np.int8)
    constant = net.constant(
        element, Quantisation((draw(st.floats(0.01, 0.1)),), (-28,)), f"{name}/c"
    )
    pair = (x, constant) if draw(st.booleans()) else (constant, x)
    return net.apply(op, *pair, quantisation=into, name=name)


@settings(max_examples=15)
@given(
    graph=networks(),
    accelerator=st.sampled_from(EVERY),
    layout=st.sampled_from(("nhwc", "nhcwb16")),
)
def test_any_network_runs_bit_exactly_at_every_point(
    graph: Graph, accelerator: str, layout: str
) -> None:
    mark = "," if ":" in accelerator else ":"
    done = compiled(graph, f"{accelerator}{mark}layout={layout}")
    assert_exact(done, "points")


@settings(max_examples=15)
@given(graph=networks())
def test_channel_blocks_do_not_change_results(graph: Graph) -> None:
    plain = EthosU55().partition(graph, {"layout": "nhwc"}, HOST)
    bricks = EthosU55().partition(graph, {}, HOST)
    assert not any(isinstance(n.op, PackChannels | UnpackChannels) for n in bricks.nodes)
    assert [n.kind for n in plain.nodes] == [n.kind for n in bricks.nodes]
    inputs = inputs_of_graph(graph, 7)
    expected, found = run_graph(graph, inputs), run_graph(bricks, inputs)
    for value in graph.outputs:
        np.testing.assert_array_equal(found[value.name], expected[value.name])


def test_only_internal_tensors_of_at_least_a_channel_block_are_packed() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 6, 6, 3))
    a = net.conv2d(x, 24, 3, name="a")
    b = net.conv2d(a, 16, 1, name="b")
    c = net.max_pool2d(net.conv2d(a, 8, 1, name="c"), 2, name="pool")
    graph = net.build(net.softmax(b), c)
    names = {node.output.name for node in EthosU55().partition(graph, {}, HOST).nodes}
    assert {"a/packed", "b", "c", "pool"} <= names


REFUSED = {
    "its strides are 4 x 4": lambda net, x: net.max_pool2d(x, 2, 4, name="y"),
    "it spans 65 x 65 elements": lambda net, x: net.conv2d(x, 8, 3, dilation=32, name="y"),
    "it spans 128 x 1 elements": lambda net, x: net.apply(
        Sum((1,)), net.reshape(x, (1, 128, 2, 4)), quantisation=x.type.quantisation, name="y"
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_unsupported_nodes_are_refused_with_a_reason(why: str) -> None:
    net = GraphBuilder("net")
    graph = net.build(REFUSED[why](net, net.input((1, 16, 16, 4))))
    done = compiled(graph, "ethos_u55")
    assert not claimed(done.graph)
    assert why in done.parts.cpu_fallbacks[0].reason


def test_a_call_has_the_format_of_arm_s_driver() -> None:
    """One payload for the configuration, in which one operation stops and its base is a region."""
    net = GraphBuilder("net")
    graph = net.build(net.conv2d(net.input((1, 6, 6, 3)), 8, 3, name="a"))
    done = compiled(graph, "ethos_u55:macs=64")
    (submission,) = submissions(done.program)
    assert submission.submit.driver.name == "ethosu_submit"
    (buffer,) = (b for b in done.program.buffers if b.is_stream)
    assert buffer.data is not None
    assert payload_configuration(buffer.data.raw) == "ethos-u55-64"
    text = disassemble(driver_payload(buffer.data.raw))
    assert text.count("NPU_OP_CONV") == 1
    assert "NPU_OP_STOP" in text


def test_operations_on_ethos_u85_overlap_where_they_may() -> None:
    """A depthwise convolution begins while the last rows of its input are computed; a convolution
    whose window is the whole image waits."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 32, 32, 16)), 32, 3, name="a")
    y = net.depthwise_conv2d(x, 3, 1, name="b")
    z = net.conv2d(y, 8, 32, padding="valid", name="c")
    done = compiled(net.build(z), "ethos_u85:memory_mode=sram_only")
    (buffer,) = (b for b in done.program.buffers if b.is_stream)
    assert buffer.data is not None
    assert payload_configuration(buffer.data.raw) == "ethos-u85-256"
    text = disassemble(driver_payload(buffer.data.raw), "u85")
    assert re.findall(r"BLOCKDEP (\d)", text) == ["0", "7", "0"]


DRIVER = """
#include <stddef.h>
#include <stdint.h>
struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);
"""
"""What is used of Arm's header, as version 24 of its driver declares it."""


def test_the_c_hands_payloads_to_arms_driver() -> None:
    """It compiles beside the driver's declarations, and what the NPU reads is aligned."""
    net = GraphBuilder("net")
    graph = net.build(net.conv2d(net.input((1, 6, 6, 3)), 8, 3, name="a"))
    bundle = compiled(graph, "ethos_u55").bundle.with_files(("ethosu_driver.h", DRIVER.encode()))
    files = dict(bundle.files)
    assert b"ethosu_submit(" in files["net.c"]
    weights = files["net_weights.c"].decode()
    assert weights.count("_Alignas(32)") == weights.count("_Alignas(16)") == 1
    assert weights.count("uint8_t") == 2
    with unpacked(bundle) as folder:
        sources = [folder / "net.c", folder / "net_weights.c"]
        objects = compile_objects(host_compiler(), sources, folder / "objects", include=(folder,))
        assert all(path.is_file() for path in objects)


def test_without_the_package_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['ethosu'] = None; from penstock import cli;"
        "sys.argv = ['penstock', 'compile', 'zoo:lenet5', '--accelerator', 'ethos_u55']; cli.main()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert "error[ethosu-001]" in found.stderr
    assert "pip install 'penstock[ethos-u]'" in found.stderr


def test_a_streamed_input_is_planned_only_if_asked_for() -> None:
    """Cycles depend on addresses, so that its plan takes as long as the compilation."""
    found = [
        api.compile("zoo:lenet5", "host", accelerators=EVERY[2:3], plan_streaming=asked).report
        for asked in (None, True)
    ]
    assert found[0].ram_bytes_streamed_input is None
    assert found[1].ram_bytes_streamed_input is not None
    assert found[0].frontier == found[1].frontier
