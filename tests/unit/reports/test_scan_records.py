"""Causes of several models: their names, and how they are counted."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import (
    InternalError,
    MismatchError,
    ModelError,
    PenstockError,
    ToolError,
    UnsupportedError,
)
from penstock.frontends.causes import collected
from penstock.reports.scan import Scanned, Verdict, cause_counts, cause_name, scanned
from penstock.reports.tables import scan_totals


def problem(what: str, cause: str = "") -> UnsupportedError:
    return UnsupportedError("model-020", what, where="m: node 1", cause=cause)


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ('input 1 "dense/bias:0" is computed', "input N is computed"),
        ("scale 0.5 and zero point -3, must be 1/256", "scale N and zero point N, must be N"),
        ("shape [1, 2, 3], must not be empty", "shape [N], must not be empty"),
        ("scale 1.5e-10, must be within [2.3e-10, 4.2)", "scale N, must be within [N)"),
        ("input is int32, must be int8", "input is int32, must be int8"),
        ("CONV_2D: no", "CONV_2D: no"),
    ],
)
def test_a_cause_has_no_names_and_numbers_of_the_model(what: str, name: str) -> None:
    assert cause_name(problem(what)) == name


def test_an_error_names_its_cause() -> None:
    assert cause_name(problem("SVDF: 3 times no", cause="operator SVDF")) == "operator SVDF"


def test_internal_errors_are_told_apart_by_their_place() -> None:
    error = InternalError("internal-001", "KeyError: 3", where="place.py:7")
    assert cause_name(error) == "internal error at place.py:7: KeyError: N"


def stopped(path: str, *causes: str) -> Scanned:
    found = [problem(f"{cause}: no", cause) for cause in causes]
    return scanned(path, (), 3, collected(found) if found else None)


def test_causes_are_counted_once_for_each_model_they_stop() -> None:
    records = (
        stopped("good"),
        stopped("first", "CAST", "CAST", "SQRT"),
        stopped("second", "SQRT"),
        stopped("third", "SQRT", "SQRT"),
    )
    sqrt, cast = cause_counts(records)
    assert (sqrt.cause, sqrt.models) == ("SQRT", ("first", "second", "third"))
    assert sqrt.alone == ("second", "third")
    assert (cast.cause, cast.models, cast.alone) == ("CAST", ("first",), ())
    assert [found.count for found in records[1].obstacles] == [2, 1]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (None, Verdict.COMPILES),
        (ModelError("model-002", "damaged"), Verdict.REFUSED),
        (MismatchError("verify-001", "3 mismatches"), Verdict.DIFFERS),
        (ToolError("tool-045", "no onnxruntime"), Verdict.REFUSED),
        (InternalError("internal-001", "KeyError"), Verdict.INTERNAL),
    ],
)
def test_the_kind_of_the_error_is_the_verdict(
    error: PenstockError | None, verdict: Verdict
) -> None:
    assert scanned("m", (), None, error).verdict is verdict


def test_a_tool_that_is_missing_leaves_a_model_that_compiles_unverified() -> None:
    error = ToolError("tool-001", "no compiler")
    assert scanned("m", (), None, error, compiles=True).verdict is Verdict.UNVERIFIED


def test_a_record_returns_from_another_process_as_it_was() -> None:
    record = stopped("first", "CAST", "SQRT")
    back = pickle.loads(pickle.dumps(record))
    assert back.as_json() == record.as_json()
    assert back.obstacles[0].first.cause == "CAST"


def test_the_totals_count_what_was_left_out_and_copies() -> None:
    records = (
        scanned("a", ("b", "c"), 3, None),
        Scanned("d", (), 1, Verdict.LEFT_OUT),
        stopped("e", "CAST"),
    )
    assert scan_totals(records) == (
        "models: 2; compile: 1; do not compile: 1; left out (--min-operators): 1; "
        "copies, not counted: 2"
    )
