"""report.json is the only result: what is read back from it is shown as the compilation is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from small_compilation import COMMAND

import penstock
from penstock import api
from penstock.errors import UsageError
from penstock.reports.codec import decoded
from penstock.reports.frontier import FrontierReport
from penstock.reports.html import render_frontier, render_html
from penstock.reports.layer_table import LayerSelection, LayerTable, code_table, constant_lines
from penstock.reports.report import Report
from penstock.reports.summary import summary
from penstock.reports.tables import choice_table, ladder_table
from penstock.simulators.calling import ExecutionCounts
from toy_accelerator import toy_request

MODELS = Path(__file__).parents[2] / "models"
CASES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "whole layers": ("zoo:lenet5", "host", {}),
    "constant channels": (str(MODELS / "padded_branches.tflite"), "cortex-m33", {}),
    "cascades": ("zoo:resnet8", "cortex-m4", {"sram": 30000, "optimize": "balanced"}),
    "bands": (str(MODELS / "inverted_bottleneck.tflite"), "cortex-m4", {"optimize": "size"}),
    "streamed": (
        "zoo:mobilenet_v1:alpha=0.25,resolution=32",
        "cortex-m4",
        {"stream_input": True, "optimize": "size"},
    ),
    "states": (str(MODELS / "streaming.tflite"), "stm32f407", {}),
    "several memories": ("zoo:lenet5", "two-region", {"optimize": "speed"}),
    "odd name": ("zoo:lenet5", "rp2040", {"name": "quite_odd", "stack": 2048}),
}


def shown(renderable: RenderableType) -> str:
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def everything(report: Report) -> tuple[object, ...]:
    """All that is shown of a report: pages, summaries, tables, JSON."""
    listed = LayerSelection(bands=True, verbose=True)
    return (
        render_html(report),
        *(shown(summary(report, verbose=verbose)) for verbose in (False, True)),
        shown(LayerTable(report.model_layers, report.clock_hz)),
        shown(LayerTable(report.model_layers, report.clock_hz, listed)),
        shown(ladder_table(report.verified)),
        shown(code_table(report.functions, report.flash_bytes.code)),
        *map(str, constant_lines(report.model_layers)),
        json.dumps(report.as_json()),
    )


def assert_complete(report: Report, path: Path) -> None:
    path.write_text(report.text(), "utf-8")
    read = penstock.read_report(path).report
    assert read == report
    assert everything(read) == everything(report)


@pytest.mark.parametrize("case", CASES)
def test_a_report_that_is_read_back_shows_the_same(case: str, tmp_path: Path) -> None:
    model, target, settings = CASES[case]
    done = api.compile(model, target, **settings)
    done.write(tmp_path / "out")
    read = penstock.read_report(tmp_path / "out")
    assert read.report == done.report
    assert everything(read.report) == everything(done.report)
    assert read.page() == (tmp_path / "out" / "report.html").read_bytes()
    assert read._repr_html_() == done._repr_html_()
    assert penstock.compare(read, done).layers == ()


def test_so_does_a_frontier() -> None:
    explored = api.explore("zoo:lenet5", "cortex-m4").choices
    read = decoded(FrontierReport, json.loads(json.dumps(explored.as_json())))
    assert read == explored
    assert render_frontier(read) == render_frontier(explored)
    assert shown(choice_table(read, COMMAND)) == shown(choice_table(explored, COMMAND))
    assert (read.as_json(), read.as_csv()) == (explored.as_json(), explored.as_csv())


def test_so_does_one_with_engines_and_simulated_figures(tmp_path: Path) -> None:
    done = api.compile(toy_request("zoo:lenet5", "cortex-m4"))
    counts = [
        None if step.offloaded else ExecutionCounts(cycles=1000 + k, instructions=k)
        for k, step in enumerate(done.layers)
    ]
    assert done.report.engines
    assert_complete(done.report.with_counts(counts), tmp_path / "profile.json")


def test_so_does_one_that_was_run_and_verified(tmp_path: Path) -> None:
    verified = api.verify("zoo:lenet5", "host", compiler="gcc", last_rung="machine")
    assert verified.report.verified
    assert_complete(verified.report, tmp_path / "verified.json")
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    ran = api.profile("zoo:lenet5", "cortex-m4")
    assert ran.report.functions
    assert all(layer.simulated_cycles for layer in ran.report.model_layers)
    assert_complete(ran.report, tmp_path / "profile.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"timelines": 7}, "\"Report.timelines\" is '7', must be a list"),
        ({"ram_bytes": {}}, '"Report.ram_bytes.total" is missing'),
        ({"clock_hz": "fast"}, "\"Report.clock_hz\" is 'fast', must be int"),
        ({"numbers_assumed": 1}, "\"Report.numbers_assumed\" is '1', must be bool"),
        ({"free_bytes": []}, "\"Report.free_bytes\" is '[]', must be an object"),
        ({"layers": []}, 'a record of "model_layers" does not name steps of "layers"'),
        (
            {"engine_times": {"spans": [["cpu"]], "call_cycles": []}},
            '"Report.engine_times.spans[0]" is "[\'cpu\']", must be an object',
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused(
    change: Mapping[str, Any], why: str, tmp_path: Path
) -> None:
    found = {**api.compile("zoo:lenet5", "host").as_json(), **change}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(found), "utf-8")
    with pytest.raises(UsageError, match="this is not a report") as raised:
        penstock.read_report(path)
    assert raised.value.why == why
