"""What happens to a mutant: it is compiled, then verified rung by rung; in a process of its own."""

from __future__ import annotations

import os
import resource
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.mutations import ASSUMED
from penstock import api, ladder
from penstock.errors import InternalError, PenstockError, ToolError
from penstock.ir.tensor import Array
from penstock.pipeline import Compilation
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro

READY = "ready"
"""Said once, when everything is imported: no mutant pays for that."""
MEMORY_BYTES = 4 << 30
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


def serve(pipe: Connection) -> None:
    """Takes paths of model files and answers with (stage, outcome) until the pipe is closed.

    Between compiling and running it says "compiled", so that the limit on time can be kept."""
    os.setsid()
    pipe.send(READY)
    warnings.simplefilter("error")  # a warning of Python on a user's terminal is a finding too
    while True:
        try:
            path: str | None = pipe.recv()
        except EOFError:
            return
        if path is None:
            return
        pipe.send(judge(path, pipe))


def judge(path: str, pipe: Connection | None = None) -> Outcome:
    """The outcome of one model file."""
    try:
        _limit_memory(MEMORY_BYTES)
        compiled = api.compile(path, assume_int8=path.endswith(ASSUMED))
        with tempfile.TemporaryDirectory() as folder:
            compiled.write(Path(folder) / "out")
        if pipe:
            pipe.send("compiled")
        return _verified(compiled.compilation)
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
        _limit_memory(None)


def _verified(done: Compilation) -> Outcome:
    if done.model.macs() > MOST_MACS or _bytes(done) > MOST_BYTES:
        return Outcome("compiled", note="too large to run")
    sets = api.drawn_sets(done, api.DRAWN_SETS)
    _limit_memory(None)  # the address sanitizer reserves terabytes
    for rung in ladder.climb(done, None, sets):
        if rung.comparison.mismatches:
            return Outcome("mismatch", rung.step, str(rung.comparison.first))
    return _as_reference(done, sets[0])


def _as_reference(done: Compilation, inputs: Mapping[str, Array]) -> Outcome:
    """Outputs are those of TensorFlow Lite Micro, where it takes the file."""
    path = Path(done.request.model)
    if path.suffix != ".tflite":
        return Outcome("verified")
    values = run_graph(done.model, inputs)
    try:
        truth = run_tflite_micro(path.read_bytes(), tuple(inputs.values()))
    except ToolError as error:
        return Outcome("verified", note=f"the reference refuses it: {error.what}")
    for value, expected in zip(done.model.outputs, truth.outputs, strict=True):
        found = values[value.name] if value.data is None else value.data.array(value.type)
        if found.shape != expected.shape or not np.array_equal(found, expected):
            return Outcome("differs", "reference", f'output "{value.name}"')
    return Outcome("verified", "against the reference")


def _bytes(done: Compilation) -> int:
    values = (*done.model.variables(), *done.model.constants())
    return sum(value.type.size_bytes for value in values)


def _limit_memory(more: int | None) -> None:
    """Limits the address space to so many bytes more than are taken, by libraries and what else
    this process has done; the hard limit stays, so that None can lift it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if more is None else _taken_bytes() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _taken_bytes() -> int:
    """Bytes of address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
