"""nvdla's profile: what limits each layer; on the terminal, in JSON and HTML."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from penstock import api
from penstock.errors import ToolError
from penstock.hardware.load import load_target
from penstock.pipeline.request import Request
from penstock.reports.layer_table import LayerTable
from penstock_nvdla import Nvdla


def test_stripes_add_up() -> None:
    """What the schedule counts, rounded call by call, is what the calls need together."""
    chip = load_target("host")
    nvdla = Nvdla().accelerator({}, chip)
    done = api.compile(
        Request("zoo:resnet8:resolution=16", chip, sram_bytes=10_240, accelerators=(nvdla,))
    )
    offloaded = [layer for layer in done.layers if layer.offloaded]
    assert any(layer.calls > 1 for layer in offloaded)
    for layer in offloaded:
        assert layer.breakdown is not None
        assert abs(layer.breakdown.cycles - layer.cycles) <= layer.calls / 2


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
