"""Random TFLite networks with state: variables, explicit states, SVDF and LSTM layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.operators.states import KINDS, climbed
from benchmarks.torture.case import Case, Generator, Outcome, Verdict
from benchmarks.torture.compiling import mismatch, refusal
from benchmarks.watched_process import limit_memory
from penstock.errors import PenstockError

STEPS = 6


def draw(seed: int) -> Case:
    """The network of a seed, of each kind in turn."""
    kinds = tuple(KINDS.values())
    raw, states = kinds[seed % len(kinds)](seed, 0)
    return Case(raw, ".tflite", partial(judge, states=states))


def judge(case: Case, deep: bool, states: Mapping[str, str] | None = None) -> Verdict:
    """The verdict on sequences of runs, against TensorFlow Lite Micro."""
    limit_memory(None)  # the address sanitizer reserves terabytes
    try:
        rungs = climbed(case.raw, dict(states or {}), STEPS, core=deep)
    except PenstockError as error:
        return refusal(error)
    return next(filter(None, map(mismatch, rungs)), Verdict(Outcome.EXACT))


GENERATOR = Generator("tflite-states", draw, ("tflite_micro",))
