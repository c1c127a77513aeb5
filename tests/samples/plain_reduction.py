"""Samples of the operators of `penstock.ops.plain_reduction`."""

from __future__ import annotations

from benchmarks.small_tensors import integers, reals, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.integer_pairs import INTEGERS
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction

SAMPLES = (
    *(sample(PlainReduction(f, (1, 2)), reals(1, 5, 3, 4)) for f in ReductionFunction),
    *(sample(PlainReduction(f, (0, 2)), integers(3, 2, 5)) for f in ReductionFunction),
    *(
        sample(PlainReduction(ReductionFunction.SUM, (1,)), TensorType((3, 7), dtype))
        for dtype in INTEGERS
    ),
    sample(PlainReduction(ReductionFunction.MAX, (1,)), TensorType((3, 7), DType.BOOL)),
)
