"""Samples of the operators of `penstock.ops.batch_matmul`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, reals, sample
from penstock.opkit.activation import Activation
from penstock.opkit.requantise import Multipliers
from penstock.ops.batch_matmul import BatchMatmul, PlainBatchMatmul

SAMPLES = (
    sample(BatchMatmul(), int8(1, 4, 4), int8(1, 4, 4, zero=9), scale=0.3),
    sample(BatchMatmul(), int8(2, 3, 5), int8(2, 5, 4, zero=9), scale=0.3),
    sample(BatchMatmul(True, True), int8(1, 5, 3), int8(4, 2, 5), scale=0.3),
    sample(
        BatchMatmul(False, True, Activation.RELU),
        int8(1, 3, 5),
        int8(1, 4, 5, zero=9),
        bias(4),
        scale=0.3,
    ),
    sample(BatchMatmul(False, True), int8(2, 3, 2, 6), int8(1, 3, 4, 6, zero=2), scale=0.3),
    sample(
        BatchMatmul(stated=Multipliers((77,), (15,), (-90000,))),
        int8(1, 4, 4),
        int8(1, 4, 4, zero=9),
    ),
    *(
        sample(op, reals(*a), reals(*b))
        for op, a, b in (
            (PlainBatchMatmul(), (2, 3, 5), (2, 5, 4)),
            (PlainBatchMatmul(True, True), (1, 5, 3), (4, 2, 5)),
            (PlainBatchMatmul(False, True), (2, 3, 2, 6), (1, 3, 4, 6)),
        )
    ),
)
