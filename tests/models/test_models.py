"""Whole small networks: every rung of the ladder, against TensorFlow Lite Micro's answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from available import COMMITTED, MODELS, TARGET, path_of
from penstock import api
from penstock.simulators.golden_archive import read_goldens, write_goldens
from penstock.simulators.goldens import crc32_of

RUNGS = ("reference", "machine", "host", "core")


@pytest.fixture(autouse=True)
def simulator() -> None:
    """Skips where there is no simulated core."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")


@pytest.mark.parametrize("model", COMMITTED)
def test_every_rung_equals_the_goldens(model: str) -> None:
    archive = MODELS / f"{model}.npz"
    goldens = read_goldens(archive)
    verified = api.verify(path_of(model), TARGET, archive)
    assert tuple(rung.step for rung in verified.rungs) == RUNGS
    assert [str(rung.comparison.first) for rung in verified.rungs if rung.comparison.first] == []
    assert verified.passed
    outputs = sum(len(golden_set.outputs) for golden_set in goldens.sets)
    assert verified.rungs[0].comparison.tensors == outputs + len(goldens.tensor_crc32)
    survivors = tuple(verified.compiled.compilation.graph.variables())
    for rung in verified.rungs[1:]:
        assert rung.comparison.tensors == len(survivors) * len(goldens.sets)
    assert verified.rungs[2].note in ("sanitizers: address, undefined", "sanitizers: undefined")


@pytest.mark.parametrize("model", COMMITTED)
def test_one_altered_golden_value_is_found_and_its_layer_named(model: str, tmp_path: Path) -> None:
    goldens = read_goldens(MODELS / f"{model}.npz")
    graph = api.pipeline.read(path_of(model))
    tensors = dict(goldens.sets[0].tensors)
    inner = [n.output for n in graph.nodes if n.output.origin in tensors]
    victim = inner[len(inner) // 2]
    assert victim.origin is not None
    altered = tensors[victim.origin].copy()
    altered.flat[altered.size // 2] ^= 1
    tensors[victim.origin] = altered
    crcs = dict(goldens.tensor_crc32) | {victim.origin: crc32_of(altered)}
    changed = dataclasses.replace(
        goldens,
        sets=(
            dataclasses.replace(goldens.sets[0], tensors=tuple(tensors.items())),
            *goldens.sets[1:],
        ),
        tensor_crc32=tuple(crcs.items()),
    )
    write_goldens(changed, tmp_path / "altered.npz")
    reference, *others = api.verify(path_of(model), TARGET, tmp_path / "altered.npz").rungs
    first = reference.comparison.first
    assert first is not None
    assert (reference.comparison.mismatches, first.tensor) == (1, victim.name)
    assert first.expected ^ first.found == 1
    assert [rung.comparison.mismatches for rung in others] == [0, 0, 0]
