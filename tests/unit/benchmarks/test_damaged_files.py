"""Damaged files: mutants are identified by seed and number, and their judge is strict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.file_fields import file_fields
from benchmarks.mutations import MUTATIONS, Subject, mutant
from benchmarks.operators import judging
from benchmarks.torture import __main__ as torture
from benchmarks.torture.case import Case, Outcome
from benchmarks.torture.damage_judge import judge
from benchmarks.torture.judging import verdict_on
from penstock.api import compiling
from penstock.errors import InternalError, ModelError, ToolError, UsageError
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

MODEL = Path(__file__).parents[2] / "models" / "two_heads.tflite"


def case(raw: bytes) -> Case:
    return Case(raw, ".tflite", judge)


def subject() -> Subject:
    return Subject.of(MODEL.name, MODEL.read_bytes())


def test_fields_are_found_where_the_file_has_them() -> None:
    raw = MODEL.read_bytes()
    by_label: dict[str, list[float]] = {}
    for field in file_fields(raw):
        by_label.setdefault(field.label, []).append(field.read(raw))
    assert by_label["version"] == [3]
    assert all(scale > 0 for scale in by_label["scale"])
    assert all(-128 <= zero < 128 for zero in by_label["zero"])
    assert all(1 <= extent <= 4096 for extent in by_label["extent"])


def test_a_seed_and_a_number_name_a_mutant() -> None:
    assert mutant([subject()], 1, 7) == mutant([subject()], 1, 7)
    assert mutant([subject()], 1, 7).raw != mutant([subject()], 2, 7).raw


def test_every_kind_of_mutation_is_drawn() -> None:
    stories = " ".join(mutant([subject()], 0, k).story for k in range(200))
    words = ("from", "everywhere", "change places", "flipped", "set to", "twice", "truncated")
    assert len(MUTATIONS) == 12
    assert all(word in stories for word in words)


def test_an_intact_model_is_exact(host_compilers: Sequence[str]) -> None:
    pytest.importorskip("tflite_micro")
    assert verdict_on(case(MODEL.read_bytes()), deep=True).outcome is Outcome.EXACT


def relu6() -> bytes:
    x = TensorSpec("x", (1, 16), scales=(0.1,), zero_points=(0,))
    y = TensorSpec("y", (1, 16), scales=(0.05,), zero_points=(-128,))
    return write_tflite((x, y), (OperatorSpec("RELU6", (0,), (1,)),), (0,), (1,))


def space_to_batch() -> bytes:
    """After an addition, which no deviation concerns."""
    scales, zeros = (0.1,), (7,)
    tensors = (
        TensorSpec("x", (1, 3, 4, 2), scales=scales, zero_points=zeros),
        TensorSpec("sum", (1, 3, 4, 2), scales=scales, zero_points=zeros),
        TensorSpec("blocks", (2,), "int32", data=np.array([2, 2], np.int32)),
        TensorSpec("pads", (2, 2), "int32", data=np.array([[1, 0], [0, 2]], np.int32)),
        TensorSpec("y", (4, 2, 3, 2), scales=scales, zero_points=zeros),
    )
    operators = (
        OperatorSpec("ADD", (0, 0), (1,), {"fused_activation_function": "RELU6"}),
        OperatorSpec("SPACE_TO_BATCH_ND", (1, 2, 3), (4,)),
    )
    return write_tflite(tensors, operators, (0,), (4,))


def depthwise() -> bytes:
    """Two channels for each of the input's, which `depth_multiplier` does not say."""
    random = np.random.default_rng(1)
    weights = random.integers(-99, 99, (1, 3, 3, 6)).astype(np.int8)
    tensors = (
        TensorSpec("x", (1, 4, 4, 3), scales=(0.1,), zero_points=(0,)),
        TensorSpec("w", weights.shape, scales=(0.01,), zero_points=(0,), data=weights),
        TensorSpec("bias", (6,), "int32", (0.001,), (0,), data=np.arange(6, dtype=np.int32)),
        TensorSpec("y", (1, 4, 4, 6), scales=(0.5,), zero_points=(3,)),
    )
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "depth_multiplier": 0}
    dilations = {"dilation_w_factor": 1, "dilation_h_factor": 1}
    node = OperatorSpec("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), {**options, **dilations})
    return write_tflite(tensors, (node,), (0,), (3,))


DEVIATING = {"relu6": relu6(), "space_to_batch": space_to_batch(), "depthwise": depthwise()}


@pytest.mark.parametrize("raw", DEVIATING.values(), ids=DEVIATING)
def test_documented_deviations_are_judged_operator_by_operator(raw: bytes) -> None:
    pytest.importorskip("tflite_micro")
    assert verdict_on(case(raw), deep=False).outcome is Outcome.EXACT


def test_an_undocumented_deviation_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro")
    monkeypatch.setattr(judging, "deviation_of", lambda _: None)
    verdict = verdict_on(case(relu6()), deep=False)
    assert (verdict.outcome, verdict.code) == (Outcome.WRONG, "reference")


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (KeyError("lost"), Outcome.INTERNAL),
        (RuntimeWarning("invalid value"), Outcome.INTERNAL),
        (MemoryError(), Outcome.MEMORY),
        (InternalError("machine-002", "lost"), Outcome.INTERNAL),
        (UsageError("usage-001", "no place is named"), Outcome.NO_REMEDY),
        (ModelError("model-002", "damaged", where="m.tflite"), Outcome.REFUSED),
        (ModelError("model-002", "bad", where="m", help="malformed"), Outcome.REFUSED),
        (ToolError("tool-003", "cc failed", where="m.c"), Outcome.WRONG),
    ],
)
def test_the_judge_tells_right_from_wrong(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, outcome: Outcome
) -> None:
    def broken(*_: object) -> None:
        if isinstance(raised, Warning):
            warnings.warn(raised, stacklevel=1)
        raise raised

    monkeypatch.setattr(compiling, "compile_request", broken)
    assert verdict_on(case(relu6()), deep=True).outcome is outcome


@pytest.mark.parametrize(("size", "outcome"), [(None, "exact"), (50, "refused")])
def test_a_file_can_be_judged_again(
    size: int | None,
    outcome: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    host_compilers: Sequence[str],
) -> None:
    pytest.importorskip("tflite_micro")
    path = tmp_path / "finding.tflite"
    path.write_bytes(MODEL.read_bytes()[:size])
    words = ["--generator", "tflite-mutants", "--replay", str(path)]
    assert torture.main(words) == 0
    assert capsys.readouterr().out.startswith(outcome)


def test_a_replay_names_one_generator(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        torture.main(["--replay", str(MODEL)])
    assert "one --generator" in capsys.readouterr().err
