"""nvdla: layers of each kind, in the machine and in C; groups in tiles; refusals."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.compiled_partition import disagreements, engine_cycles, main_bytes
from benchmarks.tiled_groups import tiled_groups
from offloading import assert_exact, claimed, compiled
from penstock import api
from penstock.choices import Optimize
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.binary import Mul
from penstock.ops.sums import Mean
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.scheduling.options import BYTES, Options
from penstock_nvdla import operators
from penstock_nvdla.configurations import CONFIGURATIONS
from penstock_nvdla.sdp_constants import Passes, Sums, Unproved, find_passes


def plain(graph: Graph, config: str = "small") -> Compilation:
    """A graph compiled for NVDLA."""
    return compiled(graph, f"nvdla:config={config}")


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Convolutions, depthwise convolutions and pools of odd sizes, then a mean or a dense layer."""
    net = GraphBuilder("net", seed=draw(st.integers(0, 99)))
    size = draw(st.integers(5, 12)), draw(st.integers(5, 12))
    x = net.input((1, *size, draw(st.integers(1, 20))), zero_point=draw(st.integers(-128, 127)))
    for k in range(draw(st.integers(1, 3))):
        kernel = draw(st.sampled_from((1, 2, 3, (3, 1), (2, 3))))
        stride, dilation = draw(st.sampled_from(((1, 1), (2, 1), ((1, 2), 1), (1, 2))))
        padding = draw(st.sampled_from(("same", "valid")))
        activation = draw(st.sampled_from(("none", "relu", "relu6")))
        if min(x.type.shape[1:3]) < 6:
            kernel, dilation = 1, 1
        match draw(st.sampled_from(("conv", "conv", "depthwise", "max", "average", "add"))):
            case "conv":
                x = net.conv2d(x, draw(st.integers(1, 40)), kernel, stride, padding, activation,
                               dilation, name=f"conv{k}")  # fmt: skip
            case "depthwise":
                x = net.depthwise_conv2d(
                    x, kernel, stride, padding, activation, dilation, name=f"depthwise{k}"
                )
            case "add":
                near = net.max_pool2d(x, 2, 1, "same", name=f"near{k}")
                x = net.add(near, x, activation, name=f"add{k}")
            case "max":
                x = net.max_pool2d(x, kernel, stride, padding, name=f"max{k}")
            case _:
                x = net.average_pool2d(x, kernel, stride, padding, name=f"average{k}")
    if draw(st.booleans()):
        flat = net.reshape(x, (1, -1))
        return net.build(net.fully_connected(flat, draw(st.integers(1, 12)), name="dense"))
    mean = Mean((1, 2))
    scale = Quantisation((x.type.scale,), (x.type.zero_point,))
    return net.build(net.apply(mean, x, quantisation=scale, name="mean"))


@settings(max_examples=6)
@given(graph=networks(), config=st.sampled_from(sorted(CONFIGURATIONS)))
def test_any_network_runs_bit_exactly_in_the_machine(graph: Graph, config: str) -> None:
    assert_exact(plain(graph, config), "machine")


def every_kind() -> Graph:
    """A layer of each kind that NVDLA's own units run, with outputs on both sides of zero."""
    net = GraphBuilder("kinds", seed=5)
    x = net.input((1, 9, 10, 3))
    x = net.conv2d(x, 20, 3, name="both")
    x = net.add(net.max_pool2d(x, 3, 1, "same", name="near"), x, name="sum")
    x = net.depthwise_conv2d(x, 3, activation="relu", name="depthwise")
    x = net.max_pool2d(x, 3, 2, "same", name="max")
    x = net.average_pool2d(x, 2, 1, "valid", name="average")
    return net.build(net.fully_connected(net.reshape(x, (1, -1)), 5, name="dense"))


@pytest.mark.parametrize("config", ["small", "large"])
def test_every_kind_of_layer_runs_bit_exactly_in_c(config: str) -> None:
    done = plain(every_kind(), config)
    assert [node.kind for node in claimed(done.graph).values()] == [
        *("nn.conv2d", "max_pool2d", "add", "nn.depthwise_conv2d", "max_pool2d", "avg_pool2d"),
        "nn.dense",
    ]
    assert_exact(done, "host")


def test_groups_live_in_the_memory_at_the_second_port_of_large() -> None:
    found: dict[str, tuple[int, int]] = {}
    for partition in ("layer", "best"):
        request = api.request(
            "zoo:resnet8:resolution=16",
            "host",
            accelerators=("nvdla:config=large,cvsram=32KiB",),
            options=Options(partition=partition),
            optimize="speed",
        )
        done = compile_request(request)
        found[partition] = engine_cycles(done.schedule), main_bytes(done.schedule)
        assert not [*disagreements(done, *found[partition])]
    assert found["best"][0] < found["layer"][0]
    assert found["best"][1] < found["layer"][1] / 2


