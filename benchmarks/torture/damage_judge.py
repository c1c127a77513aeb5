"""Judge of damaged files: an error message, or exact (`benchmarks.fuzz_worker`)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import fuzz_worker
from benchmarks.torture.case import Case, Outcome, Verdict

OUTCOMES = {
    "refused": Outcome.REFUSED,
    "verified": Outcome.EXACT,
    "compiled": Outcome.EXACT,
    "internal error": Outcome.INTERNAL,
    "traceback": Outcome.INTERNAL,
    "incomplete message": Outcome.NO_REMEDY,
}


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on a file that may be no model."""
    with tempfile.TemporaryDirectory(prefix="penstock-torture-") as folder:
        path = Path(folder) / f"mutant{case.suffix}"
        path.write_bytes(case.raw)
        found = fuzz_worker.judge(fuzz_worker.Task(str(path), in_c=deep))
    outcome = OUTCOMES.get(found.kind, Outcome.WRONG)
    if "MemoryError" in (found.code, found.note.strip().splitlines()[-1:]):
        outcome = Outcome.MEMORY
    cause = "" if outcome is Outcome.REFUSED else found.kind
    return Verdict(outcome, found.code, cause, found.note)
