"""Cases of NVDLA's performance sheet: correct figures agree, changed figures are detected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import beside
from benchmarks import cases
from case_files import changed
from penstock.errors import ModelError

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "nvdla_sheet_small.json"
SHARED = beside.CASES
in_shared = beside.need(SHARED)
LAYERS = ("nets", "GoogLeNet", "layers")


def written(document: object, folder: Path) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps(document))
    return path


def test_the_cases_worked_out_on_paper_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL)]) == 0
    assert capsys.readouterr().out == (
        "GoogLeNet: 7 of 7 agree\n"
        "  16940.5 frames per second, by the page of GoogLeNet\n"
        "7 of 7 agree\n"
    )


@in_shared
def test_alexnet_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SHARED / "nvdla_sheet_alexnet.json")]) == 0
    out = capsys.readouterr().out
    assert "AlexNet: 12 of 12 agree\n  1116.8 frames per second, by the page of AlexNet\n" in out


@in_shared
def test_the_frame_rates_of_resnet_are_those_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SHARED / "nvdla_sheet_resnet50_layers.json")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("layers: 7 of 7 agree\n  by the page of ResNet-50\n")
    assert "  64 MACs, 128 KiB, 1 GB/s: 7.3 frames per second\n" in out


@in_shared
def test_a_changed_resnet_is_not_the_one_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((SHARED / "nvdla_sheet_resnet50_layers.json").read_text("utf-8"))
    del document["layers"][3]
    assert cases.main([str(written(document, tmp_path))]) == 1
    assert "frames per second, published 268.8" in capsys.readouterr().out


CHANGES = (
    ((*LAYERS, 0, "cached", "in_kb"), 2, "layer 0 plain: in_kb is 1.0, expected 2.0"),
    ((*LAYERS, 1, "cached", "w_kb"), 16.00000001, "w_kb is 16.0, expected 16.00000001"),
    ((*LAYERS, 1, "wfac"), False, "layer 1 streamed: w_kb is 9.0, expected 16.0; dram_kb is 19.0"),
    ((*LAYERS, 3, "kind"), "conv", "layer 3 added: dram_kb is 3.5, expected 4.5"),
    ((*LAYERS, 4, "cached", "out_kb"), 1, "out_kb is 0.28125, expected 1.0"),
    ((*LAYERS, 5, "cached", "mac_cycles"), 8, "mac_cycles is 16.0, expected 8.0"),
    (("nets", "GoogLeNet", "total_cycles"), 5904, "total: total_cycles is 5903.0"),
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
    assert message in capsys.readouterr().out


MALFORMED = (
    ((*LAYERS, 0, "kind"), "lstm", "must be one of conv, conv \\+ elwise, fc"),
    ((*LAYERS, 0, "C"), 0, "greater than or equal to 1"),
    ((*LAYERS, 0, "cached", "colour"), 1, "it is not known what colour says"),
    ((*LAYERS, 0, "R"), 9, "a kernel of 9x1 does not fit into 8x8"),
    ((*LAYERS, 0, "pool"), [9, 1, 1, 1], "a pool of 9x1 does not fit into 8x8"),
    (("config", "cbuf_kb"), 0.25, "do not fit into a convolution buffer of 0.25 KiB"),
    (("config", "dram_gbps"), 0, "must be a number above 0"),
    (("nets",), {}, "there is no network"),
    (LAYERS, [], "at least 1 item"),
)


@pytest.mark.parametrize(("place", "value", "message"), MALFORMED)
def test_a_malformed_file_is_an_error(
    place: tuple[str | int, ...], value: object, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        cases.main([str(changed(SMALL, place, value, tmp_path))])
    assert caught.value.code == "bench-022"
    assert str(tmp_path) in caught.value.where


def test_layers_alone_have_frame_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(SMALL.read_text("utf-8"))
    layers = [{**row, "cached": None} for row in document["nets"]["GoogLeNet"]["layers"]]
    path = written({"config": document["config"], "layers": layers}, tmp_path)
    assert cases.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("layers: 0 of 0 agree\n  by the page of ResNet-50\n")
    assert out.count("frames per second") == 7
