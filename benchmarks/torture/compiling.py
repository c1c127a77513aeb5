"""Compiles a model file as a user would, and climbs the ladder at every point of the frontier."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.torture.case import Outcome, Verdict
from benchmarks.watched_process import limit_memory
from penstock import api, ladder
from penstock.errors import InternalError, PenstockError, ToolError
from penstock.execution import firmware, run_on_host
from penstock.ir.tensor import Array
from penstock.optional import strict
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placing import PlacedPoint
from penstock.simulators.compare import compare_sets
from penstock.simulators.graph import run_sequences

MOST_MACS = 50_000_000
MOST_BYTES = 8 << 20
"""Networks above these are compiled, but not run."""
BROKEN_C = ("tool-003", "tool-020")
"""Codes of errors that a compiler or a sanitizer reports about the generated C."""


def compiled(path: Path, target: str, deep: bool) -> Compilation:
    """The compilation of a file; if `deep`, the report with its alternatives and suggestions, too,
    whose failures users do not notice.  Raises PenstockError."""
    wanted = api.request(path, target)
    with strict():
        return api.compile(wanted).compilation if deep else compile_request(wanted)


def refusal(error: PenstockError) -> Verdict:
    """The verdict on an error: a refusal names a remedy and does not call a valid file
    malformed."""
    note = str(error)
    if isinstance(error, InternalError):
        return Verdict(Outcome.INTERNAL, error.code, error.where, note)
    if isinstance(error, ToolError) and error.code in BROKEN_C:
        return Verdict(Outcome.WRONG, error.code, "generated C", note)
    cause = _operator(error)
    singles = error.combined or (error,)
    if any("malformed" in str(each) for each in singles):
        return Verdict(Outcome.MALFORMED, error.code, cause, note)
    if not all(each.what and each.where and each.help for each in singles):
        return Verdict(Outcome.NO_REMEDY, error.code, cause, note)
    return Verdict(Outcome.REFUSED, error.code, cause, note)


def _operator(error: PenstockError) -> str:
    """What `penstock scan` counts the error under, without the names of the model."""
    text = error.cause or error.what
    return " ".join(word for word in text.split() if not any(c.isdigit() or c == '"' for c in word))


def ladder_verdict(done: Compilation, sets: Sequence[Mapping[str, Array]], deep: bool) -> Verdict:
    """The verdict of the machine at every point, and of C on this machine; `deep`: also of the
    simulated core, at the selected point and at some others (`_others`)."""
    if not is_small(done):
        return Verdict(Outcome.EXACT, note="too large to run")
    for rung in ladder.climb(done, ladder.Truth(), sets, every_point=True):
        if wrong := mismatch(rung):
            return wrong
        if rung.step == "points":
            limit_memory(None)  # the address sanitizer reserves terabytes
        if rung.step == "host" and not deep:
            break
    for point in _others(done) if deep else ():
        if wrong := mismatch(_outputs_rung(done, point, sets[0]), f" of {point.height_bytes} B"):
            return wrong
    return Verdict(Outcome.EXACT)


def _outputs_rung(
    done: Compilation, point: PlacedPoint, inputs: Mapping[str, Array]
) -> ladder.Rung:
    """The outputs of a point's C on the simulated core, or on this machine for targets without
    one."""
    inputs = ladder.with_interface(done, inputs)
    (expected,) = run_sequences(done.model, (inputs,), 1)
    other = with_point(done, point)
    if done.request.target.core is None:
        step, (found,) = "host", run_on_host(other, (inputs,)).tensors
    else:
        with firmware(other) as chip:
            step, found = "core", chip.run(inputs, any_stack=True).tensors
    outputs = {view.tensor for view in other.program.outputs}
    names = [name for name in ladder.surviving(other) if name in outputs]
    return ladder.Rung(step, compare_sets(names, (found,), (expected,)))


def _others(done: Compilation) -> list[PlacedPoint]:
    """The points with the least and the most memory, and one between them, of those that are not
    selected."""
    points = done.points
    drawn = zlib.crc32(b"".join(content for _, content in done.bundle.files))
    some = {0, drawn % len(points), len(points) - 1}
    return [points[k] for k in sorted(some) if points[k] is not done.point]


def mismatch(rung: ladder.Rung, of: str = "") -> Verdict | None:
    """A verdict if a rung found a difference."""
    if rung.comparison is None or not rung.comparison.mismatches:
        return None
    return Verdict(Outcome.WRONG, rung.step, "", f"{rung.step}{of}: {rung.comparison.first}")


def is_small(done: Compilation) -> bool:
    """Whether a network is run, and not only compiled."""
    values = (*done.model.variables(), *done.model.constants())
    size_bytes = sum(value.type.size_bytes for value in values)
    return done.model.macs() <= MOST_MACS and size_bytes <= MOST_BYTES
