"""Samples of the operators of `penstock.ops.binary`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample, weights
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Div, Maximum, Minimum, Mul, Prelu, SquaredDifference, Sub

_IMAGE, _OTHER = int8(1, 4, 3, 5), int8(1, 4, 3, 5, scale=0.03, zero=7)

SAMPLES = (
    sample(Add(), _IMAGE, _OTHER),
    sample(Add(Activation.RELU), int8(2, 4, 3, 5), int8(1, 1, 1, 5)),
    sample(Add(), int8(4, 1, 5), int8(1, 3, 1)),
    sample(Sub(), _IMAGE, _OTHER),
    sample(Sub(Activation.RELU6), int8(1, 1, 5), int8(4, 3, 5)),
    sample(Mul(), _IMAGE, _OTHER),
    sample(Mul(Activation.RELU), int8(2, 4, 3, 5), int8(2, 1, 1, 5)),
    sample(Mul(), int8(4, 3), weights(3)),
    sample(Div(), _IMAGE, int8(1, 4, 3, 5, scale=0.03, zero=-128), scale=0.02),
    sample(Div(Activation.RELU6), int8(2, 4, 3, 5), int8(4, 1, 1, zero=7), scale=0.04, zero=-128),
    sample(SquaredDifference(), _IMAGE, _OTHER),
    sample(SquaredDifference(), int8(2, 4, 3, 5), int8(4, 1, 1), scale=0.3, zero=-128),
    sample(Prelu(), _IMAGE, weights(1, 1, 5), scale=0.04, zero=-20),
    sample(Prelu(), int8(2, 4, 3, 5), int8(4, 3, 5, scale=0.01, zero=9)),
    *(
        sample(op, *inputs, scale=0.05, zero=-3)
        for op in (Maximum(), Minimum())
        for inputs in ((_IMAGE, _IMAGE), (int8(5), int8(2, 4, 1, 5)))
    ),
)
