"""The small committed networks, against the runtime that answered for them."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import numpy as np
import pytest

from penstock.simulators import tflite_micro
from penstock.simulators.goldens import array_crc32, goldens_to_members, make_goldens, read_goldens
from penstock.simulators.tflite_micro import run_tflite_micro, run_tflite_micro_sets
from tools.make_test_models import NETWORKS, OPERATORS

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "tests" / "models"
DEMO = ROOT / "src" / "penstock" / "demo"
NAMES = sorted(path.stem for path in MODELS.glob("*.npz"))


def model_bytes_of(name: str) -> bytes:
    folder = DEMO if name == "digits" else MODELS
    return (folder / f"{name}.tflite").read_bytes()


def test_every_test_model_has_committed_goldens() -> None:
    every = (build.__name__ for build in (*NETWORKS, *OPERATORS))
    assert sorted(["digits", *every]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_runtime_answers_as_the_committed_goldens_say(runtime: None, name: str) -> None:
    goldens = read_goldens(MODELS / f"{name}.npz")
    assert goldens.model_crc32 == zlib.crc32(model_bytes_of(name))
    inputs = [s.inputs for s in goldens.sets]
    answers = run_tflite_micro_sets(model_bytes_of(name), inputs, stateful=goldens.stateful)
    for expected, answer in zip(goldens.sets, answers, strict=True):
        for values, others in zip(expected.outputs, answer.outputs, strict=True):
            assert values.dtype == others.dtype
            assert np.array_equal(values, others)
    assert (
        tuple((i, array_crc32(values)) for i, values in answers[0].tensors) == goldens.tensor_crc32
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_is_kept_and_most_values_lie_inside_the_range(name: str) -> None:
    golden_set = read_goldens(MODELS / f"{name}.npz").sets[0]
    assert len(golden_set.tensors) > 4
    quantised = ((k, values) for k, values in golden_set.tensors if values.dtype == np.int8)
    for index, values in quantised:
        assert np.ptp(values.astype(int)) > 40, f"tensor {index} hardly uses its range"
        assert np.mean(values == 127) < 0.1, f"tensor {index} is cut off"


def test_making_goldens_again_gives_the_committed_ones(runtime: None) -> None:
    types = [((1, 8, 7, 4), np.int8, 18), ((1, 8, 7, 4), np.int8, 18)]
    goldens = make_goldens(model_bytes_of("two_heads"), types, "two_heads.tflite")
    members = goldens_to_members(goldens)
    committed = goldens_to_members(read_goldens(MODELS / "two_heads.npz"))
    assert members.keys() == committed.keys()
    assert all(np.array_equal(values, committed[name]) for name, values in members.items())


def test_an_arena_that_is_too_small_grows(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    golden_set = read_goldens(MODELS / "two_heads.npz").sets[0]
    monkeypatch.setattr(tflite_micro, "ARENA_BYTES", (64, 1 << 20))
    answer = run_tflite_micro(model_bytes_of("two_heads"), golden_set.inputs)
    assert np.array_equal(answer.outputs[1], golden_set.outputs[1])


def test_the_demo_network_recognises_as_many_digits_as_its_page_says(runtime: None) -> None:
    page = (DEMO / "README.md").read_text()
    with np.load(DEMO / "digits_test.npz") as test:
        inputs, labels = test["inputs"], test["labels"]
    answers = run_tflite_micro_sets(model_bytes_of("digits"), [(image[None],) for image in inputs])
    hits = sum(
        int(answer.outputs[0].argmax() == label)
        for answer, label in zip(answers, labels, strict=True)
    )
    assert hits >= 194  # 97 %
    assert f"of 200 held-out digits: float 198 (99.00%), int8 {hits} ({hits / 200:.2%})" in page
    assert hashlib.sha256(model_bytes_of("digits")).hexdigest() in page
