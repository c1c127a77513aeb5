"""Executed cases: stripes of TVM's cascader on programs, and changed cases, which are detected."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from benchmarks import executed_cases
from case_files import changed

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "cascader_small.json"
SHARED = beside.CASES / "tvm_cascader.json"


def test_the_cases_written_by_hand_hold_on_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert executed_cases.main([str(SMALL)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "12 cases: 5 equal, 0 differ, 7 not executed"
    assert lines[1] == "count_stripes case 1: equal: 4 stripes"
    unexecuted = [line for line in lines if ": not executed: " in line]
    assert len(unexecuted) == 7
    assert sum("NHCWB16" in line for line in unexecuted) == 6


@beside.need(SHARED)
def test_the_published_cases_hold_on_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert executed_cases.main([str(SHARED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "27 cases: 24 equal, 0 differ, 3 not executed"
    assert lines[0].startswith("count_stripes case 0: equal: 27 stripes")
    assert lines[1] == "count_stripes case 1: equal: 25 stripes"


@pytest.mark.parametrize(
    ("place", "value", "difference"),
    [
        (("count_stripes", "cases", 0, "expected_counts", 1, "count"), 3, "the machine counts"),
        (("count_stripes", "cases", 1, "expected_counts", 0, "shape"), [2], "the machine counts"),
        (("propagators", "cases", 0, "expected", "offset", 0), -1, "the machine reads"),
        (("op_propagators", "cases", 6, "ifm_transform", 0, 0), 2, "ifm is read in other windows"),
    ],
)
def test_a_changed_case_is_detected(
    place: tuple[str | int, ...],
    value: object,
    difference: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert executed_cases.main([str(changed(SMALL, place, value, tmp_path))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "12 cases: 4 equal, 1 differ, 7 not executed"
    assert sum(difference in line for line in lines) == 1