def test_groups_in_tiles_are_exact_in_c_and_cost_what_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers of two passes keep the second in the group's workspace; inputs of concatenations share
    packs; padding divides the averages of a tile."""

    def without_y(sums: Sums, *, in_y: bool) -> Passes | Unproved:
        return find_passes(sums)

    monkeypatch.setattr(operators, "find_passes", without_y)
    net = GraphBuilder("tiles", seed=5)
    x = net.input((1, 20, 18, 3))
    x = net.conv2d(x, 40, 3, name="both")
    near = net.average_pool2d(x, 3, 1, "same", name="near")
    deep = net.depthwise_conv2d(net.add(near, x, name="sum"), 3, name="depthwise")
    flat = net.conv2d(deep, 20, 1, activation="relu", name="flat")
    x = net.concatenate((flat, near, net.leaky_relu(flat, name="slope")), 3, name="concatenated")
    graph = net.build(net.max_pool2d(net.conv2d(x, 8, 3, 2, name="last"), 2, 1, name="max"))
    request = api.request(
        graph,
        "host",
        accelerators=("nvdla:config=large,cvsram=12KiB",),
        options=Options(partition="best", objective=BYTES),
        optimize="speed",
    )
    done = compile_request(request)
    layers = [layer for group, _ in tiled_groups(done) for layer in group.layers]
    tasks = [task for layer in layers for task, _ in layer.tasks]
    assert any(len(task.passes) == 2 for task in tasks)
    assert any(task.lead for task in tasks)
    stated = engine_cycles(done.schedule), main_bytes(done.schedule)
    assert not [*disagreements(done, *stated)]
    assert_exact(done, "host")


def test_cascades_run_on_it() -> None:
    """Stripes through rings, whose rows are copied by SDP alone where they wrap around."""
    net = GraphBuilder("chain", seed=2)
    x = net.input((1, 24, 8, 3))
    for k in range(3):
        x = net.conv2d(x, 8, 3, activation=("none", "relu")[k % 2], name=f"conv{k}")
    graph = net.build(net.max_pool2d(x, 2, name="pool"))
    done = compiled(graph, "nvdla", optimize=Optimize.SIZE)
    assert any(len(plan.parts) > 2 for plan in done.schedule.plans)
    assert_exact(done, "machine")


def reasons(graph: Graph, config: str = "small") -> dict[str, str]:
    """By node that the CPU runs, except conversions of layouts, the reason."""
    left = plain(graph, config).parts.cpu_fallbacks
    return {one.node.name: one.reason for one in left if "Channels" not in one.node.kind}


def test_what_the_units_cannot_compute_exactly_is_refused_with_the_reason() -> None:
    net = GraphBuilder("left", seed=1)
    x = net.input((1, 8, 8, 8))
    a = net.conv2d(x, 8, 3, name="a")
    product = net.apply(Mul(), a, x, quantisation=Quantisation((0.1,), (3,)), name="product")
    doubled = net.depthwise_conv2d(product, 3, multiplier=2, name="doubled")
    found = reasons(net.build(doubled))
    assert set(found) == {"product", "doubled"}
    assert "no exact form of this operator" in found["product"]
    assert "must have one output per channel" in found["doubled"]


def nothing(_: Mapping[str, int], moved: int = 0) -> None:
    """No sum is proved."""


def test_sums_run_in_unit_y_of_large_if_the_other_units_are_not_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "find_sum", nothing)
    small, large = plain(every_kind(), "small"), plain(every_kind(), "large")
    kinds = [[node.kind for node in claimed(done.graph).values()] for done in (small, large)]
    assert [each.count("add") for each in kinds] == [0, 1]
    assert_exact(large, "host")
    every = (one for plan in large.schedule.plans for one in plan.breakdowns)
    moved = sum(one.memory_bytes for one in every if one is not None)
    assert not list(disagreements(large, engine_cycles(large.schedule), int(moved)))


def test_a_sum_without_proved_constants_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "find_sum", nothing)
    net = GraphBuilder("sums", seed=1)
    x = net.input((1, 8, 8, 8))
    alone = net.add(net.max_pool2d(x, 1, name="y"), x, name="alone")
    behind = net.add(net.conv2d(alone, 8, 3, name="a"), alone, name="behind")
    found = reasons(net.build(behind))
    for name in ("alone", "behind"):
        assert "no constants were found that are proved" in found[name]
