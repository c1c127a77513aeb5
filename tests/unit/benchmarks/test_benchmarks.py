"""Benchmarks parse the tables of other projects and fit figures."""

from __future__ import annotations

import doctest
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import (
    case_file,
    engine_figures,
    entry,
    grouped_networks,
    kernel_figures,
    markdown_table,
    numbers,
    peers,
    size,
)
from benchmarks.executed import executed
from benchmarks.markdown_table import column_of, markdown_tables
from benchmarks.peers import Peers, read_peers
from benchmarks.shared import Shared, find_shared
from penstock.errors import ModelError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph

BOUNDS = """
# Bounds
Some words | with a bar.

| model | layer by layer | best living peer | **row bound, F = 1.00** | row bound, input streamed |
| --- | --: | --- | --: | --: |
| MLPerf kws | 16,000 | Vela 16,000; TFLM 22,820 (plan 16,000) | **8,640** | 8,640 |
| MobileNetV2 0.35 144 | 311,040 | (0.35 160: Vela 144,640) | **64,800** | 33,280 |
| mobilenetv2_160_035 (trained) | 384,000 | - | **79,680** | 33,280 |

| model | other |
|---|---|
| a | 1 |
"""
README = """
| model | what |
|---|---|
| kws_ref_model | keywords |

| model | peak live, file order (B) |
|---|---|
| kws_ref_model | 16,000 |
| broken |
"""
CMSIS = """
{"runs": {"gcc-m4-O3": {"kws_ref_model": {"total": {"cycles": 9546051.0, "instr": 7840574}}}}}
"""


@pytest.mark.parametrize(
    "module",
    [
        case_file,
        engine_figures,
        entry,
        grouped_networks,
        kernel_figures,
        markdown_table,
        peers,
        size,
    ],
)
def test_examples_in_the_text_of_benchmarks_are_right(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_tables_are_told_apart_by_their_headers() -> None:
    assert [len(table.rows) for table in markdown_tables(BOUNDS)] == [3, 1]
    assert column_of(BOUNDS, "model", "other") == {"a": "1"}
    assert column_of(BOUNDS, "model", "no such column") == {}


def test_peers_are_gathered_from_all_files_that_are_there(tmp_path: Path) -> None:
    shared = Shared(tmp_path / "models")
    shared.models.mkdir()
    assert read_peers(shared) == {}
    shared.facts.mkdir()
    (shared.models / "README.md").write_text(README)
    (shared.facts / "memory-bounds.md").write_text(BOUNDS)
    (shared.facts / "cmsis-nn-baseline.json").write_text(CMSIS)
    found = read_peers(shared)
    assert found["kws_ref_model"] == Peers(
        peak_live_bytes=16_000,
        row_bound_bytes=8_640,
        row_bound_streamed_bytes=8_640,
        vela_bytes=16_000,
        cmsis_nn_gcc_cycles=9_546_051,
        cmsis_nn_gcc_instructions=7_840_574,
    )
    assert found["mobilenetv2_160_035"].row_bound_bytes == 79_680
    assert found["rand_mobilenet_v2_0.35_144_int8"].vela_bytes is None


def test_a_missing_shared_folder_is_a_four_part_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        numbers.main(["--models", str(tmp_path / "nowhere")])
    error = caught.value
    assert error.exit_code == 1
    assert str(tmp_path / "nowhere") in error.where
    assert "no part of penstock" in error.why
    assert "--models" in error.help


def test_a_model_that_the_shared_folder_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model 'nothing'"):
        find_shared(tmp_path).named(["nothing.tflite"])


def test_the_fit_is_the_best_that_has_no_negative_figure() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        work, cycles = rng.normal(size=(12, 3)), rng.normal(size=12)
        x = engine_figures.fitted(work, cycles)
        slope = work.T @ (work @ x - cycles)
        assert x.min() >= 0
        assert slope.min() > -1e-9  # no figure can grow and improve
        assert np.abs(slope * x).max() < 1e-9  # none that is not zero can change and improve


def test_files_and_calls_between_them_are_counted() -> None:
    files, edges = executed(lambda: graph_of_chain().macs())
    called = {(Path(caller).name, Path(callee).name) for caller, callee in edges}
    assert {"builder.py", "graph.py", "convolutions.py"} <= {Path(file).name for file in files}
    assert ("graph.py", "convolutions.py") in called or ("node.py", "convolutions.py") in called
    assert all(caller != callee for caller, callee in called)


def graph_of_chain() -> Graph:
    net = GraphBuilder("chain")
    return net.build(net.conv2d(net.input((1, 8, 8, 3)), 4, 3))
