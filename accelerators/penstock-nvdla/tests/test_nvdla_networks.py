"""nvdla: networks as streams of register writes, in the machine and in C; packs; refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from available import TARGET, path_of
from offloading import assert_exact, claimed, compiled
from penstock import api
from penstock.backends.packed import packed
from penstock.errors import UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.channel_packs import PackChannels, PackView, UnpackChannels
from penstock.ops.concatenation import Concatenation
from penstock.ops.sums import Mean
from penstock.ops.unary import Relu
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request
from penstock.scheduling.options import DEFAULTS, Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.uma import Place, StreamOperation, StreamRows
from penstock_nvdla import Nvdla
from penstock_nvdla.configurations import (
    CONFIGURATIONS,
    LARGE,
    SMALL,
)
from penstock_nvdla.layer import NvdlaMemory
from penstock_nvdla.pdp import PoolingMethod
from penstock_nvdla.programs import decode, encode, relocated, to_stream
from penstock_nvdla.stream import Write, completes, from_bytes
from penstock_nvdla.task import Task
from strategies import seeds

HOST = load_target("host")


def climbed(
    model: str, config: str, target: str = "host", options: Options = DEFAULTS
) -> dict[str, int]:
    """By rung of the ladder, how many elements differ."""
    request = api.request(
        path_of(model), target, accelerators=(f"nvdla:config={config}",), options=options
    )
    return {rung.step: rung.comparison.mismatches for rung in api.verify(request).rungs}


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_a_network_runs_bit_exactly_in_the_machine_and_in_c(config: str) -> None:
    assert climbed("zoo:lenet5", config) == {"machine": 0, "host": 0}


@pytest.mark.parametrize("sram", [18_500, pytest.param(28_000, marks=pytest.mark.long)])
def test_cascades_run_on_it_too(sram: int) -> None:
    """Stripes through rings, at budgets between the least memory and that of whole layers."""
    nvdla = Nvdla().accelerator({}, HOST)
    request = Request("zoo:resnet8", HOST, sram_bytes=sram, accelerators=(nvdla,))
    done = compile_request(request)
    assert any(len(plan.parts) > 2 for plan in done.schedule.plans)
    assert_exact(done, "host")


@pytest.mark.long
@pytest.mark.parametrize("model", ["pretrainedResnet_quant", "vww_96_int8", "mobilenetv2_160_035"])
def test_real_networks_run_bit_exactly(model: str) -> None:
    assert climbed(model, "small", TARGET) == {"machine": 0, "host": 0, "core": 0}


def test_residuals_and_depthwise_run_there() -> None:
    depthwise = "zoo:mobilenet_v1:alpha=0.25,resolution=32"
    assert climbed(depthwise, "small") == {"machine": 0, "host": 0}
    assert climbed("zoo:resnet8:resolution=16", "large") == {"machine": 0, "host": 0}


def joined(net: GraphBuilder, *parts: Value, axis: int = 3, name: str = "joined") -> Value:
    """Tensors of one scale, one after the other."""
    return net.apply(
        Concatenation(axis), *parts, quantisation=parts[0].type.quantisation, name=name
    )


@st.composite
def joins(draw: st.DrawFn, net: GraphBuilder, x: Value, k: int) -> Value:
    """A tensor, or another of its scale, several times, put together."""
    pooled = net.max_pool2d(x, 1, 1, name=f"pooled{k}")
    parts = draw(st.lists(st.sampled_from((x, pooled)), min_size=1, max_size=4))
    return joined(net, *parts, name=f"join{k}")


@st.composite
def with_constant(draw: st.DrawFn, net: GraphBuilder, x: Value, op: Op, name: str) -> Value:
    """A tensor times, plus or minus a constant: one number, or one for each channel."""
    shape = draw(st.sampled_from(((1,), (1, 1, 1, 1), x.type.shape[-1:])))
    values = np.random.default_rng(draw(seeds)).integers(-100, 28, shape).astype(np.int8)
    constant = net.constant(values, Quantisation((0.02,), (-28,)), f"{name}/c")
    first = op.COMMUTATIVE and draw(st.booleans())
    pair = (constant, x) if first else (x, constant)
    scale = Quantisation((0.03,), (draw(st.integers(-128, 127)),))
    return net.apply(op, *pair, quantisation=scale, name=name)


@st.composite
def scaled(draw: st.DrawFn, net: GraphBuilder, x: Value, k: int) -> Value:
    """Products, sums and differences with constants, among them a batch normalisation."""
    activation = draw(st.sampled_from((Activation.NONE, Activation.RELU)))
    ops = ((Mul(),), (Add(activation),), (Sub(activation),), (Mul(), Add(activation)))
    for j, op in enumerate(draw(st.sampled_from(ops))):
        x = draw(with_constant(net, x, op, f"scaled{k}/{j}"))
    return x


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Convolutions of any kind, pools, a sum and a dense layer, of odd sizes."""
    net = GraphBuilder("net", seed=draw(st.integers(0, 99)))
    size = draw(st.integers(5, 12)), draw(st.integers(5, 12))
    x = net.input((1, *size, draw(st.integers(1, 20))), zero_point=draw(st.integers(-128, 127)))
    for k in range(draw(st.integers(1, 4))):
        kernel = draw(st.sampled_from((1, 2, 3, (3, 1), (2, 3))))
        stride, dilation = draw(st.sampled_from(((1, 1), (2, 1), ((1, 2), 1), (1, 2))))
        padding = draw(st.sampled_from(("same", "valid")))
        activation = draw(st.sampled_from(("none", "relu", "relu6")))
        height, width = x.type.shape[1:3]
        if min(height, width) < 6:
            kernel, dilation = 1, 1
        every = ("conv", "conv", "depthwise", "max", "average", "add", "clamp", "scaled", "join")
        match draw(st.sampled_from(every)):
            case "conv":
                x = net.conv2d(x, draw(st.integers(1, 40)), kernel, stride, padding, activation,
                               dilation, name=f"conv{k}")  # fmt: skip
            case "depthwise":
                x = net.depthwise_conv2d(x, kernel, stride, padding, activation, dilation,
                                         draw(st.integers(1, 2)), name=f"depthwise{k}")  # fmt: skip
            case "max" | "average" as pool:
                pools = {"max": net.max_pool2d, "average": net.average_pool2d}
                x = pools[pool](x, kernel, stride, padding, name=f"{pool}{k}")
            case "clamp":
                op = Relu(draw(st.sampled_from((Activation.RELU, Activation.RELU6))))
                scale = x.type.scale * draw(st.floats(0.3, 2))
                zero = draw(st.integers(-128, 127))
                x = net.apply(op, x, quantisation=Quantisation((scale,), (zero,)), name=f"clamp{k}")
            case "scaled":
                x = draw(scaled(net, x, k))
            case "join":
                x = draw(joins(net, net.conv2d(x, draw(st.sampled_from((5, 8, 32))), 1), k))
            case _:
                side = net.conv2d(x, x.type.shape[3], 1, name=f"side{k}")
                x = net.add(x, side, activation, name=f"add{k}")
    if draw(st.booleans()):
        return net.build(x, net.fully_connected(x, draw(st.integers(1, 12)), name="dense"))
    return net.build(x)


