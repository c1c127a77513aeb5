"""Samples of the operators of `penstock.ops.real_recurrent`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, real_bias, reals, sample, weights
from penstock.ops.real_recurrent import Gru, RealHidden, RealLstm

SAMPLES = (
    sample(RealHidden(3), reals(1, 4, 2, 6), scale=1 / 128, zero=0),
    sample(RealHidden(5), reals(1, 3, 1, 5), scale=0.03, zero=-7),
    sample(
        Gru(),
        int8(1, 5, 1, 3),
        reals(1, 4),
        weights(12, 3, axis=0, scale=0.004),
        weights(12, 4, axis=0, scale=0.004),
        real_bias(12),
    ),
    sample(
        Gru(reset_after=True),
        int8(1, 3, 2, 5, zero=9),
        reals(2, 3),
        weights(9, 5, scale=0.01, zero=3),
        weights(9, 3, axis=0, scale=0.003),
        real_bias(12),
    ),
    sample(
        Gru(),
        int8(1, 2, 1, 4),
        reals(1, 5),
        weights(15, 4, scale=0.01),
        weights(15, 5, scale=0.01, zero=-9),
        real_bias(15),
    ),
    sample(
        RealLstm(),
        int8(1, 5, 1, 3),
        reals(1, 4),
        reals(1, 4),
        weights(16, 3, axis=0, scale=0.004),
        weights(16, 4, axis=0, scale=0.004),
        real_bias(16),
    ),
    sample(
        RealLstm(),
        int8(1, 3, 2, 5, zero=9),
        reals(2, 3),
        reals(2, 3),
        weights(12, 5, scale=0.01, zero=-7),
        weights(12, 3, scale=0.01, zero=5),
        real_bias(12),
    ),
)
