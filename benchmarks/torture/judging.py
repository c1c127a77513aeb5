"""Judges a case whatever happens: an exception that is no refusal is a finding, not an end."""

from __future__ import annotations

import os
import traceback

import penstock
from benchmarks.torture.case import Case, Outcome, Verdict

INSIDE = os.path.dirname(penstock.__file__) + os.sep


def verdict_on(case: Case, deep: bool) -> Verdict:
    """The verdict of the case's judge; exceptions of penstock are internal errors.

    Raises whatever the judge itself raises."""
    try:
        return case.judge(case, deep)
    except MemoryError:
        return Verdict(Outcome.MEMORY, note=traceback.format_exc(limit=-3))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [frame for frame in frames if frame.filename.startswith(INSIDE)]
        if not inside:
            raise
        last = inside[-1]
        place = f"{os.path.basename(last.filename)}:{last.name}"
        return Verdict(
            Outcome.INTERNAL, type(error).__name__, place, traceback.format_exc(limit=-6)
        )
