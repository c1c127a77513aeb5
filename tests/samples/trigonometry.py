"""Samples of the operators of `penstock.ops.trigonometry`."""

from __future__ import annotations

from benchmarks.small_tensors import reals, sample
from penstock.ops.trigonometry import AngleFunction, Sign, Trigonometric

SAMPLES = (
    *(sample(Trigonometric(f), x) for f in AngleFunction for x in (reals(1, 4, 3, 5), reals(7))),
    sample(Sign(), reals(3, 7)),
)
