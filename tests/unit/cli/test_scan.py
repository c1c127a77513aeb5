"""`penstock scan`: good, refused, damaged and duplicate files, and what ends a process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any
from unittest.mock import Mock

import pytest

from command_line import CommandLine
from penstock import api
from penstock.api import scanned as scanned_module
from penstock.errors import UsageError
from penstock.reports.scan import Scanned, Verdict
from penstock.toolchains import host
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

RECORD = scanned_module.scan_one
MODELS = Path(__file__).resolve().parents[2] / "models"
X = TensorSpec("x", (1, 4), scales=(0.5,), zero_points=(0,))
REAL = replace(X, dtype="float32", scales=(), zero_points=())
WITHIN_REALS = write_tflite(
    (REAL, replace(X, name="y")), (OperatorSpec("RELU", (0,), (1,)),), (0,), (1,)
)
"""An operator of real numbers with an int8 result, which no kernel computes."""
LSTM = "UNIDIRECTIONAL_SEQUENCE_RNN"
UNSUPPORTED = write_tflite(
    (X, *(replace(X, name=f"t{k}") for k in range(3))),
    tuple(OperatorSpec(name, (k,), (k + 1,)) for k, name in enumerate((LSTM, "DENSIFY", LSTM))),
    (0,),
    (3,),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model and a copy of it, two that are refused, one that is damaged."""
    inner = tmp_path / "models" / "inner"
    inner.mkdir(parents=True)
    good = (MODELS / "two_heads.tflite").read_bytes()
    (inner.parent / "good.tflite").write_bytes(good)
    (inner / "copy.TFLITE").write_bytes(good)
    (inner / "real.tflite").write_bytes(WITHIN_REALS)
    (inner / "unsupported.tflite").write_bytes(UNSUPPORTED)
    (inner / "damaged.tflite").write_bytes(good[:999])
    (inner / "broken.onnx").write_bytes(b"\x08")
    (inner / "notes.txt").write_text("not a model")
    return inner.parent


def test_assumed_scales_concern_onnx_models_only(penstock: CommandLine, folder: Path) -> None:
    said = penstock("scan", folder, "--stop-after", "read", "--assume-int8", "--json")
    assert {m["model"] for m in said.json["models"] if m["verdict"] == "passes"} == {"good.tflite"}


def test_calibration_samples_concern_onnx_models_only(penstock: CommandLine, folder: Path) -> None:
    said = penstock("scan", folder, "--stop-after", "read", "--quantise", "missing.npz", "--json")
    assert {m["model"] for m in said.json["models"] if m["verdict"] == "passes"} == {"good.tflite"}


