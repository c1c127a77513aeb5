"""Samples of the operators of `penstock.ops.real_function`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ops.real_function import RealFunction

SAMPLES = (
    sample(RealFunction("HardSigmoid", (0.2, 0.5)), int8(1, 4, 3, 5), scale=1 / 255, zero=-128),
    sample(RealFunction("Softsign"), int8(9, scale=0.4)),
    sample(RealFunction("Log"), int8(3, 5), scale=0.03, zero=4),
)
