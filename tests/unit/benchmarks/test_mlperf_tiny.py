"""MLPerf Tiny: the committed figures are those of the present code."""

from __future__ import annotations

import json
from dataclasses import asdict

import beside
from benchmarks.mlperf_tiny import BOARDS, TASKS, measured
from benchmarks.shared import DEFAULT_MODELS, REPOSITORY


def test_the_committed_figures_of_anomaly_detection_are_up_to_date() -> None:
    beside.needed(DEFAULT_MODELS)
    committed = json.loads((REPOSITORY / "benchmarks" / "mlperf_tiny.json").read_text())
    assert [(row["task"], row["board"]) for row in committed] == [
        (task.name, board.name) for task in TASKS for board in BOARDS
    ]
    assert committed[0] == asdict(measured(TASKS[0], BOARDS[0], DEFAULT_MODELS))