@settings(max_examples=12)
@given(
    graph=networks(),
    config=st.sampled_from(("small", "small_256", *(f"large,cvsram={k}k" for k in (0, 1, 4, 512)))),
    partition=st.sampled_from(("cascades", "resident", "paper", "best")),
)
def test_any_network_runs_bit_exactly_in_the_machine_at_every_point(
    graph: Graph, config: str, partition: str
) -> None:
    alone = "cvsram" not in config or "=0k" in config
    options = Options(partition="cascades" if alone else partition)
    assert_exact(compiled(graph, f"nvdla:config={config}", options=options), "points")


@settings(max_examples=20)
@given(graph=networks(), pack=st.integers(1, 33), seed=seeds)
def test_packed_tensors_do_not_change_results(graph: Graph, pack: int, seed: int) -> None:
    claims = Nvdla().partition(graph, {}, HOST)
    plain = graph
    inputs = {
        v.name: np.random.default_rng(seed).integers(-128, 128, v.type.shape).astype(np.int8)
        for v in graph.inputs
    }
    assert any(isinstance(n.op, PackChannels | PackView | UnpackChannels) for n in claims.nodes)
    once_more = packed(claims, "nobody", pack)
    assert once_more.nodes == claims.nodes
    expected, found = run_graph(plain, inputs), run_graph(claims, inputs)
    for value in graph.outputs:
        np.testing.assert_array_equal(found[value.name], expected[value.name])


