"""The figures committed under benchmarks/ are those of the current code.

Each test recomputes some rows.  Where one fails, run the file's command, see benchmarks/README.md.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import beside
from available import SHARED
from benchmarks import compiled_partition
from benchmarks.figures import TARGET, ZOO, Figures, figures_of, measure
from benchmarks.grouped_networks import CONFIGURATIONS
from benchmarks.record import Record
from benchmarks.shared import REPOSITORY, Shared
from penstock import api
from penstock.program.steps import table_bytes

FOLDER = REPOSITORY / "benchmarks"
DOCS = REPOSITORY / "docs"
STREAMING = REPOSITORY / "tests" / "models" / "streaming.tflite"
WAKE_WORD = SHARED / "str_ww_ref_model.tflite"
NUMBERS: dict[str, Any] = json.loads((FOLDER / "numbers.json").read_text("utf-8"))
COMMITTED: dict[str, dict[str, Any]] = {row["model"]: row for row in NUMBERS["models"]}
MEASURED = ("cycles_simulated", "instructions", "stack_bytes_measured", "flash_bytes")
"""Figures that a toolchain and a simulated core are needed for."""
BESIDE_FIGURES = {"peers", "verified"}
SMALL_ZOO = ("zoo:lenet5", "zoo:resnet8", "zoo:mobilenet_v1:alpha=0.25,resolution=96")
SMALL_SHARED = ("ad01_int8", "kws_ref_model", "vww_96_int8")
GROUPED = "zoo:resnet8"
SIMULATED = "zoo:lenet5"


def as_json(figures: Figures) -> dict[str, Any]:
    """The figures as the file holds them."""
    return json.loads(json.dumps(dataclasses.asdict(figures)))


@pytest.mark.parametrize("model", [*SMALL_ZOO, *SMALL_SHARED])
def test_numbers_are_what_the_compiler_finds_today(model: str) -> None:
    path = model if model.startswith("zoo:") else str(SHARED / f"{model}.tflite")
    if model in SMALL_SHARED:
        beside.needed(Path(path))
    compiled = api.compile(path, TARGET)
    found = as_json(figures_of(model, compiled.report))
    committed = COMMITTED[model]
    assert found.keys() == committed.keys() - BESIDE_FIGURES
    for name in found.keys() - {*MEASURED}:
        assert committed[name] == found[name], f"{name} of {model}"
    # Measured: the C compiler makes code of some small tables of loop bounds.
    stated, tables = found["flash_bytes"]["weights"], table_bytes(compiled.compilation.program)
    assert stated - tables <= committed["flash_bytes"]["weights"] <= stated


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("ziglang", "unicorn")),
    reason="the packages of penstock[simulate] are not installed",
)
def test_numbers_are_what_the_simulated_core_counts_today() -> None:
    found = as_json(measure(SIMULATED))
    for name in MEASURED:
        assert COMMITTED[SIMULATED][name] == found[name], name


def test_numbers_name_every_network() -> None:
    named = COMMITTED.keys() | NUMBERS["unsupported"].keys()
    assert named.issuperset(ZOO)


def test_numbers_name_every_shared_network() -> None:
    beside.needed(SHARED)
    named = COMMITTED.keys() | NUMBERS["unsupported"].keys()
    assert named == {*ZOO, *(path.stem for path in Shared(SHARED).networks())}


def test_compiled_groups_on_nvdla_are_those_of_today(tmp_path: Path) -> None:
    arguments = ("--network", GROUPED, "--record", str(tmp_path / "found.json"))
    assert compiled_partition.main(arguments) == 0
    found = Record(tmp_path / "found.json").rows(compiled_partition.parse)
    committed = Record(FOLDER / "compiled_partition.json").rows(compiled_partition.parse)
    assert len(found) == len(CONFIGURATIONS)
    assert found == {key: committed[key] for key in found}


def test_pages_have_the_recorded_groups_of_nvdla() -> None:
    page, seeds = ((DOCS / name).read_text("utf-8") for name in ("nvdla.md", "seeds.md"))
    for name, found in json.loads((FOLDER / "compiled_partition.json").read_text("utf-8")).items():
        rows = {row["strategy"]: row for row in found["strategies"]}
        cells = [f"{rows[s][key]:,}" for s in ("layer", "best") for key in ("cycles", "main_bytes")]
        network = name.removeprefix("zoo:").removesuffix(", large")
        assert f"| {network} | {' | '.join(cells)} |" in page
        if network == "squeezenet":
            layer, paper, best = (f"{rows[s]['cycles']:,}" for s in ("layer", "paper", "best"))
            ours = f"{layer} layer by layer, {paper} by the paper's method, {best} by `best`"
            assert ours in seeds


@pytest.mark.parametrize(
    ("model", "hop"), [(STREAMING, None), (STREAMING, 2), (WAKE_WORD, None), (WAKE_WORD, 1)]
)
def test_the_guide_states_what_a_run_of_a_hop_costs(model: Path, hop: int | None) -> None:
    if model == WAKE_WORD:
        beside.needed(model)
    report = api.compile(str(model), TARGET, incremental=hop).report
    costs = report.macs.executed, report.cycles.estimated, report.ram_bytes.arena
    row = f"| {hop or 'window'} | {' | '.join(f'{cost:,}' for cost in costs)} |"
    assert row in (DOCS / "how-to" / "run-incrementally.md").read_text("utf-8")
