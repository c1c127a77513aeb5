"""`penstock compare`: figures that differ, those that are worse, and files that are no reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as package
from command_line import CommandLine
from penstock.errors import UsageError

LAYER = {"name": "conv", "kernel": "conv2d_s8", "calls": 1, "macs": 9, "cycles": 40}
REPORT: dict[str, Any] = {
    "schema": "penstock-report-1",
    "model": "kws",
    "target": "cortex-m4",
    "version": "0.1.0",
    "command": "penstock compile kws.tflite --target cortex-m4",
    "optimize": "balanced",
    "ram_bytes": {"total": 3000, "arena": 1976, "static": 0, "stack": 1024},
    "flash_bytes": {"total": 500, "weights": 400, "code": 100},
    "cycles": {"estimated": 70, "simulated": 80},
    "cascades": [{"layers": 2, "rows": 1, "calls": 7}],
    "layers": [LAYER, {**LAYER, "name": "pool"}],
}


def _write(name: str, **changes: Any) -> str:
    Path(name).write_text(json.dumps({**REPORT, **changes}), "utf-8")
    return name


def test_equal_reports(penstock: CommandLine) -> None:
    said = penstock("compare", _write("a.json"), _write("b.json"), "--fail-if-worse", "--json")
    assert said.code == 0
    assert said.json["facts"] == {}
    assert said.json["layers"] == []
    assert said.json["worse"] == []
    assert penstock("compare", "a.json", "b.json").out.endswith("nothing is worse\n")


def test_flash_with_and_without_code_is_not_compared(penstock: CommandLine) -> None:
    without = {"flash_bytes": {"total": 400, "weights": 400, "code": None}}
    text = penstock("compare", _write("a.json"), _write("b.json", **without)).out
    (row,) = (line for line in text.splitlines() if "flash_bytes.total" in line)
    assert "one without code" in row
    assert "%" not in row


@pytest.mark.parametrize(
    ("changes", "worse"),
    [
        ({"ram_bytes": {**REPORT["ram_bytes"], "total": 3001}}, ["ram_bytes.total"]),
        ({"ram_bytes": {**REPORT["ram_bytes"], "arena": 1977}}, []),
        ({"ram_bytes": {**REPORT["ram_bytes"], "total": 2999}}, []),
        ({"flash_bytes": {"total": 501, "weights": 400, "code": 101}}, ["flash_bytes.total"]),
        ({"flash_bytes": {"total": 400, "weights": 400, "code": None}}, []),
        ({"flash_bytes": {"total": 401, "weights": 401, "code": None}}, ["flash_bytes.weights"]),
        ({"cycles": {"estimated": 70, "simulated": 81}}, ["cycles.simulated"]),
        ({"cycles": {"estimated": 71, "simulated": 80}}, []),
        ({"cycles": {"estimated": 71, "simulated": None}}, ["cycles.estimated"]),
        ({"outputs": {"y": [1]}}, []),
    ],
)
def test_only_totals_that_grow_are_worse(
    penstock: CommandLine, changes: dict[str, Any], worse: list[str]
) -> None:
    words = ("compare", _write("a.json"), _write("b.json", **changes), "--fail-if-worse")
    said = penstock(*words, "--json")
    assert said.json["worse"] == worse
    assert said.code == (1 if worse else 0)
    assert penstock(*words).code == said.code
    assert penstock(*words[:3]).code == 0


def test_outputs_that_differ_are_worse(penstock: CommandLine) -> None:
    before, after = _write("a.json", outputs={"y": [1]}), _write("b.json", outputs={"y": [2]})
    assert penstock("compare", before, after, "--json").json["same_outputs"] is False
    said = penstock("compare", before, after, "--fail-if-worse")
    assert said.code == 1
    assert said.out.endswith("outputs: differ\nworse: outputs\n")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"optimize": "size", "command": "penstock compile kws.tflite --sram 9"}, "goals"),
        ({"target": "cortex-m7", "model": "vww"}, "models and targets"),
        ({"command": "penstock compile kws.tflite --no-bands"}, "options"),
    ],
)
def test_requests_that_differ_come_first(
    penstock: CommandLine, changes: dict[str, Any], named: str
) -> None:
    out = penstock("compare", _write("a.json"), _write("b.json", **changes)).out
    assert out.startswith(f"these reports have different {named}:\n")
    first = out.partition("ram_bytes.total")[0]
    assert all(f"  after   {text}\n" in first for text in changes.values())


def test_an_update_is_no_other_request(penstock: CommandLine) -> None:
    changes = {"version": "0.2.0", "commit": "1234567", "cascades": []}
    out = penstock("compare", _write("a.json"), _write("b.json", **changes)).out
    assert "different" not in out
    assert "after   0.2.0" in out.partition("ram_bytes.total")[2]


def test_a_report_that_does_not_state_its_command_is_no_other_request(
    penstock: CommandLine,
) -> None:
    before = _write("a.json", command="", commit=None)
    out = penstock("compare", before, _write("b.json", commit="1234567")).out
    assert "different" not in out
    assert "command\n  before  not stated by this report\n  after   penstock compile" in out
    assert "commit\n  before  not stated by this report\n  after   1234567\n" in out
    assert penstock("compare", "a.json", "b.json", "--json").json["facts"]["commit"] == {
        "before": None,
        "after": "1234567",
    }


def test_layers_and_facts_that_differ(penstock: CommandLine) -> None:
    bands = {**LAYER, "name": "conv", "kernel": "conv2d_s8_dsp", "cycles": 11}
    layers = [bands, bands, {**LAYER, "name": "added"}]
    after = _write("b.json", layers=layers, optimize="size", cascades=[])
    found = penstock("compare", _write("a.json"), after, "--json").json
    assert found["facts"] == {
        "goal": {"before": "balanced", "after": "size"},
        "cascades": {"before": "2×1 (7 calls)", "after": ""},
    }
    named = {layer["name"]: layer for layer in found["layers"]}
    assert named["conv"]["before"]["cycles"] == 40
    assert (named["conv"]["after"]["cycles"], named["conv"]["after"]["calls"]) == (22, 2)
    assert named["pool"]["after"] is None
    assert named["added"]["before"] is None
    out = penstock("compare", "a.json", "b.json").out
    assert "conv2d_s8 -> conv2d_s8_dsp" in out
    assert "-45 %" in out


def test_layers_of_the_model_are_compared_if_both_reports_list_them(penstock: CommandLine) -> None:
    one = {"name": "conv", "kernels": ["conv2d_s8"], "calls": 1, "macs": 9, "cycles": 40}
    columns = {**LAYER, "name": "conv (columns 0 to 3)"}
    before = _write("a.json", model_layers=[one])
    after = _write("b.json", layers=[columns], model_layers=[{**one, "cycles": 44}])
    (layer,) = penstock("compare", before, after, "--json").json["layers"]
    assert (layer["before"]["cycles"], layer["after"]["cycles"]) == (40, 44)
    assert layer["after"]["kernels"] == ["conv2d_s8"]
    names = penstock("compare", _write("old.json"), after, "--json").json["layers"]
    assert [layer["name"] for layer in names] == ["conv", "pool", "conv (columns 0 to 3)"]


def test_directories_that_compile_writes(penstock: CommandLine, model: Path) -> None:
    assert penstock("compile", model, "-o", "fast", "--optimize", "speed").code == 0
    small = penstock("compile", model, "-o", "small", "--optimize", "size", "--json")
    Path("small.json").write_text(small.out, "utf-8")
    found = penstock("compare", "fast", "small.json", "--json").json
    ram = found["figures"]["ram_bytes.total"]
    assert ram["after"] == small.json["ram_bytes"]["total"] <= ram["before"]
    assert found["layers"] is not None
    assert penstock("compare", "small", "small.json", "--json").json["layers"] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", 'the JSON value has no key "schema"'),
        ('{"schema": "other-1"}', "its schema is 'other-1'"),
        (json.dumps({**REPORT, "cycles": {"estimated": "9"}}), "\"cycles.estimated\" is '9'"),
        (json.dumps({**REPORT, "layers": [1]}), '"layers" contains 1'),
        (json.dumps({**REPORT, "cascades": [{}]}), '"cascades.layers" is missing'),
    ],
)
def test_files_that_are_no_reports(penstock: CommandLine, text: str, why: str) -> None:
    Path("other.json").write_text(text, "utf-8")
    said = penstock("compare", _write("a.json"), "other.json")
    assert said.code == 2
    assert why in said.err
    (Path("empty")).mkdir()
    said = penstock("compare", "empty", "a.json")
    assert "the directory contains neither report.json nor profile.json" in said.err


def test_results_are_compared_as_their_files_are(tmp_path: Path) -> None:
    small = package.run("zoo:lenet5", "host", optimize="size")
    (tmp_path / "small.json").write_text(json.dumps(small.recorded()), "utf-8")
    whole = package.compile("zoo:lenet5", "host", optimize="speed")
    whole.write(tmp_path / "whole")
    found = package.compare(small, whole)
    assert found.worse == ("ram_bytes.total", "flash_bytes.total")
    assert found.layers
    files = package.compare(tmp_path / "small.json", str(tmp_path / "whole"))
    assert replace(files, before=found.before, after=found.after) == found
    again = package.compare(tmp_path / "small.json", small)
    assert (again.same_outputs, again.worse, again.layers) == (True, (), ())
    with pytest.raises(UsageError, match="this int has no report"):
        package.compare(small, 7)  # pyright: ignore[reportArgumentType]
