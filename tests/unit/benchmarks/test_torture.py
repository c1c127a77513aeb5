"""Torture: generators are deterministic, judges are strict, findings become small; and a sample."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks.torture import __main__ as torture
from benchmarks.torture import compiling, onnx_judge
from benchmarks.torture.case import Case, Generator, Limits, Outcome, Verdict
from benchmarks.torture.faults import SOURCES, Fault, faults
from benchmarks.torture.judging import verdict_on
from benchmarks.torture.log import Log, pasted_test
from benchmarks.torture.minimise import minimised
from benchmarks.torture.registry import every_generator
from benchmarks.torture.run import Plan, Run, Tally
from benchmarks.torture.worker import Answer
from penstock.api import compiling as api_compiling
from penstock.errors import InternalError, ModelError, UsageError
from penstock.ir.graph import Node
from penstock.ir.tensor import Array
from penstock.ops.pool import MaxPool2D
from penstock.simulators import graph
from tools.onnx_writer import Model

pytest.importorskip("onnxruntime", reason="the extra 'quantise' is not installed")
OURS = [g for g in every_generator().values() if g.needs in ((), ("tflite_micro",))]
SAMPLE = {"tflite-networks": 1, "tflite-layers": 2, "tflite-states": 2}
"""Seeds of each generator in the sample."""
USUAL = 4


def small(*nodes: tuple[str, dict[str, object]]) -> bytes:
    """A model of operators in a row, each quantised."""
    model = Model()
    x = model.input(1, 2, 4, 4)
    for operator, attributes in nodes:
        x = model.node(operator, x, **attributes)
    return model.raw(x)


def case(raw: bytes) -> Case:
    return Case(raw, ".onnx", onnx_judge.judge)


@pytest.mark.parametrize("generator", OURS, ids=lambda g: g.name)
def test_a_seed_names_a_case(generator: Generator) -> None:
    if generator.missing:
        pytest.skip(f"needs {generator.missing}")
    drawn = [generator.draw(seed) for seed in (7, 7, 8)]
    first, again, other = (each.raw if each else b"" for each in drawn)
    assert first == again
    assert first != other


@pytest.mark.parametrize("generator", OURS, ids=lambda g: g.name)
def test_a_sample_is_right(generator: Generator, host_compilers: Sequence[str]) -> None:
    if generator.missing:
        pytest.skip(f"needs {generator.missing}")
    for seed in range(SAMPLE.get(generator.name, USUAL)):
        drawn = generator.draw(seed)
        if drawn is not None:
            verdict = verdict_on(drawn, deep=False)
            assert verdict.outcome.right, f"{generator.name} {seed}: {verdict.note}"


def test_generators_of_others_say_what_they_need() -> None:
    assert {g.name for g in every_generator().values() if g not in OURS} == {
        "float-graphs", "keras-models", "mixed-graphs", "nnsmith-graphs", "shared-layouts",
        "tflite-unsigned", "torch-modules",
    }  # fmt: skip


def test_an_exact_model_is_exact(host_compilers: Sequence[str]) -> None:
    raw = small(("Relu", {}), ("MaxPool", {"kernel_shape": [2, 2]}))
    assert verdict_on(case(raw), deep=False) == Verdict(Outcome.EXACT)


def test_a_wrong_operator_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    original = graph.evaluate_node

    def off(node: Node, values: Mapping[str, Array]) -> Array:
        found = original(node, values)
        return found // 2 if isinstance(node.op, MaxPool2D) else found

    monkeypatch.setattr(graph, "evaluate_node", off)
    pool = ("MaxPool", {"kernel_shape": [2, 2]})
    given = case(small(("Sigmoid", {}), pool, ("Tanh", {})))
    verdict = verdict_on(given, deep=False)
    assert (verdict.outcome, verdict.code, verdict.cause) == (Outcome.WRONG, "node", "MaxPool")
    found, again = minimised(given, verdict)
    kinds = [node.op_type for node in onnx.ModelProto.FromString(found.raw).graph.node]
    assert "MaxPool" in kinds
    assert not {"Sigmoid", "Tanh"} & set(kinds)
    assert again.outcome is Outcome.WRONG
    assert len(found.raw) < len(given.raw) / 2


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (KeyError("lost"), Outcome.INTERNAL),
        (MemoryError(), Outcome.MEMORY),
        (InternalError("machine-002", "lost"), Outcome.INTERNAL),
        (UsageError("usage-001", "no place is named"), Outcome.NO_REMEDY),
        (ModelError("onnx-005", "bad", where="m", help="the file is malformed"), Outcome.MALFORMED),
        (ModelError("tool-003", "cc failed", where="m.c", help="-"), Outcome.REFUSED),
        (ModelError("model-020", "no", where="m", help="export it"), Outcome.REFUSED),
    ],
)
def test_the_judge_tells_right_from_wrong(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, outcome: Outcome
) -> None:
    def broken(*_: object) -> None:
        raise raised

    monkeypatch.setattr(api_compiling, "compile_request", broken)
    assert verdict_on(case(small(("Relu", {}))), deep=True).outcome is outcome


def test_a_mistake_of_the_judge_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.api, "compile", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        verdict_on(case(small(("Relu", {}))), deep=True)


def test_a_test_to_paste_runs(tmp_path: Path) -> None:
    raw = small(("Relu", {}))
    wrong = Verdict(Outcome.WRONG, note="x")
    text = pasted_test("wrong", Answer(1, wrong, 1, raw=raw, suffix=".onnx", judge="onnx_judge"))
    names = {"Case": Case, "onnx_judge": onnx_judge}
    seen: list[Case] = []

    def verdict(found: Case, deep: bool) -> Verdict:
        seen.append(found)
        return Verdict(Outcome.EXACT)

    space = {**names, "verdict_on": verdict, "base64": __import__("base64")}
    exec(text, space)
    space["test_wrong"]()
    assert seen[0].raw == raw


def test_findings_are_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, generator = Log(tmp_path), OURS[0]
    wrong = Verdict(Outcome.WRONG, "node", "Clip", "5 elements differ")
    log.add(generator, Answer(3, wrong, 1, raw=small(("Relu", {})), suffix=".onnx"))
    log.count(3, generator, Tally(seeds=2))
    first, last = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert (first["seed"], first["cause"]) == (3, "Clip")
    assert (last["generator"], last["first seed"], last["seeds"]) == (generator.name, 3, 2)
    assert (tmp_path / first["file"]).is_file()
    assert "5 elements differ" in capsys.readouterr().out


def test_the_command_runs_in_worker_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--generator", "onnx-mutants", "--count", "3", "--seed", "0", "--workers", "1"]
    assert torture.main([*words, "-o", str(tmp_path)]) == 0, capsys.readouterr().out
    assert "onnx-mutants" in capsys.readouterr().out


def test_a_case_that_takes_too_long_is_kept() -> None:
    (generator,) = (g for g in OURS if g.name == "onnx-grammar")
    hasty = replace(generator, limits=Limits(seconds=0.0))
    found: list[Answer] = []
    plan = Plan([hasty], seed=0, seconds=600.0, count=1, workers=1)
    Run(plan, lambda _, answer: found.append(answer), lambda *_: None).finish()
    drawn = generator.draw(0)
    assert drawn is not None
    assert [(one.verdict.outcome, one.raw) for one in found] == [(Outcome.TIME, drawn.raw)]


@pytest.mark.parametrize("fault", faults(), ids=lambda f: f.name)
def test_a_deliberate_fault_changes_the_sources(fault: Fault, tmp_path: Path) -> None:
    target = tmp_path / fault.path
    target.parent.mkdir(parents=True)
    shutil.copy(SOURCES / fault.path, target)
    fault.apply(tmp_path)
    assert target.read_text() != (SOURCES / fault.path).read_text()
    assert set(fault.generators) <= set(every_generator())


def test_there_are_thirty_faults() -> None:
    assert len({fault.name for fault in faults()}) == 30
