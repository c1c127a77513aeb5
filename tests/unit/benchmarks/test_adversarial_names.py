"""Adversarial tensor names do not change results; the comparison detects changes."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from benchmarks import adversarial_names
from benchmarks.adversarial_names import TARGETS, Build, Target, differences

MODELS = ("arithmetic", "two_heads")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[0])
@pytest.mark.parametrize("model", MODELS)
def test_adversarial_names_change_nothing(model: str, target: Target) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    assert list(differences(Path(path_of(model)), *target, seeds=1)) == []


def test_a_different_aspect_or_output_is_found() -> None:
    build = Build({"RAM": 1, "C": ["x"]}, (np.zeros(2), np.ones(3)))
    assert build.differences(build) == ()
    assert build.differences(replace(build, aspects={"RAM": 2, "C": ["x"]})) == ("RAM",)
    assert build.differences(replace(build, outputs=(np.zeros(2), np.zeros(3)))) == ("outputs",)


def test_the_example_is_right() -> None:
    found = doctest.testmod(adversarial_names)
    assert found.attempted > 0
    assert found.failed == 0
