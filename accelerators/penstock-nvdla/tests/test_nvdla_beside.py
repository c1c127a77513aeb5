"""nvdla: clamps, padded averages, wide pools and concatenations run on NVDLA, not beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock_nvdla
from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder, Padding
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Maximum, Mul, Prelu, Sub
from penstock.ops.concatenation import Concatenation
from penstock.ops.pad import Pad
from penstock.ops.slice import Slice
from penstock.ops.unary import LeakyRelu, Logistic, Relu
from penstock.uma import Offloaded
from penstock_nvdla.operators import summation


def clamps(activation: Activation, zero: int, scale: float, target: Quantisation) -> Graph:
    """A clamp of its input, with any scale of the result."""
    net = GraphBuilder("clamps", seed=3)
    x = net.input((1, 5, 6, 11), scale=scale, zero_point=zero)
    return net.build(net.apply(Relu(activation), x, quantisation=target, name="clamp"))


@settings(max_examples=8)
@given(
    zero=st.integers(-128, 100), ratio=st.floats(0.3, 3), config=st.sampled_from(("small", "large"))
)
def test_a_relu_runs_on_sdp(zero: int, ratio: float, config: str) -> None:
    graph = clamps(Activation.RELU, zero, 0.05, Quantisation((0.05 * ratio,), (-128,)))
    done = compiled(graph, f"nvdla:config={config}")
    assert [node.kind for node in claimed(done.graph).values()] == ["clip"]
    assert_exact(done, "machine")


@pytest.mark.parametrize("zero", [-128, -3])
def test_a_relu_of_one_scale_and_a_relu6_run_in_c(zero: int) -> None:
    same = Quantisation((0.05,), (zero,))
    for activation in (Activation.RELU, Activation.RELU6):
        done = compiled(clamps(activation, zero, 0.05, same), "nvdla")
        assert claimed(done.graph)
        assert_exact(done, "host")


@settings(max_examples=12)
@given(
    op=st.sampled_from((Add, Sub, Mul)),
    activation=st.sampled_from((Activation.NONE, Activation.RELU, Activation.RELU6)),
    is_scalar=st.booleans(),
    is_first=st.booleans(),
    zeros=st.tuples(st.integers(-128, 100), st.integers(-128, 100), st.integers(-10, 10)),
    ratio=st.floats(0.3, 3),
    config=st.sampled_from(("small", "large")),
    seed=st.integers(0, 99),
)
def test_sums_and_products_with_constants_run_on_sdp(
    op: type[Add] | type[Sub] | type[Mul],
    activation: Activation,
    is_scalar: bool,
    is_first: bool,
    zeros: tuple[int, int, int],
    ratio: float,
    config: str,
    seed: int,
) -> None:
    """Constants of one element or one per channel, of both signs, in either place."""
    net = GraphBuilder("constant", seed=seed)
    x = net.input((1, 5, 6, 11), scale=0.04, zero_point=zeros[0])
    shape = (1, 1, 1, 1) if is_scalar else (1, 1, 1, 11)
    elements = np.random.default_rng(seed).integers(-100, 100, shape).astype(np.int8)
    scale = Quantisation((1 / 100 if op is Mul else 0.03,), (zeros[2],))
    constant = net.constant(elements, scale, "constant")
    both = (constant, x) if is_first else (x, constant)
    target = Quantisation((0.04 * ratio,), (zeros[1],))
    graph = net.build(net.apply(op(activation), *both, quantisation=target, name="found"))
    done = compiled(graph, f"nvdla:config={config}")
    assert len(claimed(done.graph)) == 1
    assert_exact(done, "machine")


@pytest.mark.parametrize("channels", [0, 1, 11])
def test_relus_with_slopes_run_on_sdp(channels: int) -> None:
    """A slope of the operator, one of a constant for all channels, or one for each."""
    net = GraphBuilder("slopes", seed=3)
    x = net.input((1, 9, 6, 11), scale=0.05, zero_point=-17)
    target = Quantisation((0.04,), (-60,))
    if channels:
        slopes = np.arange(5, 5 + 9 * channels, 9).astype(np.int8).reshape(1, 1, channels)
        alpha = net.constant(slopes, Quantisation((0.01,), (0,)), "alpha")
        y = net.apply(Prelu(), x, alpha, quantisation=target, name="slope")
    else:
        y = net.apply(LeakyRelu(0.2), x, quantisation=target, name="slope")
    graph = net.build(y)
    done = compiled(graph, "nvdla")
    assert len(claimed(done.graph)) == 1
    assert_exact(done, "machine")


@pytest.mark.parametrize(("config", "rung"), [("large", "machine"), ("small", "host")])
def test_a_sum_whose_scales_tie_takes_two_passes(config: str, rung: str) -> None:
    """A step of the first input is 5/6 of a step of the sum, so every third element ties."""
    net = GraphBuilder("ties", seed=8)
    x = net.input((1, 40, 30, 70), scale=0.05, zero_point=-18)
    factor = net.constant(np.full((1, 1, 1, 1), 90, np.int8), Quantisation((0.01,), (0,)), "c")
    scales = Quantisation((0.030086677,), (3,)), Quantisation((0.0600000015,), (-27,))
    other = net.apply(Mul(), x, factor, quantisation=scales[0], name="other")
    y = net.apply(Add(), x, other, quantisation=scales[1], name="sum")
    done = compiled(net.build(y), f"nvdla:config={config}")
    total = next(node for node in claimed(done.graph).values() if node.kind == "add")
    target = done.request.accelerators[0].target
    assert len(summation(Offloaded(total, target))) == 2
    assert_exact(done, rung)


def test_a_batch_normalisation_runs_in_c() -> None:
    """A product and a sum with a number for each channel; two passes, and scratch for some rows."""
    net = GraphBuilder("normalised", seed=8)
    x = net.input((1, 40, 30, 70), scale=0.04, zero_point=-20)
    random = np.random.default_rng(1)
    factors, addends = (
        net.constant(
            random.integers(low, 120, (1, 1, 1, 70)).astype(np.int8), Quantisation((0.01,), (0,)), s
        )
        for s, low in (("factors", -40), ("addends", -120))
    )
    y = net.apply(Mul(), x, factors, quantisation=Quantisation((0.04,), (-30,)), name="scaled")
    last = Quantisation((0.03,), (-128,))
    graph = net.build(net.apply(Add(Activation.RELU), y, addends, quantisation=last, name="norm"))
    done = compiled(graph, "nvdla")
    assert [node.kind for node in claimed(done.graph).values()] == ["multiply", "add"]
    assert_exact(done, "host")


def test_concatenations_of_whole_packs_are_copied_by_sdp() -> None:
    net = GraphBuilder("joined", seed=4)
    x = net.input((1, 6, 5, 8))
    one = net.conv2d(x, 16, 3, name="one")
    same = Quantisation((one.type.scale,), (one.type.zero_point,))
    other = net.apply(Relu(Activation.RELU), one, quantisation=same, name="other")
    joined = net.apply(Concatenation(3), one, other, quantisation=same, name="joined")
    done = compiled(net.build(net.conv2d(joined, 8, 1, name="last")), "nvdla")
    kinds = [node.kind for node in claimed(done.graph).values()]
    assert kinds == ["nn.conv2d", "clip", "concatenate", "nn.conv2d"]
    assert_exact(done, "host")


@settings(max_examples=8)
@given(
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_padded_averages_run_on_pdp(
    size: tuple[int, int], kernel: tuple[int, int], stride: int, seed: int
) -> None:
    net = GraphBuilder("averages", seed=seed)
    x = net.input((1, *size, 9))
    done = compiled(net.build(net.average_pool2d(x, kernel, stride, "same", name="mean")),
                    "nvdla")  # fmt: skip
    assert [node.kind for node in claimed(done.graph).values()] == ["avg_pool2d"]
    assert_exact(done, "machine")


@pytest.mark.parametrize("width", [64, 65, 200])
def test_pools_that_are_wider_than_the_line_buffer_run_in_parts(width: int) -> None:
    net = GraphBuilder("wide", seed=2)
    x = net.input((1, 6, width, 3))
    most = net.max_pool2d(x, 3, 1, "same", name="most")
    graph = net.build(net.average_pool2d(most, 3, 2, "same", name="mean"))
    done = compiled(graph, "nvdla")
    assert len(claimed(done.graph)) == 2
    assert_exact(done, "host")


def test_conversions_of_layouts_are_named_as_nodes_that_penstock_inserted() -> None:
    net = GraphBuilder("layouts", seed=6)
    x = net.input((1, 6, 5, 8))
    done = compiled(net.build(net.conv2d(x, 16, 3, name="one")), "nvdla")
    found = {one.node.kind: one.reason for one in done.parts.cpu_fallbacks}
    assert {"PackChannels", "UnpackChannels"} & found.keys()
    assert all(reason.startswith("penstock inserted this node") for reason in found.values())


@settings(max_examples=6)
@given(
    channels=st.lists(st.integers(1, 70), min_size=2, max_size=4),
    size=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    config=st.sampled_from(("small", "large")),
    seed=st.integers(0, 99),
)
def test_channels_of_concatenations_are_moved_within_packs(
    channels: list[int], size: tuple[int, int], config: str, seed: int
) -> None:
    net = GraphBuilder("joined", seed=seed)
    x = net.input((1, *size, 3))
    same = Quantisation((0.05,), (-9,))
    parts = [
        net.apply(Relu(Activation.RELU), net.conv2d(x, count, 1), quantisation=same, name=f"p{k}")
        for k, count in enumerate(channels)
    ]
    joined = net.apply(Concatenation(3), *parts, quantisation=same, name="joined")
    done = compiled(net.build(joined), f"nvdla:config={config}")
    assert "concatenate" in [node.kind for node in claimed(done.graph).values()]
    assert_exact(done, "machine")


def test_channels_are_moved_within_packs_in_c() -> None:
    net = GraphBuilder("joined", seed=8)
    x = net.input((1, 5, 4, 3))
    first, second = net.conv2d(x, 11, 1, name="first"), net.conv2d(x, 6, 1, name="second")
    same = Quantisation((0.05,), (-9,))
    parts = [
        net.apply(Relu(Activation.RELU), part, quantisation=same, name=f"{part.name}/clamp")
        for part in (first, second, first)
    ]
    joined = net.apply(Concatenation(3), *parts, quantisation=same, name="joined")
    done = compiled(net.build(joined), "nvdla")
    assert "concatenate" in [node.kind for node in claimed(done.graph).values()]
    assert_exact(done, "host")


@settings(max_examples=6)
@given(
    start=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    step=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    config=st.sampled_from(("small", "large")),
)
def test_slices_of_rows_and_columns_run_on_pdp(
    start: tuple[int, int], step: tuple[int, int], shape: tuple[int, int], config: str
) -> None:
    net = GraphBuilder("slices", seed=5)
    x = net.conv2d(net.input((1, 10, 11, 3)), 9, 3, name="first")
    op = Slice((0, *start, 0), (1, *shape, 9), (1, *step, 1))
    y = net.apply(op, x, quantisation=x.type.quantisation, name="part")
    done = compiled(net.build(net.conv2d(y, 4, 1, name="last")), f"nvdla:config={config}")
    assert [node.kind for node in claimed(done.graph).values()] == [
        "nn.conv2d", "strided_slice", "nn.conv2d",
    ]  # fmt: skip
    assert_exact(done, "machine")


def test_more_padding_than_a_kernel_reaches_over_runs_on_the_core() -> None:
    net = GraphBuilder("padded", seed=5)
    x = net.conv2d(net.input((1, 5, 6, 3)), 9, 1, name="first")
    pad = net.apply(
        Pad((0,) * 4, (0, 2, 1, 0), x.type.zero_point),
        x,
        quantisation=x.type.quantisation,
        name="pad",
    )
    done = compiled(net.build(net.conv2d(pad, 4, 1, name="last")), "nvdla")
    assert [node.kind for node in claimed(done.graph).values()] == ["nn.conv2d"] * 2
    assert_exact(done, "host")


def test_the_end_of_a_classifier_runs_on_nvdla() -> None:
    """A mean of 49 elements, which PDP scales by 1/7 twice, and a layer of shape (1, 1, 1, C)."""
    net = GraphBuilder("classifier", seed=5)
    x = net.conv2d(net.input((1, 7, 7, 3)), 9, 1, name="first")
    mean = net.average_pool2d(x, 7, 1, "valid", name="mean")
    graph = net.build(net.fully_connected(mean, 5, name="logits"))
    done = compiled(graph, "nvdla")
    kinds = [node.kind for node in claimed(done.graph).values()]
    assert kinds == ["nn.conv2d", "avg_pool2d", "nn.dense"]
    assert_exact(done, "host")


@pytest.mark.parametrize(("columns", "channels"), [(64, 3), (45, 3), (61, 5)])
def test_the_channels_of_an_image_are_filled_up_by_the_core(columns: int, channels: int) -> None:
    """Also where rows, and the whole image, are no whole blocks of packs."""
    net = GraphBuilder("image", seed=5)
    x = net.input((1, 9, columns, channels), zero_point=7)
    graph = net.build(net.conv2d(x, 6, 3, 2, name="first"))
    done = compiled(graph, "nvdla:config=large")
    kinds = [node.kind for node in done.graph.nodes if isinstance(node.op, Composite)]
    assert kinds == ["pad", "nn.conv2d"]
    assert_exact(done, "host")


@pytest.mark.parametrize(
    ("shape", "first"),
    [
        ((1, 9, 10, 3), []),
        ((1, 5, 64, 3), []),
        ((1, 96, 96, 3), ["pad"]),
        ((1, 65, 97, 3), ["pad"]),
    ],
)
def test_the_core_fills_channels_only_where_this_takes_fewer_cycles(
    shape: tuple[int, ...], first: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole schedules are compared with those in which the processor fills the channels."""
    net = GraphBuilder("image", seed=5)
    graph = net.build(net.conv2d(net.input(shape), 6, 3, 1, name="first"))
    every = list[int]()
    for late in (0, 1 << 30):
        monkeypatch.setattr(penstock_nvdla, "LATE_CYCLES", late)
        done = compiled(graph, "nvdla:config=large", target="cortex-m4")
        every.append(done.schedule.cost.cycles)
        kinds = [node.kind for node in claimed(done.graph).values()]
        assert kinds[:1] == (first if not late and first else ["nn.conv2d"])
    assert every[0] < every[1] if first else every[0] == every[1]


