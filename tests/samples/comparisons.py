"""Samples of the operators of `penstock.ops.comparisons`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, integers, reals, sample, weights
from penstock.ir.tensor import DType, TensorType
from penstock.ops.comparisons import Compare, Connective, Logical, PlainCompare, Relation, Select

_TRUTHS = TensorType((1, 4, 3, 5), DType.BOOL)

SAMPLES = (
    sample(Compare(Relation.GREATER), int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)),
    sample(Compare(Relation.NOT_EQUAL), int8(2, 4, 3, 5), int8(1, 1, 5)),
    sample(Compare(Relation.LESS_EQUAL), int8(4, 5), weights(1)),
    sample(PlainCompare(Relation.GREATER), integers(1, 4, 3, 5), integers(1, 1, 5)),
    sample(PlainCompare(Relation.LESS), reals(4, 5), reals()),
    sample(
        PlainCompare(Relation.EQUAL),
        TensorType((2, 7), DType.BOOL),
        TensorType((2, 7), DType.BOOL),
    ),
    sample(
        PlainCompare(Relation.GREATER_EQUAL),
        TensorType((3, 2, 5), DType.INT64),
        TensorType((3, 2, 1), DType.INT64),
    ),
    sample(Logical(Connective.LOGICAL_AND), _TRUTHS, _TRUTHS),
    sample(Logical(Connective.LOGICAL_OR), _TRUTHS, TensorType((5,), DType.BOOL)),
    sample(Select(), _TRUTHS, int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(
        Select(), TensorType((4, 1, 1), DType.BOOL), int8(5), int8(2, 4, 3, 1), scale=0.05, zero=-3
    ),
    sample(Select(), _TRUTHS, integers(1, 4, 1, 5), integers()),
)
