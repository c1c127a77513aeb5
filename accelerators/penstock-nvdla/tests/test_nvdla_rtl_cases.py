"""Cycles of NVIDIA's RTL: the model is within a tenth of them, and a changed file is detected."""

from __future__ import annotations

from pathlib import Path

import pytest

import beside
from benchmarks import cases
from benchmarks.case_file import read_document
from benchmarks.nvdla_rtl_cases import compared
from case_files import changed
from penstock.errors import ModelError
from penstock_nvdla.configurations import LARGE, SMALL
from penstock_nvdla.timing import PoolAxis, pooling_timing, sdp_timing, stripes

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL_FILE = REPOSITORY / "tests" / "cases" / "nvdla_rtl_small.json"
SHARED = beside.CASES / "nvdla_rtl_cycles.json"
MEASURED = REPOSITORY / "benchmarks" / "nvdla_rtl.json"
LAYER = ("rtl_cycles", 0)


def test_layers_of_each_kind_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL_FILE)]) == 0
    printed = capsys.readouterr().out
    assert "cycles of 3 layers, 3 within 10%" in printed
    assert "within 5%: 3 of 3 (100.0%)" in printed
    assert "memories of zoo:lenet5, small: " in printed


@beside.need(SHARED)
def test_the_shared_layers_agree_and_so_do_the_sums_of_networks() -> None:
    assert cases.main([str(SHARED)]) == 0
    layers = compared(read_document(SHARED), "shared")
    assert sum(layer.agrees for layer in layers) == len(layers) == 132
    networks = {layer.group.split(", ")[1] for layer in layers}
    assert networks == {"trace", "resnet8", "lenet5", "tc_resnet8"}
    for network in networks:
        own = [layer for layer in layers if layer.group.split(", ")[1] == network]
        total = sum(layer.model for layer in own) / sum(layer.rtl for layer in own)
        assert total == pytest.approx(1, abs=0.03)


def test_less_than_nine_tenths_of_the_layers_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(SMALL_FILE, (*LAYER, "rtl_cycles"), 400, tmp_path)
    assert cases.main([str(path)]) == 1
    assert "2 within 10%" in capsys.readouterr().out


def test_a_memory_that_the_rtl_left_otherwise_is_detected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless the compiler makes another stream now."""
    path = changed(SMALL_FILE, ("rtl_streams", 0, "calls", 2, "memory"), "00000000", tmp_path)
    code = cases.main([str(path)])
    printed = capsys.readouterr().out
    assert code == 1 or "streams have changed" in printed


def test_measured_layers_of_five_networks_agree() -> None:
    layers = compared(read_document(MEASURED), "measured")
    assert sum(layer.agrees for layer in layers) >= 0.95 * len(layers)
    total = sum(layer.model for layer in layers) / sum(layer.rtl for layer in layers)
    assert total == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("place", "value"),
    [((*LAYER, "kind"), "cdp"), ((*LAYER, "geometry", "input"), [1]), (("rtl_cycles",), [])],
)
def test_a_malformed_file_is_an_error(
    place: tuple[str | int, ...], value: object, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        cases.main([str(changed(SMALL_FILE, place, value, tmp_path))])
    assert caught.value.code == "bench-022"


def test_stripes_are_those_of_the_sequence_generator() -> None:
    assert stripes(16, SMALL) == (16,)
    assert stripes(31, SMALL) == (8, 8, 15)
    assert stripes(32, SMALL) == (16, 16)
    assert stripes(129, LARGE) == (64, 32, 33)
    assert all(sum(stripes(n, SMALL)) == n for n in range(1, 200))


def test_late_memory_limits_a_read_engine() -> None:
    """`small` has 8 packs outstanding, `large` 256 beats in all."""
    late = sdp_timing(SMALL, 1000, 1, through_y=False)[0]
    assert late == 50 + 62 + 1000 * 8
    assert sdp_timing(LARGE, 1000, 1, through_y=False)[0] == 1200 + 62 + 3 * 1214 + 232 * 2


def test_results_in_the_padding_behind_follow_the_last_row() -> None:
    plain = PoolAxis(8, 2, 1, 0, 0)
    padded = PoolAxis(8, 2, 1, 0, 1)
    assert padded.flushed == 1
    assert padded.bubble == 0
    more = pooling_timing(SMALL, 8, padded, padded)[0] - pooling_timing(SMALL, 8, plain, plain)[0]
    assert more == 8 * (8 + 1)  # a row of 8 points, and a point
