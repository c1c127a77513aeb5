"""Whole small networks: every rung of the ladder, against TensorFlow Lite Micro's answers."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import beside
from available import COMMITTED, MODELS, TARGET, path_of
from penstock import api
from penstock.api.verified import Verified
from penstock.ir.tensor import DType
from penstock.ops.conversions import Cast
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.graphs import read
from penstock.scheduling.options import Options
from penstock.simulators.goldens import array_crc32, read_goldens, unrolled, write_goldens

RUNGS = ("reference", "machine", "host", "core")


@pytest.fixture(autouse=True)
def simulator() -> None:
    """Skips where there is no simulated core."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")


@cache
def verified_with_goldens(model: str) -> Verified:
    return api.verify(path_of(model), TARGET, MODELS / f"{model}.npz")


@pytest.mark.parametrize("model", COMMITTED)
def test_every_rung_equals_the_goldens(model: str) -> None:
    goldens = unrolled(read_goldens(MODELS / f"{model}.npz"))
    verified = verified_with_goldens(model)
    rungs = tuple(rung for rung in verified.rungs if rung.step != "deviations")
    assert tuple(rung.step for rung in rungs) == RUNGS
    assert [str(rung.comparison.first) for rung in verified.rungs if rung.comparison.first] == []
    assert verified.passed
    outputs = sum(len(golden_set.outputs) for golden_set in goldens.sets)
    assert rungs[0].comparison.tensors == outputs + len(goldens.tensor_crc32)
    survivors = kept(verified.compiled.compilation)
    for rung in rungs[1:]:
        assert rung.comparison.tensors == len(survivors) * len(goldens.sets)
    assert rungs[2].note in ("sanitizers: address, undefined", "sanitizers: undefined")


@pytest.mark.parametrize("model", ["kws_ref_model_float32", "pretrainedResnet_float"])
def test_a_network_of_real_numbers_equals_its_goldens(model: str) -> None:
    """Of float32 weights, and of int8 weights with inputs that are quantised at run time."""
    verified = api.verify(
        path_of(model),
        TARGET,
        beside.needed(beside.MODELS / "goldens" / f"{model}.npz"),
        last_rung="host",
    )
    assert verified.passed
    assert [rung.step for rung in verified.rungs] == ["reference", "machine", "host"]


def kept(done: Compilation) -> set[str]:
    """Tensors of the model that are still there when it is simplified."""
    ours, own = ({v.name for v in g.variables()} for g in (done.graph, done.model))
    return ours & own


def test_totals_are_named_and_not_compared() -> None:
    own = Options(alternatives=False)  # without the graph of whole reductions
    verified = api.verify(path_of("digits"), TARGET, MODELS / "digits.npz", options=own)
    done = verified.compiled.compilation
    totals = [
        n.name for n in done.graph.nodes if not n.op.ALIAS and n.op.kernel(n.site).accumulates
    ]
    assert totals
    assert list(verified.added) == totals
    assert not kept(done) & set(totals)


def test_every_point_runs_every_schedule_of_the_frontier() -> None:
    archive = MODELS / "strided_residual.npz"
    verified = api.verify(path_of("strided_residual"), TARGET, archive, every_point=True)
    done = verified.compiled.compilation
    assert tuple(r.step for r in verified.rungs) == (*RUNGS[:2], "points", *RUNGS[2:])
    points = verified.rungs[2]
    assert verified.passed
    assert len(done.points) > 1
    assert points.note == f"{len(done.points)} points"
    own = {value.name for value in done.model.variables()}
    graphs = [point.schedule.assigned_parts.graph for point in done.points]
    compared = [own & {value.name for value in graph.variables()} for graph in graphs]
    assert points.comparison.tensors == sum(map(len, compared))


ALTERED_BIT = 64
"""More than the tolerance of results that depend on real numbers."""


def altered(model: str, archive: Path) -> str:
    """Writes the model's goldens with one element of a middle layer of integers changed by one bit,
    and CRCs to match; returns the layer's tensor."""
    goldens = read_goldens(MODELS / f"{model}.npz")
    first, *others = goldens.sets
    tensors = dict(first.tensors)
    graph = read(path_of(model))
    inner = [n.output for n in graph.nodes if not isinstance(n.op, Cast)]
    inner = [v for v in inner if v.origin in tensors and v.type.dtype is not DType.FLOAT32]
    victim = inner[len(inner) // 2]
    assert victim.origin is not None
    values = tensors[victim.origin].copy()
    values.flat[values.size // 2] ^= ALTERED_BIT
    tensors[victim.origin] = values
    crcs = dict(goldens.tensor_crc32) | {victim.origin: array_crc32(values)}
    changed = dataclasses.replace(
        goldens,
        sets=(dataclasses.replace(first, tensors=tuple(tensors.items())), *others),
        tensor_crc32=tuple(crcs.items()),
    )
    write_goldens(changed, archive)
    return victim.name


@pytest.mark.parametrize("model", ["padded_branches", "real_tails", "svdf"])
def test_one_altered_golden_value_is_found_and_its_layer_named(model: str, tmp_path: Path) -> None:
    """Of a network of integers, of one with layers of real numbers, and of one with state."""
    name = altered(model, tmp_path / "altered.npz")
    rungs = api.verify(path_of(model), TARGET, tmp_path / "altered.npz").rungs
    (reference,) = (rung for rung in rungs if rung.step == "reference")
    others = [rung for rung in rungs if rung is not reference]
    first = reference.comparison.first
    assert first is not None
    assert (reference.comparison.mismatches, first.tensor) == (1, name)
    assert first.expected ^ first.found == ALTERED_BIT
    assert {rung.comparison.mismatches for rung in others} == {0}


def test_the_command_line_names_the_layer_and_fails(tmp_path: Path) -> None:
    archive = tmp_path / "altered.npz"
    name = altered("padded_branches", archive)
    words = ("verify", path_of("padded_branches"), "--goldens", str(archive))
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error[verify-001]: 1 mismatches on rung reference" in done.stderr
    assert f'"{name}" of set 0: element [' in done.stderr
