"""Samples of the operators of `penstock.ops.integer_pairs`."""

from __future__ import annotations

from benchmarks.small_tensors import integers, sample
from penstock.ir.tensor import TensorType
from penstock.ops.integer_pairs import INTEGERS, IntegerFunction, IntegerPairs

SAMPLES = (
    *(
        sample(IntegerPairs(f), integers(1, 4, 3, 5), integers(1, 1, 5))
        for f in list(IntegerFunction)[:-2]
    ),
    *(
        sample(IntegerPairs(f), *(TensorType((2, 7), dtype),) * 2)
        for f in (IntegerFunction.SUB, IntegerFunction.MAX)
        for dtype in INTEGERS
    ),
)
