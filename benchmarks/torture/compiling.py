"""Compiles a model file as a user would, and climbs the ladder at every point of the frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.torture.case import Outcome, Verdict
from benchmarks.watched_process import limit_memory
from penstock import api, ladder
from penstock.errors import InternalError, PenstockError, ToolError
from penstock.ir.tensor import Array
from penstock.optional import strict
from penstock.pipeline.compilation import Compilation, with_point

MOST_MACS = 50_000_000
MOST_BYTES = 8 << 20
"""Networks above these are compiled, but not run."""
BROKEN_C = ("tool-003", "tool-020")
"""Codes of errors that a compiler or a sanitizer reports about the generated C."""


def compiled(path: Path, target: str) -> Compilation:
    """The compilation of a file.  Raises PenstockError; InternalError also if an alternative or a
    suggestion fails, which users do not notice."""
    with strict():
        return api.compile(path, target).compilation


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
    """The verdict of machine, every point, and C on this machine; `deep`: also of the simulated
    core, and of the C of every point."""
    if not is_small(done):
        return Verdict(Outcome.EXACT, note="too large to run")
    for rung in ladder.climb(done, ladder.Truth(), sets, every_point=True):
        if wrong := mismatch(rung):
            return wrong
        if rung.step == "points":
            limit_memory(None)  # the address sanitizer reserves terabytes
        if rung.step == "host" and not deep:
            break
    others = [point for point in done.points if point is not done.point]
    for point in others if deep else ():
        for rung in ladder.climb(with_point(done, point), ladder.Truth(), sets[:1]):
            if wrong := mismatch(rung, f" of {point.height_bytes} B"):
                return wrong
    return Verdict(Outcome.EXACT)


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
