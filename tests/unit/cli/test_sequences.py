"""`penstock run` runs a sequence: a file with the run as its first axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from penstock.frontends.open import parse
from penstock.simulators.graph import run_sequences
from tools.stateful_network import draw_stateful

MODELS = Path(__file__).resolve().parents[2] / "models"
RAW = draw_stateful(4, 1)
RUNS = 5


@pytest.fixture
def elements() -> np.ndarray:
    """A sequence of inputs."""
    (x,) = parse(RAW, "m.tflite").inputs
    return np.random.default_rng(1).integers(-128, 128, (RUNS, *x.type.shape)).astype(np.int8)


def test_a_sequence_carries_state_from_run_to_run(
    penstock: CommandLine, elements: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "m.tflite").write_bytes(RAW)
    np.save(tmp_path / "x.npy", elements)
    penstock(
        *("run", tmp_path / "m.tflite", "--target", "host"),
        *("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"),
    )
    graph = parse(RAW, "m.tflite")
    (x,), (y,) = graph.inputs, graph.outputs
    expected = run_sequences(graph, [{x.name: run} for run in elements], RUNS)
    found = np.load(tmp_path / "y.npy")
    assert found.tolist() == [values[y.name].tolist() for values in expected]


def test_a_single_run_begins_with_the_initial_state(
    penstock: CommandLine, elements: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "m.tflite").write_bytes(RAW)
    np.save(tmp_path / "x.npy", elements[0])
    penstock(
        *("run", tmp_path / "m.tflite", "--target", "host"),
        *("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"),
    )
    graph = parse(RAW, "m.tflite")
    (x,), (y,) = graph.inputs, graph.outputs
    (expected,) = run_sequences(graph, [{x.name: elements[0]}], 1)
    assert np.load(tmp_path / "y.npy").tolist() == expected[y.name].tolist()


def test_compile_writes_all_files_of_a_stateful_network(
    penstock: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "m.tflite").write_bytes(RAW)
    penstock("compile", tmp_path / "m.tflite", "--target", "cortex-m4", "-o", tmp_path / "out")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {".c", ".h", ".html", ".json"}


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.int8(3), ""),
        (np.zeros((0, 1, 16), np.int8), "the sequence is empty"),
        (np.zeros((1, 16), np.float32), "the compiled network takes int8 elements q; real = 0.05"),
    ],
)
def test_an_input_that_is_no_sequence_is_refused(
    penstock: CommandLine, array: np.ndarray, why: str
) -> None:
    np.save("x.npy", array)
    said = penstock("run", MODELS / "svdf.tflite", "--input", "x.npy", "--target", "host")
    assert said.code == 1
    wanted = "must be int8[1,16], or int8[runs,1,16] for a sequence"
    assert said.err.startswith("error[input-003]: the array is ")
    assert wanted in said.err.splitlines()[0]
    assert why in said.err
