"""Reports contain the network's shapes, independent of the accelerators' layouts."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from penstock import api
from penstock.reports.layer import model_layers
from penstock.reports.layer_table import LayerTable


@pytest.mark.parametrize(
    ("model", "accelerator"),
    [
        ("zoo:lenet5", "nvdla"),
        ("zoo:resnet8:resolution=16", "nvdla:config=small"),
        ("zoo:resnet8:resolution=16", "ethos_u55:macs=128"),
        ("zoo:resnet8:resolution=16", "smv"),
    ],
)
def test_layers_have_the_shapes_of_the_network(model: str, accelerator: str) -> None:
    if accelerator.startswith("ethos"):
        pytest.importorskip("ethosu.vela", reason="the extra 'ethos-u' is not installed")
    done = api.compile(model, "cortex-m55", accelerators=(accelerator,))
    stored = {part.name: part.output.type for part in done.compilation.schedule.steps}
    blocked = [layer for layer in done.layers if stored[layer.name].layout is not None]
    shapes = {v.type.shape for v in done.compilation.model.variables()}
    shapes |= {(1, 1, 1, shape[1]) for shape in shapes if len(shape) == 2}
    assert bool(blocked) == (accelerator != "smv")
    for layer in blocked:
        assert layer.shape in shapes, layer.name
    changed = any(layer.shape != stored[layer.name].shape for layer in blocked)
    assert changed == bool(blocked)
    for layer in done.layers:
        if layer not in blocked:
            assert layer.shape == stored[layer.name].shape
    assert_shown(done.layers)


def assert_shown(layers: Any) -> None:
    console = Console(width=220)
    with console.capture() as capture:
        console.print(LayerTable(model_layers(layers)))
    for layer in layers:
        assert "×".join(map(str, layer.shape)) in capture.get()
