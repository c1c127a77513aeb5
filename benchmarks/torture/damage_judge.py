"""Judge of damaged files: an error message that says what and where, or exact."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

from benchmarks.mutations import ASSUMED, TFLITE
from benchmarks.torture.case import Case, Outcome, Verdict
from benchmarks.torture.compiling import is_small, mismatch, refusal
from benchmarks.torture.tflite_judge import SETS, reference_verdict
from benchmarks.watched_process import limit_memory
from penstock import api, ladder
from penstock.errors import PenstockError
from penstock.frontends.open import unpacked
from penstock.optional import strict
from penstock.pipeline.compilation import Compilation, compile_request


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on a file that may be no model.

    Warnings of Python, which a user would see, are findings.  The report is made, and the C is
    run, if `deep`."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"mutant{case.suffix}"
        path.write_bytes(case.raw)
        try:
            with strict(), warnings.catch_warnings():
                warnings.simplefilter("error")
                wanted = api.request(path, case.target, assume_int8=case.suffix == ASSUMED)
                if not deep:
                    return _exactness(case, compile_request(wanted), deep)
                made = api.compile(wanted)
                made.write(Path(folder) / "out")
                return _exactness(case, made.compilation, deep)
        except PenstockError as error:
            return _refusal(error)


def _refusal(error: PenstockError) -> Verdict:
    """As of a model, but a damaged file may be called malformed, and nothing need help."""
    verdict = refusal(error)
    is_complete = verdict.outcome is Outcome.NO_REMEDY and error.what and error.where
    if verdict.outcome is Outcome.MALFORMED or is_complete:
        return replace(verdict, outcome=Outcome.REFUSED)
    return verdict


def _exactness(case: Case, done: Compilation, deep: bool) -> Verdict:
    """The verdict of the machine, of C if `deep`, and of the reference, which may refuse the
    file."""
    if not is_small(done):
        return Verdict(Outcome.EXACT, note="too large to run")
    sets = api.drawn_sets(done, SETS)
    for rung in ladder.climb(done, ladder.Truth(), sets):
        if wrong := mismatch(rung):
            return wrong
        if rung.step == "machine":
            limit_memory(None)  # the address sanitizer reserves terabytes
        if rung.step == ("host" if deep else "machine"):
            break
    if case.suffix != TFLITE:
        return Verdict(Outcome.EXACT)
    raw = unpacked(case.raw, f"mutant{case.suffix}")
    return reference_verdict(raw, done, sets[0]) or Verdict(Outcome.EXACT)
