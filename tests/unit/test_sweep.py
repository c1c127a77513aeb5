"""Sweeps over configurations of an accelerator, by the API and by the benchmark."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from benchmarks import smaug_sweep
from penstock import api
from penstock.api.explored import Axes
from penstock.errors import UsageError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.tensor import Quantisation
from penstock.ops.row_vectors import LogSoftmax
from penstock.scheduling.options import Options
from penstock.uma import Offloaded
from penstock_smv import Smv
from penstock_smv.tiling import tiling_of

WHOLE = Options(max_parts=1, max_stripe=1)
SIZES = ("input_bytes", "weights_bytes", "output_bytes")


def network() -> Graph:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 12, 12, 16)), 16, 3, name="conv")
    y = net.fully_connected(x, 10, name="dense")
    scale = Quantisation((16 / 256,), (127,))
    return net.build(net.apply(LogSoftmax(), y, quantisation=scale, name="scores"))


def test_a_sweep_covers_every_combination_in_order() -> None:
    found = api.sweep(
        network(),
        "host",
        accelerator="smv:tiler=smaug",
        axes={SIZES: [4096, 32768], "double_buffering": [False, True]},
        options=WHOLE,
    )
    swept = [
        (c.attributes["input_bytes"], c.attributes["double_buffering"])
        for c in found.configurations
    ]
    assert swept == [(4096, False), (4096, True), (32768, False), (32768, True)]
    assert all(len({c.attributes[name] for name in SIZES}) == 1 for c in found.configurations)
    assert {c.cpu_fallbacks[-1] for c in found.configurations} == {"scores"}
    header = found.as_csv().splitlines()[0].split(",")
    assert len(set(header)) == len(header)
    assert {"input_bytes", "moved_input_bytes", "busy_engine_cycles"} <= set(header)
    lines = list(csv.DictReader(io.StringIO(found.as_csv())))
    for line, one in zip(lines, found.configurations, strict=True):
        assert int(line["input_bytes"]) == one.attributes["input_bytes"]
        assert int(line["moved_input_bytes"]) == one.moved_bytes["input"]
    assert [int(line["cycles"]) for line in lines] == [c.cycles for c in found.configurations]
    moved = [int(line["traffic_bytes"]) for line in lines]
    assert moved == [c.traffic_bytes for c in found.configurations]


def test_traffic_is_that_of_the_tiles_and_latency_that_of_the_resources() -> None:
    """A single layer in a single call: its tiling says what is copied."""
    net = GraphBuilder("single")
    graph = net.build(net.conv2d(net.input((1, 12, 12, 16)), 16, 3))
    axes: Axes = {SIZES: [2048, 16384], "bytes_per_cycle": [2, 16]}
    found = api.sweep(graph, "host", accelerator="smv", axes=axes, options=WHOLE)
    for one in found.configurations:
        (node,) = Smv().partition(graph, one.attributes, load_target("host")).nodes
        target = Smv().accelerator(one.attributes, load_target("host")).target
        tiling = tiling_of(Offloaded(node, target))
        assert one.traffic_bytes == tiling.bytes
        by_role = {moved.operand.role: 0 for moved in tiling.moved}
        for moved in tiling.moved:
            by_role[moved.operand.role] += moved.bytes
        assert one.moved_bytes == by_role
        assert one.cycles == round(sum(one.busy_cycles.values()))
        assert one.accelerator_cycles == one.cycles
    slow, fast = found.configurations[2:]
    assert slow.busy_cycles["engine"] == fast.busy_cycles["engine"]
    assert slow.busy_cycles["copies"] > fast.busy_cycles["copies"]


def test_layers_that_do_not_fit_are_reported_as_fallbacks() -> None:
    axes = {"weights_bytes": [64, 32768]}
    small, large = api.sweep(
        network(), "host", accelerator="smv", axes=axes, options=WHOLE
    ).configurations
    assert small.cpu_fallbacks == ("conv", "dense", "scores")
    assert (small.accelerator_cycles, small.traffic_bytes) == (0, 0)
    assert large.cpu_fallbacks == ("scores",)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"tiler": []}, "has no values"),
        ({"input_bytes": [1], SIZES: [2]}, 'two axes set the attribute "input_bytes"'),
        ({"banks": [1]}, "banks"),
    ],
)
def test_a_wrong_axis_is_an_error(axes: Axes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        api.sweep(network(), "host", accelerator="smv", axes=axes)


def test_an_accelerator_is_named_once() -> None:
    with pytest.raises(UsageError, match="the setting `accelerators` is given"):
        api.sweep(network(), "host", accelerator="smv", axes={}, accelerators=["smv"])


def test_the_benchmark_prints_a_table_and_draws_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "sweep.svg"
    assert smaug_sweep.main([str(picture), "--network", "vgg", "--quick"]) == 0
    out = capsys.readouterr().out
    assert out.count("a quarter of VGG16 conv 5 on smv") == 1
    assert [out.count(moved) for moved in ("2,439,424", "2,693,376", "896,768")] == [2, 2, 4]
    assert b"2 bytes/cycle, 4 lanes" in picture.read_bytes()
    nowhere = api.SweptConfiguration(
        {**dict.fromkeys(SIZES, 64), "bytes_per_cycle": 8, "processing_elements": 8},
        9, 0, {}, {}, 0, ("conv5",),
    )  # fmt: skip
    assert smaug_sweep.table("vgg", api.Swept("smv", (nowhere,))).row_count == 1
    assert picture.read_bytes().count(b"<path") > 8
