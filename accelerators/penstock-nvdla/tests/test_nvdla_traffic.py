"""nvdla's traffic: the stated traffic of layers equals the counts of the functional model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from available import SMALL_VWW, path_of
from penstock import api
from penstock.errors import PenstockError
from penstock.ir.tensor import Region
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.program.steps import steps
from penstock.reports.steps import layers
from penstock.scheduling.options import DEFAULTS, Options
from penstock.simulators.machine import Machine
from penstock_nvdla import programs
from penstock_nvdla.configurations import CONFIGURATIONS, SMALL
from penstock_nvdla.layer import (
    NOWHERE,
    Accumulators,
    ConvolutionLayer,
    NvdlaMemory,
    Reuse,
)
from penstock_nvdla.model import execute
from penstock_nvdla.pdp import PoolingMethod
from penstock_nvdla.sdp_constants import PassSettings
from penstock_nvdla.sizes import LayerTraffic, traffic_of_convolution
from penstock_nvdla.stream import Write, to_bytes
from penstock_nvdla.task import OUTPUT_REGISTER, Task

LAYER = ConvolutionLayer(
    SMALL, 10, 9, 12, 20, 3, 3, replace(NOWHERE, line_stride=80), replace(NOWHERE, line_stride=64),
    Accumulators(0, 0), data_banks=4, weight_banks=4, release=9,
)  # fmt: skip
"""In: two packs of channels; out: 8 x 7 points, three packs; weights: 2160 bytes of 2176."""


def test_a_convolution_moves_whole_packs_and_entries_of_weights() -> None:
    expected = LayerTraffic(9 * 10 * 16, 2160, 0, 0, 7 * 8 * 24)
    assert traffic_of_convolution(LAYER, 8) == expected
    assert expected.total == 1440 + 2160 + 1344


def test_data_in_the_buffer_is_not_read_again() -> None:
    kept = replace(LAYER, kept_rows=2)
    assert traffic_of_convolution(kept, 8).features == 7 * 10 * 16
    reused = replace(LAYER, reuse=Reuse(data=True, weights=True))
    assert traffic_of_convolution(reused, 8) == LayerTraffic(output=7 * 8 * 24)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Layers of any kind, small ones and those that the buffer of `small` has no room for."""
    kind = draw(st.sampled_from(("convolution", "depthwise", "pool")))
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    dilation = [1 if kind == "pool" else draw(st.integers(1, 2)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    pads = [[draw(st.integers(0, r - 1)) for r in reach] for _ in range(2)]
    size = [draw(st.integers(1, n)) for n in (60, 40)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    spans = [s + a + b - r for s, a, b, r in zip(size, *pads, reach, strict=True)]
    assume(min(spans) >= 0)
    out = [span // s + 1 for span, s in zip(spans, stride, strict=True)]
    in_c = draw(st.integers(1, 100))
    settings = PassSettings(0, 0, 0, 0, 0, 1, one_sided=False)
    return Task(
        draw(st.sampled_from(sorted(CONFIGURATIONS.values(), key=lambda c: c.name))),
        size[1], size[0], in_c, out[1], out[0],
        draw(st.integers(1, 70)) if kind == "convolution" else in_c,
        kernel[1], kernel[0], stride[1], stride[0], dilation[1], dilation[0],
        pads[0][1], pads[0][0],
        passes=() if kind == "pool" else (settings,) * draw(st.integers(1, 2)),
        by_pack=kind == "depthwise",
        method=PoolingMethod.LARGEST if kind == "pool" else None,
    )  # fmt: skip


def elsewhere(write: Write) -> Write:
    """The write, with outputs behind all that is read."""
    return replace(write, word=write.word + (1 << 20) * (write.register == OUTPUT_REGISTER))


@settings(max_examples=150, deadline=None)
@given(task=tasks(), data=st.data())
def test_stripes_move_the_stated_bytes(task: Task, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, task.out_h - 1))
    end = data.draw(st.integers(first + 1, task.out_h))
    try:
        steps = list(task.even_steps(first, end))
        writes = [write for step in steps for write in step.writes]
    except PenstockError:  # a window in the padding alone, or no room for a row
        assume(False)
    memory = {NvdlaMemory.MAIN: np.zeros(1 << 21, np.uint8)}
    found = execute(to_bytes(map(elsewhere, writes)), memory, task.hardware)
    assert found == tuple(step.traffic for step in steps)


def test_a_layer_that_is_cut_fetches_rows_once_and_weights_where_they_do_not_stay() -> None:
    settings = PassSettings(0, 0, 0, 0, 0, 1, one_sided=False)
    tall = Task(SMALL, 64, 64, 64, 62, 62, 8, 3, 3, passes=(settings,))  # 256 KiB, of 128
    moved = [step.traffic for step in tall.even_steps(0, 62)]
    assert len(moved) > 1
    assert sum(traffic.features for traffic in moved) == 64 * 64 * 64
    assert [traffic.weights for traffic in moved] == [8 * 9 * 64, *[0] * (len(moved) - 1)]
    deep = replace(tall, out_c=256)  # 144 KiB of weights
    moved = [step.traffic for step in deep.even_steps(0, 62)]
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
    for layer in offloaded:
        assert layer.traffic == total(found[layer.name]), layer.name
        assert layer.moved_bytes == sum(layer.traffic.values())
        assert layer.breakdown is not None
    if config == "large":
        assert any("cvsram" in layer.breakdown.by_resource for layer in offloaded
                   if layer.breakdown)  # fmt: skip


def test_stripes_in_rings_move_no_less_and_where_they_lie_evenly_just_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = compiled("zoo:resnet8", "config=small", 18_500)
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
