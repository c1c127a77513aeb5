"""NVDLA's tests, run on the functional model: a correct one agrees, a changed one is detected."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from benchmarks import nvdla_traces
from penstock.errors import ModelError

CONFIG = """\
mem_init(pri_mem, 0x80000400, 0x8, ALL_ZERO);
mem_load(pri_mem, 0x80000400, "features.dat");
mem_load(pri_mem, 0x90000000, "weights.dat");
reg_write(NVDLA_SDP.D_DP_EW_CFG_0, 0x2b);
reg_write(NVDLA_SDP.D_DST_BASE_ADDR_LOW_0, 0xa0000000);
reg_write(NVDLA_SDP.D_DST_LINE_STRIDE_0, 0x8);
reg_write(NVDLA_SDP.D_DST_SURFACE_STRIDE_0, 0x8);
reg_write(NVDLA_SDP.D_FEATURE_MODE_CFG_0, 0x1);
reg_write(NVDLA_SDP.D_CVT_SCALE_0, 0x1);
reg_write(NVDLA_CDMA.D_DAIN_ADDR_LOW_0_0, 0x80000400);
reg_write(NVDLA_CDMA.D_WEIGHT_ADDR_LOW_0, 0x90000000);
reg_write(NVDLA_CDMA.D_DATAIN_SIZE_1_0, 0x7);
reg_write(NVDLA_CDMA.D_LINE_STRIDE_0, 0x8);
reg_write(NVDLA_CDMA.D_SURF_STRIDE_0, 0x8);
reg_write(NVDLA_CDMA.D_WEIGHT_BYTES_0, 0x80);
reg_write(NVDLA_CDMA.D_CYA_0, 0xaaaadb06);
"""
FEATURES = "{offset:0x0, size:4, payload:0x01 0x02 0x03 0x04},{offset:0x4, size:2, payload:0xff 5}"
WEIGHTS = "{offset:0x0, size:8, payload:0x1 0x1 0x1 0x1 0x2 0x3 0x7 0x7}"
ANSWER = bytes([1 + 2 + 3 + 4 - 2 + 15, 0, 0, 0, 0, 0, 0, 0])


def trace(folder: Path, crc: int | None = None) -> Path:
    """A folder with one test, of one point of eight channels and one kernel."""
    home = folder / "nv_small" / "dc_1x1x8"
    home.mkdir(parents=True)
    crc = zlib.crc32(ANSWER) if crc is None else crc
    check = f"check_crc(sync_id_0, 1, 0xa0000000, 0x8, {crc:#x});\n" if crc else ""
    (home / "dc_1x1x8.cfg").write_text(CONFIG + check)
    (home / "features.dat").write_text(FEATURES)
    (home / "weights.dat").write_text(WEIGHTS)
    return folder


def test_a_test_worked_out_on_paper_agrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nvdla_traces.main([str(trace(tmp_path))]) == 0
    assert capsys.readouterr().out == "small dc_1x1x8: agrees\n1 of 1 agree\n"


def test_another_answer_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nvdla_traces.main([str(trace(tmp_path, crc=1))]) == 1
    assert capsys.readouterr().out == "small dc_1x1x8: DIFFERS\n0 of 1 agree\n"


def test_traces_without_tests_or_crcs_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no tests of direct convolution"):
        nvdla_traces.main([str(tmp_path)])
    with pytest.raises(ModelError, match="gives no CRC"):
        nvdla_traces.main([str(trace(tmp_path, crc=0))])