def test_each_tensor_is_packed_once_and_only_at_the_border() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 6, 6, 3))
    a = net.conv2d(x, 16, 3, name="a")
    b = net.conv2d(x, 16, 1, name="b")
    graph = net.build(net.softmax(net.max_pool2d(net.add(a, b), 2, name="pool")))
    claims = Nvdla().partition(graph, {}, HOST)
    kinds = [node.kind for node in claims.nodes]
    assert kinds == [
        *("Pad", "PackView", "nn.conv2d", "nn.conv2d", "add", "max_pool2d"),
        *("UnpackChannels", "Softmax"),
    ]


def inception(net: GraphBuilder, x: Value, name: str) -> Value:
    """Branches of several kernels, requantised to one scale, and put together."""
    scale = Quantisation((0.05,), (-3,))
    heads = [
        net.conv2d(x, 32, 1, name=f"{name}/one"),
        net.conv2d(net.conv2d(x, 16, 1, name=f"{name}/narrow"), 64, 3, name=f"{name}/three"),
        net.conv2d(
            net.max_pool2d(x, 3, 1, "same", name=f"{name}/pool"), 20, 1, name=f"{name}/last"
        ),
    ]
    alike = [
        net.apply(Relu(Activation.RELU), head, quantisation=scale, name=f"{head.name}/relu")
        for head in heads
    ]
    return joined(net, *alike, name=name)


@pytest.mark.parametrize("config", [pytest.param("small", marks=pytest.mark.long), "large"])
def test_branches_are_put_together_there_whole_and_in_stripes(config: str) -> None:
    net = GraphBuilder("net")
    x = inception(net, net.input((1, 8, 5, 32)), "first")
    graph = net.build(inception(net, x, "second"))
    done = compiled(graph, f"nvdla:config={config},cvsram=0")
    assert {"first/packed", "second/packed"} <= set(claimed(done.graph))
    assert any(plan.stripe for point in done.points for plan in point.schedule.plans)
    assert_exact(done, "points")
    least = done.points[0].ram_bytes(done.request)
    striped = compiled(graph, f"nvdla:config={config},cvsram=0", sram_bytes=least)
    assert any(plan.stripe for plan in striped.schedule.plans)
    assert_exact(striped, "host")


@settings(max_examples=25)
@given(
    shape=st.tuples(st.just(1), st.integers(1, 12), st.integers(1, 12), st.integers(1, 40)),
    zero=st.integers(-128, 127),
    scales=st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)),
    config=st.sampled_from(sorted(CONFIGURATIONS)),
    extreme=st.sampled_from((None, -128, 127)),
)
def test_a_mean_over_an_image_is_exact(
    shape: tuple[int, ...],
    zero: int,
    scales: tuple[float, float],
    config: str,
    extreme: int | None,
) -> None:
    net = GraphBuilder("net")
    x = net.input(shape, scale=scales[0], zero_point=zero)
    graph = net.build(
        net.apply(Mean((1, 2)), x, quantisation=Quantisation((scales[1],), (-zero - 1,)), name="y")
    )
    done = compiled(graph, f"nvdla:config={config}")
    assert "mean" in {node.kind for node in claimed(done.graph).values()}
    assert_exact(done, "points")
    if extreme is not None:
        inputs = {"input": np.full(shape, extreme, np.int8)}
        found = Machine(done.program).run(inputs)
        np.testing.assert_array_equal(found["y"], run_graph(graph, inputs)["y"])


