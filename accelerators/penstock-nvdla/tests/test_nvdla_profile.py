"""nvdla's profile: what limits a layer of each kind, by hand; on the terminal, in JSON and HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from offloading import compiled, layer_by_layer
from penstock import api
from penstock.errors import ToolError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Value
from penstock.pipeline.request import Request
from penstock.reports.layer import Step
from penstock.reports.layer_table import LayerTable
from penstock.reports.steps import layers
from penstock_nvdla import Nvdla
from penstock_nvdla.configurations import SMALL
from penstock_nvdla.dataflow import stripe_cycles, task_cycles
from penstock_nvdla.extension import WindowKind
from penstock_nvdla.task import Task

Build = Callable[[GraphBuilder, Value], Value]
IMAGE = (1, 8, 8, 16)
CASES: dict[str, tuple[str, tuple[int, ...], Build, dict[str, float], float | None]] = {
    "conv2d": (
        "small", IMAGE, lambda net, x: net.conv2d(x, 24, 3, name="y"),
        {
            "multipliers": 64 * 9 * 2 * 3,  # points, taps, blocks of channels, groups of kernels
            "post-processing": 64 * 24,
            "memory": (1024 + 24 * 9 * 16 + 12 * 24 + 64 * 24) / 8,
            "latency": 50,
        },
        64 * 24 * 9 * 16 / (64 * (50 + 3456)),
    ),
    "pointwise conv2d": (
        "small", (1, 8, 8, 8), lambda net, x: net.conv2d(x, 8, 1, name="y"),
        {
            "multipliers": 64,
            "post-processing": 64 * 8,
            "memory": (512 + 64 + 12 * 8 + 512) / 8,
            "latency": 50,
        },
        64 * 8 * 8 / (64 * (50 + 512)),
    ),
    "dense": (
        "large", (1, 512), lambda net, x: net.fully_connected(x, 512, name="y"),
        {
            "multipliers": 16 * 8 * 16,  # the least stripe, blocks of 64, groups of 32
            "post-processing": 512 / 16,
            "memory": (512 + 512 * 512 + 12 * 512 + 512) / 64,
            "latency": 1200,
        },
        512 * 512 / (2048 * (1200 + 4208)),
    ),
    "depthwise": (
        "small", IMAGE, lambda net, x: net.depthwise_conv2d(x, 3, name="y"),
        {"windows": 64 * 16 * 9, "memory": (1024 + 144 + 12 * 16 + 1024) / 8, "latency": 50},
        None,
    ),
    "pool": (
        "large", (1, 8, 8, 32), lambda net, x: net.max_pool2d(x, 2, 2, name="y"),
        {"windows": 16 * 32 * 4 / 8, "memory": (2048 + 512) / 64, "latency": 1200},
        None,
    ),
    "add": (
        "small", IMAGE, lambda net, x: net.add(net.max_pool2d(x, 1, 1, name="p"), x, name="y"),
        {"windows": 64 * 16, "memory": 3 * 1024 / 8, "latency": 50},
        None,
    ),
}  # fmt: skip
LIMITS = {
    "conv2d": "multipliers",
    "pointwise conv2d": "post-processing",
    "dense": "memory",
    "depthwise": "windows",
    "pool": "latency",
    "add": "windows",
}


CUT = Task(SMALL.extended(0, 0), None, 64, 64, 64, 62, 62, 8, 3, 3)
"""More rows than the convolution buffer of `small` has room for."""


def last_offloaded(build: Build, shape: tuple[int, ...], config: str) -> Step:
    """The last layer that the accelerator runs."""
    net = GraphBuilder("net")
    graph = net.build(build(net, net.input(shape)))
    done = layer_by_layer(compiled(graph, f"nvdla:config={config},feature_buffer=0"))
    return [layer for layer in layers(done.schedule, done.program) if layer.offloaded][-1]


@pytest.mark.parametrize("case", CASES)
def test_the_demand_of_a_layer_equals_a_manual_calculation(case: str) -> None:
    config, shape, build, by_resource, utilisation = CASES[case]
    layer = last_offloaded(build, shape, config)
    found = layer.breakdown
    assert found is not None
    assert dict(found.by_resource) == by_resource
    *others, latency = by_resource.values()
    assert found.cycles == latency + max(others)
    assert layer.cycles == round(found.cycles)
    assert layer.limit == LIMITS[case]
    assert layer.utilisation == (utilisation and pytest.approx(utilisation))


def test_a_split_layer_takes_the_cycles_of_its_pieces() -> None:
    """Of 32 banks, weights take 2, a row takes one: pieces read 30 rows, of which two are kept.
    The points of each pass by in stripes of their own."""
    layer = last_offloaded(
        lambda net, x: net.conv2d(x, 8, 3, padding="valid", name="y"), (1, 64, 64, 64), "small"
    )
    assert layer.breakdown is not None
    found = layer.breakdown.by_resource
    assert found["multipliers"] == 9 * 8 * sum(stripe_cycles(62 * rows) for rows in (28, 28, 6))
    assert found["latency"] == 3 * 50
    assert sum(layer.traffic.values()) / 8 == found["memory"]
    assert layer.breakdown.cycles == found["multipliers"] + 3 * 50


def test_stripes_are_counted_amid_the_image() -> None:
    """A row of the output reads three rows of the input there, two at its top."""
    pool = replace(CUT, window=WindowKind.LARGEST, out_c=64, pad_top=1, out_h=64)
    assert [pool.layers_with_traffic(row, row + 1)[0][1].features for row in (0, 1, 63)] == [
        rows * 64 * 64 for rows in (2, 3, 2)
    ]
    (row,) = pool.layers_with_traffic(1, 2)
    assert task_cycles(pool, 1).by_resource["memory"] == row[1].total / 8


def test_stripes_add_up() -> None:
    """What the schedule counts, rounded call by call, is what the calls need together."""
    chip = load_target("host")
    nvdla = Nvdla().accelerator({"feature_buffer": "0"}, chip)
    done = api.compile(Request("zoo:resnet8", chip, sram_bytes=14_500, accelerators=(nvdla,)))
    offloaded = [layer for layer in done.layers if layer.offloaded]
    assert any(layer.calls > 1 for layer in offloaded)
    for layer in offloaded:
        assert layer.breakdown is not None
        assert abs(layer.breakdown.cycles - layer.cycles) <= layer.calls / 2
        layers_of_calls = layer.breakdown.by_resource["latency"] / 50
        assert layers_of_calls == round(layers_of_calls) >= layer.calls


def profiled(target: str, *, offload: bool = True, simulate: bool = True) -> api.Ran:
    chip = load_target(target)
    nvdla = (Nvdla().accelerator({}, chip),) if offload else ()
    return api.profile(Request("zoo:lenet5", chip, accelerators=nvdla), simulate=simulate)


def shown(done: api.Ran) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(LayerTable(done.report.model_layers))
    return capture.get()


def test_a_target_without_a_core_shows_the_model() -> None:
    done = profiled("host")
    assert (done.outputs, done.steps) == ((), ())
    assert done.unmeasured == "target host has no simulated core"
    (first,) = (line for line in shown(done).splitlines() if "nn.conv2d" in line and " 1 " in line)
    layer = done.compiled.layers[1]
    assert layer.limit is not None
    assert layer.utilisation is not None
    assert first.split()[-4:-1] == [layer.limit, f"{100 * layer.utilisation:.1f}", "%"]
    assert done.layer_rows()[1]["limited_by"] == layer.limit  # pyright: ignore
    assert b'"limit":"' in dict(done.compiled.bundle().files)["report.html"]


def test_without_breakdowns_there_is_no_such_column() -> None:
    done = profiled("host", offload=False)
    assert "limited" not in shown(done)
    assert b'"limit":"' not in dict(done.compiled.bundle().files)["report.html"]


@pytest.mark.parametrize("offload", [True, False])
def test_missing_tools_are_an_error_unless_simulation_is_disabled(
    offload: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ToolError("tool-001", "no compiler")

    monkeypatch.setattr("penstock.execution.firmware", missing)
    with pytest.raises(ToolError):
        profiled("cortex-m4", offload=offload)
    done = profiled("cortex-m4", offload=offload, simulate=False)
    assert (done.steps, done.unmeasured) == ((), "as asked for")
    assert done.as_json()["unmeasured"] == "as asked for"
    assert done.report == replace(done.compiled.report, unmeasured=done.unmeasured)