@pytest.mark.parametrize(("config", "channels"), [("small", 20), ("large", 40), ("large", 64)])
def test_averages_that_pdp_cannot_compute_are_sums_of_the_core(config: str, channels: int) -> None:
    """Windows of 13 rows and 10 columns: PDP's have at most 8, and 130 elements can tie."""
    net = GraphBuilder("average", seed=5)
    x = net.conv2d(net.input((1, 13, 12, 3), zero_point=-9), channels, 1, name="first")
    graph = net.build(net.average_pool2d(x, (13, 10), (13, 1), "valid", name="mean"))
    done = compiled(graph, f"nvdla:config={config}")
    assert [node.kind for node in claimed(done.graph).values()][-2:] == ["nn.conv2d", "avg_pool2d"]
    assert_exact(done, "machine")


@settings(max_examples=12)
@given(
    size=st.tuples(st.integers(5, 12), st.integers(2, 8)),
    kernel=st.integers(1, 7),
    stride=st.integers(2, 4),
    padding=st.sampled_from(("same", "valid")),
    channels=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_columns_that_the_first_layer_strides_over_become_channels(
    size: tuple[int, int], kernel: int, stride: int, padding: Padding, channels: int, seed: int
) -> None:
    net = GraphBuilder("image", seed=seed)
    x = net.input((1, size[0], size[1] * stride, channels), zero_point=seed - 50)
    window = (min(kernel, size[0]), min(kernel, size[1] * stride))
    graph = net.build(net.conv2d(x, 6, window, (1, stride), padding, name="first"))
    done = compiled(graph, "nvdla:config=large")
    (layer,) = (node for node in claimed(done.graph).values() if node.kind == "nn.conv2d")
    main = Offloaded(layer, done.request.accelerators[0].target).main
    saves = -(-stride * channels // 32) < stride
    assert main.inputs[0].shape[2] == size[1] * (1 if saves else stride)
    assert_exact(done, "machine")


def test_elements_beside_nvdla_stay_in_packs() -> None:
    """The processor runs a sigmoid and a maximum on packed tensors; one is a result, too."""
    net = GraphBuilder("gate", seed=5)
    x = net.conv2d(net.input((1, 6, 5, 3), zero_point=7), 37, 3, name="first")
    gate = net.apply(Logistic(), x, quantisation=Quantisation((1 / 256,), (-128,)), name="gate")
    most = net.apply(Maximum(), x, x, quantisation=x.type.quantisation, name="most")
    y = net.conv2d(most, 40, 1, name="last")
    done = compiled(net.build(y, net.conv2d(gate, 4, 1, name="other"), gate), "nvdla:config=large")
    fallbacks = {item.node.kind: item for item in done.parts.cpu_fallbacks}
    every = [value for item in fallbacks.values() if item.node.kind in ("Logistic", "Maximum")
             for value in item.node.inputs]  # fmt: skip
    assert {value.name for value in every} == {"first/packed"}
    assert fallbacks["Logistic"].node.output.shape == (1, 6, 10, 32)
    assert fallbacks["Logistic"].reason == "no pattern of nvdla matches this node"
    kinds = [item.node.kind for item in done.parts.cpu_fallbacks]
    assert kinds.count("UnpackChannels") == 2  # `last` and `gate`; `other` has a single pack
    assert_exact(done, "host")
