"""Compiles a mutant in a separate process, then verifies it rung by rung.

TensorFlow Lite Micro answers from a second process, which runs one mutant after the other.
"""

from __future__ import annotations

import importlib.util
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.mutations import ASSUMED
from benchmarks.operators import judging
from benchmarks.operators.nodes import nodes_as_models
from benchmarks.operators.reference import Reference, Refusal
from benchmarks.watched_process import READY, limit_memory
from penstock import api, ladder
from penstock.errors import InternalError, PenstockError
from penstock.frontends import tflite
from penstock.frontends.open import unpacked
from penstock.ground_truth import tolerances
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.simulators.graph import initial_states, run_graph

MEMORY_BYTES = 4 << 30
ARENA_BYTES = 32 << 20
MOST_MACS = 50_000_000
MOST_BYTES = 8 << 20
"""Networks above these compile, but are not run: it would take minutes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went: "refused" (with the error's code), "verified" and "compiled" (not run) are
    right; everything else is a finding.  `note` explains it."""

    kind: str
    code: str = ""
    note: str = ""

    @property
    def right(self) -> bool:
        return self.kind in ("refused", "verified", "compiled")


@dataclass(frozen=True, slots=True)
class Task:
    """A model file to judge; `in_c`: also by its C, which takes seconds to build."""

    path: str
    in_c: bool = True


def serve(pipe: Connection) -> None:
    """Answers each task with an outcome until the pipe is closed.

    Between compiling and running it says "compiled", so that the limit on time can be kept."""
    pipe.send(READY)
    warnings.simplefilter("error")  # a warning of Python on a user's terminal is a finding too
    while True:
        try:
            task: Task = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(task, pipe))


def judge(task: Task, pipe: Connection | None = None) -> Outcome:
    """The outcome of one model file."""
    path = task.path
    try:
        limit_memory(MEMORY_BYTES)
        compiled = api.compile(path, assume_int8=path.endswith(ASSUMED))
        with tempfile.TemporaryDirectory() as folder:
            compiled.write(Path(folder) / "out")
        if pipe:
            pipe.send("compiled")
        return _verified(compiled.compilation, task.in_c)
    except InternalError as error:
        return Outcome("internal error", error.code, f"{error}\n{traceback.format_exc()}")
    except PenstockError as error:
        complete = error.what and error.where
        kind = "refused" if complete else "incomplete message"
        if error.code in ("tool-003", "tool-020"):
            kind = "generated C failed"
        return Outcome(kind, error.code, str(error))
    except Exception as error:  # whatever else is raised is the finding
        return Outcome("traceback", type(error).__name__, traceback.format_exc())
    finally:
        limit_memory(None)


def _verified(done: Compilation, in_c: bool) -> Outcome:
    if done.model.macs() > MOST_MACS or _bytes(done) > MOST_BYTES:
        return Outcome("compiled", note="too large to run")
    sets = api.drawn_sets(done, api.DRAWN_SETS)
    for rung in ladder.climb(done, None, sets):
        if rung.compared.mismatches:
            return Outcome("mismatch", rung.step, str(rung.compared.first))
        if rung.step == "machine":
            limit_memory(None)  # the address sanitizer reserves terabytes
            if not in_c:
                break
    return _as_reference(done, sets[0])


def _as_reference(done: Compilation, inputs: Mapping[str, Array]) -> Outcome:
    """Outputs are those of TensorFlow Lite Micro, where it takes the file; or each operator by
    itself agrees with it or deviates as documented (`simulators/tflite_deviations.py`)."""
    path = Path(done.request.model)
    if path.suffix != ".tflite" or importlib.util.find_spec("tflite_micro") is None:
        return Outcome("verified")
    raw = unpacked(path.read_bytes(), path.name)
    answer = _reference().run(raw, tuple(inputs.values()))
    if isinstance(answer, Refusal):
        return Outcome("verified", note=f"the reference refuses it: {answer.reason}")
    values = run_graph(done.model, {**inputs, **initial_states(done.model)})
    found = tuple(
        values[v.name] if v.data is None else v.data.array(v.type) for v in done.model.outputs
    )
    ulps = max(tolerances(done.model).values(), default=0)  # as goldens are compared
    if not (difference := judging.first_difference(found, answer, ulps=ulps)):
        return Outcome("verified", note="against the reference")
    verdicts = [
        judging.judge(drawn, _reference())
        for drawn in nodes_as_models(tflite.decode(raw, path.name), values)
    ]
    wrong = (v for v in verdicts if v.outcome is judging.Outcome.MISMATCH)
    if (verdict := next(wrong, None)) is not None:
        return Outcome("differs", "reference", verdict.note)
    if any(v.outcome is judging.Outcome.DEVIATES for v in verdicts):
        return Outcome("verified", note="deviates as documented")
    return Outcome("differs", "reference", difference)


@cache
def _reference() -> Reference:
    """The process of this process that runs TensorFlow Lite Micro."""
    return Reference(ARENA_BYTES)


def _bytes(done: Compilation) -> int:
    values = (*done.model.variables(), *done.model.constants())
    return sum(value.type.size_bytes for value in values)