def test_means_over_other_axes_stay_with_the_processor() -> None:
    net = GraphBuilder("net")
    graph = net.build(net.apply(Mean((1,)), net.input((1, 4, 4, 8)), name="y"))
    assert not claimed(compiled(graph, "nvdla").graph)


def test_operands_that_are_not_one_value_per_channel_are_refused_with_a_reason() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 6, 6, 8))
    narrow = net.conv2d(x, 1, 1, name="narrow")
    row = net.constant(np.zeros((1, 1, 6, 8), np.int8), x.type.quantisation, "row/c")
    single = net.constant(np.ones((8,), np.int8), x.type.quantisation, "single/c")
    graph = net.build(
        net.apply(Add(), x, row, quantisation=x.type.quantisation, name="row"),
        net.apply(Mul(), narrow, single, quantisation=x.type.quantisation, name="wider"),
    )
    left = {item.node.name: item.reason for item in compiled(graph, "nvdla").parts.cpu_fallbacks}
    assert left["row"].endswith("input 1 is constant")
    assert left["wider"].endswith("input 0 has shape [1, 6, 6, 1]")


def test_a_mean_runs_in_c() -> None:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 9, 7, 8)), 20, 3, name="x")
    done = compiled(net.build(net.apply(Mean((1, 2)), x, name="y")), "nvdla")
    assert len(claimed(done.graph)) == 2
    assert_exact(done, "host")


def test_concatenations_of_other_axes_and_scales_are_refused_with_a_reason() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 6, 6, 8))
    other = net.constant(np.zeros((1, 6, 6, 8), np.int8), x.type.quantisation, "other")
    graph = net.build(
        joined(net, x, x, axis=2, name="wide"),
        joined(net, x, other, name="fixed"),
        net.apply(Concatenation(3), x, x, quantisation=Quantisation((9.0,), (0,)), name="scaled"),
    )
    left = {item.node.name: item.reason for item in compiled(graph, "nvdla").parts.cpu_fallbacks}
    assert left["wide"].endswith("the axis is 2")
    assert left["fixed"].endswith("input 1 is constant")
    assert "zero point of the result: input 0 has type int8" in left["scaled"]


def test_cvsram_is_reported_separately_from_ram() -> None:
    own, none = (
        api.compile(
            "zoo:resnet8:resolution=16", accelerators=(f"nvdla:config=large,cvsram={size}",)
        ).report
        for size in ("own", "0")
    )
    assert own.ram_bytes.total < none.ram_bytes.total
    assert 0 < own.free_bytes["cvsram"] <= 512 << 10
    assert none.free_bytes == {}
    with pytest.raises(UsageError, match="'lots' is not a size") as caught:
        api.request("zoo:resnet8", accelerators=("nvdla:config=large,cvsram=lots",))
    assert caught.value.where == "--accelerator nvdla:cvsram=lots"


def test_less_memory_does_not_leave_cvsram_unused() -> None:
    """At 35,840 bytes, cascades with 12 tensors in CVSRAM take a sixth of the cycles."""
    options = Options(partition="cascades")
    request = api.request(
        path_of("zoo:resnet8"),
        "host",
        accelerators=["nvdla:config=large,cvsram=24KiB"],
        options=options,
    )
    points = compile_request(request).points
    used = [point for point in points if point.schedule.memory.exceptions]
    assert min(p.height_bytes for p in used) < max(p.height_bytes for p in points) / 2


