"""Samples of the operators of `penstock.ops.top_indices`."""

from __future__ import annotations

from benchmarks.small_tensors import integers, reals, sample
from penstock.ir.tensor import DType, TensorType
from penstock.ops.top_indices import TopIndices

SAMPLES = (
    sample(TopIndices(3), reals(2, 4, 3, 5)),
    sample(TopIndices(2, largest=False), reals(7)),
    sample(TopIndices(4), integers(3, 9)),
    sample(TopIndices(1, largest=False), TensorType((2, 3, 4), DType.UINT8)),
)
