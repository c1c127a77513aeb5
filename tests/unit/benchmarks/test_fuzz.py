"""The fuzz command: its mutants are named by seed and number, and its judge is strict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import fuzz
from benchmarks.file_fields import file_fields
from benchmarks.fuzz_worker import Outcome, judge
from benchmarks.mutations import MUTATIONS, Subject, mutant
from penstock import api

MODEL = Path(__file__).parents[2] / "models" / "two_heads.tflite"


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


def test_an_intact_model_is_verified(host_compilers: Sequence[str]) -> None:
    assert judge(str(MODEL)) == Outcome("verified")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (KeyError("lost"), "traceback"),
        (api.UsageError("usage-001", "no place is named"), "incomplete message"),
        (api.ModelError("model-002", "damaged", where="m.tflite"), "refused"),
        (api.ModelError("tool-003", "cc failed", where="m.c"), "generated C failed"),
    ],
)
def test_the_judge_tells_right_from_wrong(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, kind: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(api, "compile", broken)
    outcome = judge("m.tflite")
    assert outcome.kind == kind
    assert outcome.right == (kind == "refused")


def test_the_first_mutants_are_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host_compilers: Sequence[str]
) -> None:
    words = [str(MODEL), "--mutants", "12", "--findings", str(tmp_path / "found")]
    assert fuzz.main(words) == 0, capsys.readouterr().out
    assert "refused" in capsys.readouterr().out
    assert not (tmp_path / "found").exists()