def test_without_tools_models_that_do_not_compile_are_told_apart(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("ziglang", "unicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    host.host_compiler.cache_clear()
    said = penstock("scan", folder, "--verify", "--json")
    host.host_compiler.cache_clear()
    assert said.code == 4
    unverified = "compiles, but could not be verified"
    assert said.json["counts"] == {"does not compile": 4, unverified: 1}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_folder_is_scanned_to_its_end(penstock: CommandLine, folder: Path, jobs: str) -> None:
    said = penstock("scan", folder, "--jobs", jobs, "--json")
    assert (said.code, said.err) == (4, "")
    models = {record["model"]: record for record in said.json["models"]}
    assert models["good.tflite"]["verdict"] == "compiles"
    assert models["good.tflite"]["copies"] == ["inner/copy.TFLITE"]
    assert models["good.tflite"]["operators"] == 4
    causes = {row["cause"]: (row["models"], row["alone"]) for row in said.json["causes"]}
    real, unsupported = ["inner/real.tflite"], ["inner/unsupported.tflite"]
    assert causes["RELU of float32"] == (real, real)
    assert causes["operator DENSIFY"] == (unsupported, [])
    assert causes[f"operator {LSTM}"] == (unsupported, [])
    assert causes["the TFLite file is damaged"][1] == ["inner/damaged.tflite"]
    assert causes["the ONNX file is damaged"][1] == ["inner/broken.onnx"]
    assert said.json["counts"] == {"compiles": 1, "does not compile": 4}
    assert sorted(os.listdir()) == ["models"]


def test_the_tables_name_models_and_causes(penstock: CommandLine, folder: Path) -> None:
    said = penstock("scan", folder, "--stop-after", "read")
    assert said.code == 4
    for text in ("good.tflite (copies: 1)", "passes read", "RELU of float32", "operator DENSIFY"):
        assert text in said.out
    assert "compiles" not in said.out
    assert said.out.endswith(
        "models: 5; pass the stages up to `read`: 1; do not compile: 4; copies, not counted: 1\n"
    )


def test_it_exits_with_0_if_every_model_compiles(penstock: CommandLine, folder: Path) -> None:
    shutil.rmtree(folder / "inner")
    assert penstock("scan", folder, "--target", "host").code == 0


def test_a_budget_is_a_cause(penstock: CommandLine, folder: Path) -> None:
    shutil.rmtree(folder / "inner")
    said = penstock("scan", folder, "--sram", "1k", "--json")
    assert said.code == 4
    assert [row["code"] for row in said.json["causes"]] == ["capacity-001"]


def test_small_models_can_be_left_out(penstock: CommandLine, folder: Path) -> None:
    said = penstock("scan", folder, "--min-operators", "4", "--stop-after", "read", "--json")
    verdicts = {record["model"]: record["verdict"] for record in said.json["models"]}
    assert verdicts["inner/real.tflite"] == "left out"
    assert verdicts["inner/damaged.tflite"] == "does not compile"


def test_models_are_verified(penstock: CommandLine, folder: Path) -> None:
    shutil.rmtree(folder / "inner")
    words = ("--reference", "tflite", "--last-rung", "reference")
    assert penstock("scan", folder, *words).code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("scan", "missing"), "usage-121"),
        (("scan", "."), "usage-121"),
        (("scan", "models", "--target", "moon"), "usage-002"),
        (("scan", "models", "--stop-after", "lunch"), "usage-013"),
        (("scan", "models", "--last-rung", "lunch"), "usage-013"),
        (("scan", "models", "--reference", "oracle"), "usage-013"),
        (("scan", "models", "--jobs", "0"), "usage-018"),
        (("scan", "models", "--stop-after", "read", "--verify"), "usage-122"),
        (("scan", "models", "--stop-after", "read", "--last-rung", "host"), "usage-122"),
        (("scan", "models", "--min-operators", "-1"), "usage-020"),
        (("scan", "models", "--time-limit", "0"), "usage-148"),
        (("scan", "models", "--time-limit", "nan"), "usage-148"),
    ],
)
def test_wrong_requests_are_usage_errors(
    penstock: CommandLine, folder: Path, words: Sequence[str], code: str
) -> None:
    if words[1] == ".":
        shutil.rmtree(folder)
    said = penstock(*words)
    assert (said.code, said.out) == (2, "")
    assert f"error[{code}]" in said.err


def test_a_file_is_no_folder(penstock: CommandLine, model: Path) -> None:
    said = penstock("scan", model)
    assert said.code == 2
    assert said.err.startswith("error[usage-121]: this is a file, not a folder")
    assert "`penstock compile`" in said.err


