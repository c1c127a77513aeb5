"""The comparison with recorded results accepts only equal and better results."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import beside
from available import SHARED
from benchmarks.shared import REPOSITORY, Shared
from benchmarks.unchanged import (
    CORES,
    TWELVE,
    Case,
    Comparison,
    Result,
    cases,
    check_environment,
    main,
    measure,
    read_results,
    report,
    save,
    selected,
)
from penstock.errors import ModelError, ToolError, UsageError

CASE = Case("hello_world_int8", "cortex-m4")
RECORDED = Result(
    {"RAM": 100, "flash": 50, "counted cycles": None, "estimated cycles": 10_000},
    ((80, 20, 5), (100, 10, 5)),
)
RECORDED_RESULTS = REPOSITORY / "benchmarks" / "recorded_results.json"


def compared(now: Result) -> Comparison:
    return Comparison(CASE, RECORDED, now)


@pytest.mark.parametrize(
    "now",
    [
        RECORDED,
        replace(RECORDED, figures=RECORDED.figures | {"RAM": 99}),
        replace(RECORDED, figures=RECORDED.figures | {"counted cycles": 7}),
        replace(RECORDED, frontier=((80, 9, 5),)),
        replace(RECORDED, frontier=((70, 30, 5), *RECORDED.frontier)),
        replace(RECORDED, frontier=((80, 19, 6), (100, 10, 5))),
        replace(RECORDED, figures=RECORDED.figures | {"estimated cycles": 10_009}),
    ],
)
def test_equal_and_better_results_pass(now: Result) -> None:
    assert not compared(now).worse
    assert report([compared(now)]) == 0


@pytest.mark.parametrize(
    "now",
    [
        replace(RECORDED, figures=RECORDED.figures | {"flash": 51}),
        replace(RECORDED, figures=RECORDED.figures | {"flash": None}),
        replace(RECORDED, figures={"RAM": 100}),
        replace(RECORDED, frontier=RECORDED.frontier[:1]),
        replace(RECORDED, frontier=((80, 21, 5), (100, 10, 5))),
        replace(RECORDED, figures=RECORDED.figures | {"estimated cycles": 10_010}),
        replace(RECORDED, frontier=((81, 20, 5), (100, 10, 5))),
        Result({}, (), "capacity-001"),
    ],
)
def test_a_figure_that_grew_or_a_lost_point_fails(now: Result) -> None:
    assert compared(now).worse
    assert report([compared(now)]) == 1


def test_a_comparison_of_nothing_fails() -> None:
    assert report([]) == 1


def test_saved_results_are_read_back_and_other_cases_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "results.json", replace(CASE, target="cortex-m55")
    save(path, {other.key: Result({}, (), "capacity-001"), CASE.key: RECORDED})
    save(path, {CASE.key: replace(RECORDED, frontier=())})
    found = read_results(path)
    assert list(found) == [CASE.key, other.key]
    assert found[CASE.key] == replace(RECORDED, frontier=())
    assert found[other.key].error == "capacity-001"


def test_an_unreadable_file_and_an_unknown_network_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read_results(tmp_path / "none.json")
    with pytest.raises(UsageError, match="nothing_such"):
        selected("nothing_such")


def test_another_interpreter_needs_an_environment_without_pythonpath(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    check_environment(sys.executable)
    with pytest.raises(UsageError, match="PYTHONPATH"):
        check_environment("/elsewhere/python")
    monkeypatch.delenv("PYTHONPATH")
    check_environment("/elsewhere/python")


def test_a_missing_tool_is_an_error_and_no_result(tmp_path: Path) -> None:
    (tmp_path / "hello_world_int8.tflite").touch()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'error[tool-025]: there is no simulator' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(ToolError, match="hello_world_int8 on cortex-m4: no result") as caught:
        measure(CASE, Shared(tmp_path), str(python))
    assert "there is no simulator" in caught.value.why


def test_a_missing_folder_of_models_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="folder of shared models"):
        main(["--save", str(tmp_path / "f"), "--models", str(tmp_path / "none")])


def test_the_committed_file_records_every_case() -> None:
    recorded = read_results(RECORDED_RESULTS)
    assert list(recorded) == [case.key for case in cases()]
    assert len(recorded) == len(TWELVE) * len(CORES) + 6
    assert [key for key, row in recorded.items() if row.error] == []


def test_a_small_network_gives_the_recorded_results() -> None:
    beside.needed(SHARED)
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    found = measure(CASE, Shared(SHARED), sys.executable)
    assert not Comparison(CASE, read_results(RECORDED_RESULTS)[CASE.key], found).worse
    assert json.loads(RECORDED_RESULTS.read_text("utf-8"))[CASE.key]["error"] is None
