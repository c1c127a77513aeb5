"""Samples of the operators of `penstock.ops.plain_recurrent`."""

from __future__ import annotations

from benchmarks.small_tensors import narrow_weights, real_bias, real_weights, reals, sample
from penstock.opkit.activation import Limits
from penstock.ops.plain_recurrent import PlainGru, PlainLstm, PlainRnn

SAMPLES = (
    sample(PlainRnn(), reals(1, 5, 2, 3), reals(2, 3), real_weights(3, 3)),
    sample(PlainRnn(rectified=True), reals(1, 3, 1, 6), reals(1, 6), real_weights(6, 6)),
    sample(PlainGru(), reals(1, 4, 1, 15), reals(1, 5), real_weights(15, 5)),
    sample(
        PlainGru(reset_after=True), reals(1, 3, 2, 9), reals(2, 3), real_weights(9, 3), real_bias(3)
    ),
    sample(PlainLstm(), reals(1, 4, 1, 16), reals(1, 4), reals(1, 4), real_weights(16, 4)),
    sample(
        PlainLstm(peepholes=True),
        reals(1, 3, 2, 12),
        reals(2, 3),
        reals(2, 3),
        real_weights(12, 3),
        real_bias(9),
    ),
    *(
        sample(
            PlainLstm(scales=(0.01, 0.02, 0.03, 0.005), symmetric=is_symmetric),
            reals(1, 3, 2, 20),
            reals(2, 5),
            reals(2, 5),
            narrow_weights(20, 5),
        )
        for is_symmetric in (False, True)
    ),
    sample(
        PlainLstm(limits=Limits(-0.3, 0.3)),
        reals(1, 4, 1, 8),
        reals(1, 2),
        reals(1, 2),
        real_weights(8, 2),
    ),
)