def test_a_defect_at_one_model_does_not_end_the_scan(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("penstock.api.scanned.compile", broken)
    said = penstock("scan", folder, "--min-operators", "4", "--json")
    assert said.code == 3
    assert said.json["counts"]["internal error"] == 3
    (cause,) = (row for row in said.json["causes"] if row["code"] == "internal-001")
    assert "good.tflite" in cause["models"]


def test_an_interruption_ends_the_scan(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.api.scanned.compile", interrupted)
    said = penstock("scan", folder)
    assert (said.code, said.out) == (130, "")
    assert said.err.startswith("not finished: good.tflite (model 1 of 5)\n")
    assert sorted(os.listdir()) == ["models"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_interruption_loses_no_model_that_is_done(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    def ending(one: scanned_module.ModelFile, how: scanned_module.Examination) -> Scanned:
        if one.name == "inner/unsupported.tflite":
            signal.raise_signal(signal.SIGTERM)
        return RECORD(one, how)

    monkeypatch.setattr(scanned_module, "scan_one", ending)
    said = penstock("scan", folder, "--stop-after", "read", *words)
    assert said.code == 128 + signal.SIGTERM
    assert said.err == "not finished: inner/unsupported.tflite (model 5 of 5)\ninterrupted\n"
    if words:
        assert said.json["counts"] == {"passes": 1, "does not compile": 3}
    else:
        assert "inner/real.tflite" in said.out
        assert "RELU of float32" in said.out.partition("alone")[2]
        assert "models: 4; " in said.out


class _Interrupted(Executor):
    """Has run all tasks when an interruption ends the wait for the result of the second one."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = _Endless() if len(self.futures) == 1 else Future[Any]()
        future.set_result(fn(*args, **kwargs))
        self.futures.append(future)
        return future


class _Endless(Future[Any]):
    def result(self, timeout: float | None = None) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_an_interruption_loses_no_model_that_is_done_before_an_earlier_one(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    executor = nullcontext(_Interrupted())
    monkeypatch.setattr(scanned_module, "executor_of", Mock(return_value=executor))
    said = penstock("scan", folder, "--stop-after", "read", "--workers", "2", *words)
    assert said.code == 130
    slow = scanned_module.distinct_models(folder)[1].name
    assert said.err.startswith(f"not finished: {slow} (model 2 of 5)\n")
    if words:
        assert sum(said.json["counts"].values()) == len(said.json["models"]) == 4
        assert slow not in {model["model"] for model in said.json["models"]}
    else:
        assert "models: 4; " in said.out
        assert "inner/unsupported.tflite" in said.out


WAITING = """
from time import sleep
from penstock.api import scanned
from penstock.cli import main

record = scanned.scan_one
scanned.scan_one = lambda one, how: sleep(60) if "/" in one.name else record(one, how)
main()
"""


def test_a_row_is_written_before_the_next_model(folder: Path) -> None:
    process = subprocess.Popen(
        (sys.executable, "-c", WAITING, "scan", str(folder), "--stop-after", "read"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    shown = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert "good.tflite" in shown[2]
    assert process.returncode == 130


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_model_is_stopped_at_its_time_limit(
    penstock: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    shutil.rmtree(folder / "inner")
    monkeypatch.setattr(scanned_module, "scan_one", partial(_waiting_record, RECORD))
    said = penstock("scan", folder, "--time-limit", "0.2", "--jobs", jobs)
    assert said.code == 4
    assert "not finished" in said.out
    assert "stopped after 0.2 s" in said.out
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def _waiting_record(record: Any, one: Any, how: Any) -> Scanned:
    """The record of a model that takes a minute."""
    from penstock.api import scanned

    def wait(*_: object, **__: object) -> None:
        sleep(60)

    plain, scanned.compile = scanned.compile, wait
    try:
        return record(one, how)
    finally:
        scanned.compile = plain


def test_a_time_limit_needs_a_signal_that_arrives(folder: Path) -> None:
    def scan(workers: int) -> list[Scanned]:
        wanted = api.ScanSettings(stop_after="read", time_limit_seconds=60)
        return list(api.scan(folder, workers=workers, **wanted))

    with ThreadPoolExecutor(1) as threads, pytest.raises(UsageError) as caught:
        threads.submit(scan, 1).result()
    assert caught.value.code == "usage-149"
    with ThreadPoolExecutor(1) as threads:
        assert len(threads.submit(scan, 2).result()) == 5


def _ending_record(one: Any, how: Any, *, name: str) -> Scanned:
    """The record of a model; ends the process at a model of that name."""
    if name in one.name:
        os._exit(1)
    return RECORD(one, how)


def test_the_end_of_a_process_stops_only_its_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("copy.TFLITE", "damaged.tflite", "broken.onnx"):
        (folder / "inner" / other).unlink()
    monkeypatch.setattr(scanned_module, "scan_one", partial(_ending_record, name="real"))
    found = api.scan(folder, stop_after="read", workers=2)
    records = {record.path: record for record in found}
    assert records["inner/real.tflite"].verdict is Verdict.INTERNAL
    assert records["inner/real.tflite"].obstacles[0].first.code == "tool-022"
    assert records["good.tflite"].verdict is Verdict.PASSES
    assert records["inner/unsupported.tflite"].verdict is Verdict.REFUSED
    assert len(records) == 3
