"""Delivered bundles of small models: every compiler, optimised and not, against goldens.

`python -m benchmarks.bundles` does the same for large models, all levels and all sets."""

from __future__ import annotations

import shutil

import pytest

from available import MODELS, path_of
from benchmarks.bundles import STACK, check
from penstock import api
from penstock.simulators.goldens import read_goldens
from penstock.toolchains.cortex_m import GCC

LEVELS = ("-Os", "-O1")


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("arithmetic", "host"),
        ("arithmetic", "cortex-m0plus"),
        ("strided_residual", "cortex-m4"),
        ("strided_residual", "two-region"),
    ],
)
def test_delivered_bundles_build_without_warnings_and_compute_the_goldens(
    model: str, target: str
) -> None:
    for module in ("unicorn", "ziglang"):
        pytest.importorskip(module, reason="the extra 'simulate' is not installed")
    if target != "host" and shutil.which(GCC) is None:
        pytest.skip(f"there is no {GCC} here")
    compiled = api.compile(path_of(model), target, stack=STACK)
    outcomes = tuple(check(compiled, read_goldens(MODELS / f"{model}.npz"), 1, LEVELS))
    assert {outcome.build.level for outcome in outcomes} == set(LEVELS)
    assert [str(outcome) for outcome in outcomes if not outcome.is_right] == []
    assert all(outcome.comparison.elements for outcome in outcomes)
