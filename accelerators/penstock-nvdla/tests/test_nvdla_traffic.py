"""nvdla's traffic: the stated traffic of layers equals the counts of the functional model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import offloading
from available import SMALL_VWW, path_of
from penstock import api
from penstock.errors import PenstockError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.region import Region
from penstock.ops.concatenation import Concatenation
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.program.steps import steps
from penstock.reports.steps import layers
from penstock.scheduling.options import DEFAULTS, RESIDENT, Options
from penstock.simulators.machine import Machine
from penstock_nvdla import model, programs
from penstock_nvdla.configurations import CONFIGURATIONS, SMALL
from penstock_nvdla.extension import ElementwiseMode, Post, WindowKind, WindowLayer
from penstock_nvdla.layer import (
    NOWHERE,
    Accumulators,
    ConvolutionLayer,
    NvdlaMemory,
    Reuse,
)
from penstock_nvdla.model import execute
from penstock_nvdla.stream import to_bytes
from penstock_nvdla.task import LayerTraffic, Task, packed_bytes, traffic_of

LAYER = ConvolutionLayer(
    SMALL, 10, 9, 12, 20, 3, 3, replace(NOWHERE, line_stride=80), replace(NOWHERE, line_stride=64),
    Accumulators(0, 0), data_banks=4, weight_banks=4, release=9,
)  # fmt: skip
"""In: two packs of channels; out: 8 x 7 points, three packs; weights: 2160 bytes of 2176."""


def test_a_convolution_moves_whole_packs_and_entries_of_weights() -> None:
    expected = LayerTraffic(9 * 10 * 16, 2160, 0, 0, 7 * 8 * 24)
    assert traffic_of(LAYER, Post(), 8) == expected
    assert expected.total == 1440 + 2160 + 1344
    with_table = replace(expected, table=20 * 12)
    assert traffic_of(LAYER, Post(requantise=True), 8) == with_table


def test_data_in_the_buffer_is_not_read_again() -> None:
    kept = replace(LAYER, kept_rows=2)
    assert traffic_of(kept, Post(), 8).features == 7 * 10 * 16
    reused = replace(LAYER, reuse=Reuse(data=True, weights=True))
    assert traffic_of(reused, Post(), 8) == LayerTraffic(output=7 * 8 * 24)


def test_windows_fetch_each_element_once() -> None:
    pool = WindowLayer(WindowKind.MEAN, 8, 6, 12, 3, 3, NOWHERE, NOWHERE)
    assert traffic_of(pool, Post(), 8) == LayerTraffic(features=6 * 8 * 16, output=4 * 6 * 16)
    depthwise = replace(pool, kind=WindowKind.DEPTHWISE, channel_multiplier=2)
    assert traffic_of(depthwise, Post(requantise=True), 8) == LayerTraffic(
        6 * 8 * 16, 9 * 24, 24 * 12, 0, 4 * 6 * 24
    )
    sum_of_two = Post(elementwise=ElementwiseMode.ADD)
    assert traffic_of(pool, sum_of_two, 8).second == 4 * 6 * 16
    with_constant = traffic_of(pool, replace(sum_of_two, by_channel=True), 8)
    assert (with_constant.second, with_constant.table) == (0, 12)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Layers of any kind, small ones and those that the buffer of `small` has no room for."""
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    dilation, window = [1, 1], draw(st.sampled_from((*WindowKind, None)))
    if window in (WindowKind.DEPTHWISE, None):
        dilation = [draw(st.integers(1, 2)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [[draw(st.integers(0, r - 1)) for r in reach] for _ in range(2)]
    size = [draw(st.integers(1, n)) for n in (60, 40)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    spans = [s + a + b - r for s, a, b, r in zip(size, *pads, reach, strict=True)]
    assume(min(spans) >= 0)
    out = [span // s + 1 for span, s in zip(spans, stride, strict=True)]
    in_c, multiplier = draw(st.integers(1, 100)), 1
    if window is WindowKind.DEPTHWISE:
        multiplier = draw(st.integers(1, 2))
    out_c = draw(st.integers(1, 70)) if window is None else in_c * multiplier
    elementwise = draw(st.sampled_from(ElementwiseMode))
    post = Post(
        requantise=window in (WindowKind.DEPTHWISE, None) or draw(st.booleans()),
        elementwise=elementwise,
        by_channel=bool(window is not None and elementwise and draw(st.booleans())),
    )
    return Task(
        draw(st.sampled_from(sorted(CONFIGURATIONS.values(), key=lambda c: c.name))).extended(0, 0),
        window,
        size[1], size[0], in_c, out[1], out[0], out_c,
        kernel[1], kernel[0], stride[1], stride[0], dilation[1], dilation[0],
        pads[0][1], pads[0][0], 0, multiplier, post,
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(task=tasks(), data=st.data())
def test_stripes_move_the_stated_bytes(task: Task, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, task.out_h - 1))
    end = data.draw(st.integers(first + 1, task.out_h))
    lines = task.in_row_bytes, task.out_row_bytes, task.out_row_bytes
    try:
        stream = to_bytes(write for layer in task.layers(first, end, *lines) for write in layer)
    except PenstockError:  # a window in the padding alone, or no room for a row
        assume(False)
    memory = {NvdlaMemory.MAIN: np.zeros(1 << 20, np.uint8)}
    found = execute(stream, memory, task.hardware)
    assert found == tuple(moved for _, moved in task.layers_with_traffic(first, end))


def test_a_layer_that_is_cut_fetches_rows_once_and_weights_where_they_do_not_stay() -> None:
    tall = Task(
        SMALL.extended(0, 0), None, 64, 64, 64, 62, 62, 8, 3, 3
    )  # 256 KiB, the buffer has 128
    moved = [traffic for _, traffic in tall.layers_with_traffic(0, 62)]
    assert len(moved) > 1
    assert sum(traffic.features for traffic in moved) == 64 * 64 * 64
    assert [traffic.weights for traffic in moved] == [8 * 9 * 64, *[0] * (len(moved) - 1)]
    deep = replace(tall, out_c=256)  # 144 KiB of weights
    moved = [traffic for _, traffic in deep.layers_with_traffic(0, 62)]
    assert [traffic.weights for traffic in moved] == [256 * 9 * 64] * len(moved)


def compiled(
    network: str, attrs: str, sram: int | None = None, options: Options = DEFAULTS
) -> Compilation:
    accelerators = (f"nvdla:{attrs}",)
    return compile_request(
        api.request(
            path_of(network),
            "host",
            sram=sram,
            accelerators=accelerators,
            options=options,
            optimize="speed",
        )
    )


def executed(
    done: Compilation, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, Sequence[Mapping[str, int]]]:
    """By tensor, what each call that computed rows of it moved, as the functional model counts."""
    pending: list[Counter[str]] = []
    found: dict[str, list[Mapping[str, int]]] = {}

    def counted(*arguments: Any) -> None:
        every: Counter[str] = Counter()
        for layer in execute(*arguments):
            every.update(asdict(layer))
        pending.append(every)

    def trace(tensor: str, _: Region, __: Any) -> None:
        found.setdefault(tensor, []).extend(pending)
        pending.clear()

    monkeypatch.setattr(programs, "execute", counted)
    (inputs,) = api.drawn_sets(done, 1)
    Machine(done.program, trace).run(inputs)
    return found


def total(calls: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """All of some calls, together."""
    every: Counter[str] = Counter()
    for call in calls:
        every.update(call)
    return dict(every)


@pytest.mark.parametrize("config", CONFIGURATIONS)
@pytest.mark.parametrize(
    "network",
    [
        "zoo:resnet8",
        SMALL_VWW,
        "pretrainedResnet_quant",
        "vww_96_int8",
        pytest.param("mobilenetv2_160_035", marks=pytest.mark.long),
    ],
)
def test_a_network_s_profile_equals_the_traffic_of_its_streams(
    network: str, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = compiled(network, f"config={config}")
    found = executed(done, monkeypatch)
    offloaded = [layer for layer in layers(done.schedule, done.program) if layer.offloaded]
    assert len(offloaded) > 10
    chip = CONFIGURATIONS[config].extended(0, 0)
    ports = {"memory": chip.memory, "feature buffer": chip.buffer_port}
    for layer in offloaded:
        assert layer.traffic == total(found[layer.name]), layer.name
        assert layer.moved_bytes == sum(layer.traffic.values())
        assert layer.breakdown is not None
        needs = layer.breakdown.by_resource
        through = {name: needs.get(name, 0) * port.bytes_per_cycle for name, port in ports.items()}
        assert sum(through.values()) == layer.moved_bytes
    assert any("feature buffer" in layer.breakdown.by_resource for layer in offloaded
               if layer.breakdown)  # fmt: skip


def test_the_feature_buffer_s_port_serves_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the surfaces that the functional model is given, all layers together."""
    options = Options(partition=RESIDENT)
    done = compiled("zoo:resnet8", "config=small,feature_buffer=24k", options=options)
    touched = 0

    def counting(function: Callable[..., Any], place: int) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            nonlocal touched
            surface, tensor = arguments[place : place + 2]
            rows, columns, channels = tensor if isinstance(tensor, tuple) else tensor.shape
            if surface.memory is NvdlaMemory.FEATURE_BUFFER:
                touched += packed_bytes(rows, columns, channels, 8)
            return function(*arguments)

        return counted

    monkeypatch.setattr(model, "unpack_features", counting(model.unpack_features, 1))
    monkeypatch.setattr(model, "pack_features", counting(model.pack_features, 1))
    executed(done, monkeypatch)
    needs = [layer.breakdown for layer in layers(done.schedule, done.program)]
    through = sum(need.by_resource.get("feature buffer", 0) for need in needs if need)
    assert touched == 8 * through > 0


def test_a_concatenation_moves_every_input_once_in_and_once_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = GraphBuilder("net")
    x = net.input((1, 4, 5, 8))
    last = net.max_pool2d(x, 1, 1, name="last")
    joined = net.apply(Concatenation(3), x, last, x, quantisation=x.type.quantisation)
    done = offloading.compiled(net.build(joined), "nvdla:feature_buffer=0")
    found = executed(done, monkeypatch)
    (layer,) = (one for one in layers(done.schedule, done.program) if one.kind == "concatenate")
    assert layer.traffic == total(found[layer.name])
    assert (layer.traffic["features"], layer.traffic["output"]) == (3 * 160, 3 * 160)
    assert layer.breakdown is not None
    assert layer.breakdown.by_resource == {"windows": 480, "memory": 120, "latency": 150}


def test_stripes_in_rings_move_no_less_and_where_they_lie_evenly_just_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = compiled("zoo:resnet8", "feature_buffer=0", 14_500)
    found = executed(done, monkeypatch)
    assert {step.output.tensor for step in steps(done.program)} >= set(found)
    striped = [
        layer
        for layer in layers(done.schedule, done.program)
        if layer.offloaded and layer.calls > 1
    ]
    assert striped
    moved = {layer.name: sum(total(found[layer.name]).values()) for layer in striped}
    assert all(moved[layer.name] >= layer.moved_bytes for layer in striped)
    assert any(moved[layer.name] == layer.moved_bytes for layer in striped)
