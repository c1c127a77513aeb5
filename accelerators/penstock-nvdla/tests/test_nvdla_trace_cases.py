"""Cases of NVDLA's register programs: correct ones agree, changed ones are detected."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from benchmarks import cases
from case_files import changed
from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "nvdla_registers_small.json"
SHARED = beside.CASES / "nvdla_register_traces.json"
CASE = ("cases", 0)


def test_the_case_worked_out_on_paper_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL)]) == 0
    assert capsys.readouterr().out == "cases: 1 of 1 agree\n1 of 1 agree\n"


@beside.need(SHARED)
def test_the_shared_cases_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SHARED)]) == 0
    assert "7 of 7 agree" in capsys.readouterr().out


CHANGES = (
    ((*CASE, "decoded", "in_w"), 13, "in_w is 12, expected 13"),
    ((*CASE, "decoded", "weight_bytes"), 3455, "weight_bytes is 3456, expected 3455"),
    ((*CASE, "decoded", "data_reuse"), 1, "data_reuse is 0, expected 1"),
    ((*CASE, "regs", "NVDLA_CSC", "D_ATOMICS_0"), "0x78", "D_ATOMICS is 0x78, must be 0x77"),
    ((*CASE, "regs", "NVDLA_CDMA", "D_BANK_0"), "0x1f0001", "2 banks for data and 32"),
    ((*CASE, "regs", "NVDLA_CDMA", "D_MISC_CFG_0"), "0x1", "CDMA.D_MISC_CFG is 0x1, must be 0x0"),
    ((*CASE, "config"), "nv_small_256", "CDMA.D_ENTRY_PER_SLICE is 0x17, must be 0x5"),
)


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_changes_are_detected(
    place: tuple[str | int, ...],
    value: object,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cases.main([str(changed(SMALL, place, value, tmp_path))]) == 1
    assert message in capsys.readouterr().out


MALFORMED = (
    ((*CASE, "config"), "nv_tiny", "no configuration 'nv_tiny'"),
    ((*CASE, "decoded", "colour"), 1, "it is not known what colour says"),
    ((*CASE, "regs", "NVDLA_CSC", "D_COLOUR_0"), "0x0", "there is no register CSC.D_COLOUR"),
    ((*CASE, "regs", "NVDLA_CSC", "D_ATOMICS_0"), "many", "must be a word of 32 bits"),
    (("cases",), [], "there is no list of cases"),
)


@pytest.mark.parametrize(("place", "value", "message"), MALFORMED)
def test_a_malformed_file_is_an_error(
    place: tuple[str | int, ...], value: object, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        cases.main([str(changed(SMALL, place, value, tmp_path))])
    assert caught.value.code == "bench-022"
