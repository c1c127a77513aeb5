"""Samples of the operators of `penstock.ops.partial_product`."""

from __future__ import annotations

from benchmarks.small_tensors import bias, int8, integers, sample, weights
from penstock.choices import Rounding
from penstock.opkit.activation import Activation
from penstock.opkit.requantise import Multipliers
from penstock.ops.partial_product import PartialProduct, RequantiseSums

SAMPLES = (
    sample(PartialProduct(), bias(5), int8(1, 3, 4, 7), weights(5, 7, axis=0)),
    sample(PartialProduct(), integers(1, 4, 3, 5), int8(1, 4, 3, 6, zero=9), weights(5, 6)),
    sample(PartialProduct(), integers(3, 4), int8(3, 9), weights(4, 9, axis=0)),
    sample(PartialProduct(), integers(2, 3, 4), int8(2, 3, 5), weights(4, 5)),
    sample(RequantiseSums(Multipliers.of([0.002, 0.0004, 0.0001])), integers(1, 4, 3, 3)),
    sample(
        RequantiseSums(Multipliers.of([0.0003] * 2), Activation.RELU, Rounding.SINGLE),
        integers(5, 2),
    ),
    sample(RequantiseSums(Multipliers((9, -7), (7, 7), (-(2**24), 2**23))), integers(5, 2)),
)