def test_large_networks_may_have_no_schedule_without_cvsram(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.scheduling.cascades.search.MOST_GROUPED", 1)
    request = api.request(path_of("zoo:lenet5"), "host", accelerators=["nvdla:config=large"])
    assert all(point.schedule.memory.exceptions for point in compile_request(request).points)


def test_it_is_as_fast_as_its_port() -> None:
    request = api.request("zoo:resnet8", accelerators=("nvdla:config=large",))
    (memory,) = (m for m in request.target.memories if m.name == "cvsram")
    assert memory.bandwidth_bytes_per_cycle == LARGE.second_port.bytes_per_cycle


def test_its_size_is_set_as_that_of_any_memory() -> None:
    told, own = (
        api.request("zoo:resnet8", "host", accelerators=accelerators, memory=memory)
        for accelerators, memory in (
            (("nvdla:config=large,cvsram=24k",), {"ram": 1 << 20}),
            (("nvdla:config=large",), {"cvsram": "24k", "ram": "1m"}),
        )
    )
    assert told.target == own.target
    for request in (told, own):
        assert request.accelerators[0].target.memories["cvsram"].size_bytes == 24 << 10
    with pytest.raises(UsageError, match="has no memory 'cvsram'") as caught:
        api.request("zoo:resnet8", accelerators=("smv",), memory={"cvsram": 1})
    assert caught.value.code == "usage-011"


def test_a_kernel_too_large_for_the_buffer_is_refused_with_a_reason() -> None:
    net = GraphBuilder("net")
    graph = net.build(net.conv2d(net.input((1, 8, 8, 2048)), 8, 3, activation="relu", name="wide"))
    (left,) = compiled(graph, "nvdla").parts.cpu_fallbacks
    assert "the input rows of a kernel and a group of kernels need" in left.reason


def test_a_stream_is_moved_to_where_its_bases_lie() -> None:
    writes = (
        (Write("CDMA.D_DAIN_ADDR_LOW_0", 8), Place(1, 64)),
        (Write("CDMA.D_OP_ENABLE", 1), None),
    )
    configuration, places, raw = decode(to_stream(LARGE, writes))
    assert configuration == LARGE
    assert places == ((0, 1, NvdlaMemory.MAIN),)
    found = from_bytes(relocated(raw, places, (0, 4096)))
    assert [(w.register, w.word) for w in found] == [
        ("CDMA.D_DAIN_ADDR_LOW_0", 4168),
        ("CDMA.D_OP_ENABLE", 1),
    ]


def rows_written(starts: list[int], first: int, end: int) -> list[str]:
    """Units started by a call of a 3 x 3 pool, whose input's rows begin there."""
    task = Task(SMALL, 8, 8, 8, 6, 6, 8, 3, 3, method=PoolingMethod.LARGEST)
    source = StreamRows(0, 0, starts)
    result = StreamRows(1, 0, [48 * row for row in range(6)])
    call = StreamOperation(task, first, end, (source,), result, scratch=Place(2, 0))
    _, _, writes = decode(encode([call]))
    return [w.starts for w in from_bytes(writes) if completes(w, {})]


def test_rows_of_constant_pitch_are_one_hardware_layer() -> None:
    assert len(rows_written([64 * row for row in range(8)], 0, 6)) == 1
    assert len(rows_written([80 * row for row in range(8)], 2, 5)) == 1


def test_a_ring_is_read_in_pieces_and_its_seam_is_copied() -> None:
    """Rows 0 to 3 lie in order, then 4 to 7 in the same places: the windows of rows 0, 1 and 4, 5
    of the output are even, those of 2 and 3 are not."""
    ring = [64 * (row % 4) for row in range(8)]
    assert len(rows_written(ring, 0, 2)) == 1
    assert len(rows_written(ring, 2, 3)) == 4
    assert len(rows_written(ring, 0, 6)) == 1 + 2 * 4 + 1
