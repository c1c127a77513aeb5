"""Delta debugging: the smallest model found that gets the same verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.torture.case import Case, Outcome, Verdict
from benchmarks.torture.judging import verdict_on
from benchmarks.torture.onnx_reductions import onnx_reductions
from benchmarks.torture.tflite_reductions import tflite_reductions

SECONDS = 60.0
Reductions = Callable[[bytes], Iterator[bytes]]
"""Smaller models that a model yields, the most promising first."""
REDUCTIONS: dict[str, Reductions] = {".onnx": onnx_reductions, ".tflite": tflite_reductions}


def minimised(case: Case, verdict: Verdict, seconds: float = SECONDS) -> tuple[Case, Verdict]:
    """The smallest case found in that time, and its verdict."""
    reductions = REDUCTIONS.get(case.suffix, _irreducible)
    end = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for raw in reductions(case.raw):
            if time.monotonic() > end:
                break
            if len(raw) >= len(case.raw):
                continue
            candidate = replace(case, raw=raw)
            found = _verdict(candidate)
            if found is not None and same(found, verdict):
                case, verdict, smaller = candidate, found, True
                break
    return case, verdict


def _irreducible(raw: bytes) -> Iterator[bytes]:
    """No smaller models."""
    yield from ()


def same(a: Verdict, b: Verdict) -> bool:
    """Whether verdicts are of one class; a wrong result may move to another node."""
    if a.outcome is Outcome.WRONG and b.outcome is Outcome.WRONG:
        return a.code == b.code
    return a.signature == b.signature


def _verdict(case: Case) -> Verdict | None:
    """The verdict; None where the judge itself fails, as for a model that is no longer one."""
    try:
        return verdict_on(case, False)
    except Exception:  # whatever it is, the candidate shows another mistake
        return None
