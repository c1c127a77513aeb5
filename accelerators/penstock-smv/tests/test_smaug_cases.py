"""Cases of SMAUG's tiles: correct ones agree, changed ones are detected."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from benchmarks import cases
from case_files import changed
from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "smaug_small.json"
SHARED = beside.CASES / "smaug_tiling.json"


def test_the_cases_worked_out_on_paper_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL)]) == 0
    assert capsys.readouterr().out == "cases: 6 of 6 agree\n6 of 6 agree\n"


@beside.need(SHARED)
def test_the_shared_cases_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SHARED)]) == 0
    assert "11 of 11 agree" in capsys.readouterr().out


CHANGES = (
    (("cases", 0, "expect", "input_tile", 1), 3, "input_tile is [1, 2, 8, 8], expected"),
    (("cases", 0, "expect_tiles", "input", "row_ranges", 1), [2, 4], "row_ranges"),
    (("cases", 1, "expect_tiles", "output", "runs", 0, "count"), 2, "output tiles: runs"),
    (("cases", 1, "expect_tiles", "input", "grid", "H"), 5, "grid is {'H': 4, 'C': 1}"),
    (("cases", 2, "expect_tiles", "weight", "n"), 3, "weight tiles: n is 2, expected 3"),
    (("cases", 3, "tiling_dims_derived", "output"), "None", "output dims are DimNH"),
    (("cases", 4, "expect_tiles", "weight", "channel_offset_rule"), "(i mod 2)*16", "offset"),
    (("cases", 5, "expect_tiles", "input", "element_offset_rule"), "i*32", "element_offset"),
    (("cases", 5, "spad_bytes"), 8, "no tile fits"),
)


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_a_figure_that_is_changed_is_found(
    place: tuple[str | int, ...],
    value: object,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cases.main([str(changed(SMALL, place, value, tmp_path))]) == 1
    out = capsys.readouterr().out
    assert message in out
    assert f"first that does not: case {place[1]}" in out
    assert "5 of 6 agree" in out


MALFORMED = (
    (("cases",), [], "no list of cases", "cases"),
    (("cases", 0, "input"), [1, 8, 0, 8], "greater than", "case 0, input, 2"),
    (("cases", 0, "input"), [8, 8], "is not described as its kind", "case 0"),
    (("cases", 0, "padding"), "full", "is not described as its kind", "case 0"),
    (("cases", 0, "expect", "bias_tile"), [1], "no tensor bias", "case 0"),
    (("cases", 0, "expect", "input_bank"), [1], "what input_bank says", "case 0"),
    (("cases", 0, "expect_tiles", "input", "banks"), 1, "what banks says", "case 0"),
    (("cases", 5, "expect_tiles", "input", "element_offset_rule"), "i ** 2", "is none such", "5"),
    (("cases", 2, "op"), "convolution", "is not described as its kind", "case 2"),
)


@pytest.mark.parametrize(("place", "value", "what", "where"), MALFORMED)
def test_a_malformed_case_is_named(
    place: tuple[str | int, ...], value: object, what: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        cases.main([str(changed(SMALL, place, value, tmp_path))])
    assert where in caught.value.where
    assert str(tmp_path) in caught.value.where
