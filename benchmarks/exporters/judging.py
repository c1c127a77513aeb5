"""Judges the files of exporters: by foreign runtimes first, then up the ladder to the core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.operators.judging import first_difference
from benchmarks.torture import onnx_judge, tflite_judge
from benchmarks.torture.case import Outcome, Verdict
from benchmarks.torture.compiling import compiled, is_small, mismatch, refusal
from benchmarks.watched_process import limit_memory
from penstock import api, ladder
from penstock.api.verified import onnx_reference
from penstock.errors import PenstockError, internal_error
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.simulators.graph import run_graph

SETS = 2
LARGEST_INDEX = 6
RUNGS = ("points", "host", "core")
"""The reference machine at every point of the frontier; C on this machine; the simulated core."""

Sets = Sequence[Mapping[str, Array]]


def judged(path: Path, target: str, until: str) -> Verdict:
    """The verdict on a file: compiled, equal to the foreign runtime, and on every rung up to
    `until`, one of `RUNGS`.  A file that onnxruntime does not run is only compiled."""
    is_onnx = path.suffix == ".onnx"
    reason = onnx_judge.not_run(path.read_bytes()) if is_onnx else ""
    try:
        done = compiled(path, target, deep=True)
        sets = [_with_small_indices(one) for one in api.drawn_sets(done, SETS)]
        if reason:
            return Verdict(Outcome.NOT_JUDGED, note=reason)
        foreign = _by_onnxruntime if is_onnx else _by_tensorflow
        return foreign(path, done, sets) or _climbed(done, sets, until)
    except PenstockError as error:
        found = refusal(error)
        is_refused = found.outcome is Outcome.REFUSED
        return Verdict(Outcome.NOT_JUDGED, note=reason) if reason and is_refused else found
    except Exception as error:  # any other exception is a defect
        return refusal(internal_error(error))


def _with_small_indices(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The inputs with wide integers in the range of tokens and categories, as the networks have."""
    return {
        name: x % LARGEST_INDEX if x.dtype.kind == "i" and x.itemsize > 1 else x
        for name, x in inputs.items()
    }


def _by_onnxruntime(path: Path, done: Compilation, sets: Sets) -> Verdict | None:
    found = onnx_reference(done.request).judge([run_graph(done.model, s) for s in sets]).failure
    if found is None:
        return None
    cause = ", ".join(sorted({label.split()[0] for label in found.group}))
    return Verdict(Outcome.WRONG, "node", cause, f"{found.first}, at most {found.steps} steps off")


def _by_tensorflow(path: Path, done: Compilation, sets: Sets) -> Verdict | None:
    """The verdict by TensorFlow on the whole, or else by TensorFlow Lite Micro and operator by
    operator: TensorFlow Lite Micro keeps the shapes that a file with an open batch states, which
    are not those of one sample."""
    raw = path.read_bytes()
    inputs = sets[0]
    answer = tflite_judge.by_tensorflow(raw, tuple(inputs.values()))
    if answer is not None:
        values = tflite_judge.values_of(done, inputs)
        found = [values[v.name] for v in done.model.outputs if v.data is None]
        ulps = tflite_judge.tolerance(done.model)
        if len(found) == len(answer) and not first_difference(found, answer, ulps=ulps):
            return None
    return tflite_judge.reference_verdict(raw, done, inputs)


def _climbed(done: Compilation, sets: Sets, until: str) -> Verdict:
    if not is_small(done):
        return Verdict(Outcome.EXACT, note="too large to run")
    for rung in ladder.climb(done, ladder.Truth(), sets, every_point=True):
        if wrong := mismatch(rung):
            return wrong
        if rung.step == until:
            break
        if rung.step == "points":
            limit_memory(None)  # the address sanitizer reserves terabytes
    return Verdict(Outcome.EXACT)


def verdict_path(path: Path, target: str) -> Path:
    """Where the verdict on a file is kept."""
    return path.with_name(f"{path.name}.{target}.verdict")


def kept(path: Path, target: str) -> Verdict | None:
    """The verdict that is kept; None if there is none."""
    place = verdict_path(path, target)
    if not place.exists():
        return None
    found: dict[str, Any] = json.loads(place.read_text("utf-8"))
    return Verdict(Outcome(found["outcome"]), found["code"], found["cause"], found["note"])


def keep(path: Path, target: str, verdict: Verdict) -> None:
    """Keeps a verdict."""
    parts = {
        "outcome": verdict.outcome.value,
        "code": verdict.code,
        "cause": verdict.cause,
        "note": verdict.note,
    }
    verdict_path(path, target).write_text(json.dumps(parts), "utf-8")
