"""Samples of the operators of `penstock.ops.unary`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.fixedpoint import float32
from penstock.opkit.activation import Activation
from penstock.opkit.lookup import Numerics
from penstock.ops.unary import (
    Abs,
    Elu,
    Exp,
    Gelu,
    HardSwish,
    LeakyRelu,
    Log,
    Logistic,
    Relu,
    Rsqrt,
    Sqrt,
    Tanh,
)

_IMAGE = int8(1, 4, 3, 5)

SAMPLES = (
    sample(Abs(), _IMAGE, scale=0.03, zero=-128),
    sample(Abs(), int8(3, 5), scale=0.05, zero=-100),
    sample(Abs(Numerics.REAL), int8(3, 5), scale=0.05, zero=-100),
    sample(Abs(), int8(3, 5), scale=0.1),
    sample(Exp(), int8(1, 4, 3, 5, scale=0.02), scale=0.06, zero=-128),
    sample(Exp(), int8(13), scale=2.0, zero=-128),
    sample(Exp(Numerics.REAL), int8(13), scale=2.0, zero=-128),
    sample(Log(), int8(1, 4, 3, 5, scale=0.04, zero=-90), scale=0.05, zero=20),
    sample(Log(), int8(13, zero=-128), scale=0.03, zero=127),
    sample(Sqrt(), int8(1, 4, 3, 5, scale=0.02, zero=-128), scale=0.009, zero=-128),
    sample(Sqrt(), int8(13), scale=0.02, zero=5),
    sample(Rsqrt(), int8(1, 4, 3, 5, zero=-128), scale=0.02, zero=-128),
    sample(Rsqrt(), int8(13, zero=-100), scale=0.05, zero=-90),
    sample(Logistic(), _IMAGE, scale=1 / 256, zero=-128),
    sample(Logistic(), int8(9, scale=0.4), scale=1 / 256, zero=-128),
    sample(Logistic(Numerics.REAL), _IMAGE, scale=1 / 255, zero=-128),
    sample(Tanh(), _IMAGE, scale=1 / 128, zero=0),
    sample(Tanh(), int8(2, 7, scale=0.3), scale=1 / 128, zero=0),
    sample(Tanh(Numerics.REAL), int8(2, 7, scale=0.3), scale=1 / 127, zero=0),
    sample(Elu(), _IMAGE, scale=0.03, zero=-95),
    sample(Elu(), int8(9, scale=0.4), scale=0.2, zero=0),
    sample(Elu(0.5, Numerics.REAL), int8(3, 5), scale=0.04, zero=-100),
    sample(Gelu(), _IMAGE, scale=0.03, zero=-121),
    sample(Gelu(approximate=True), int8(3, 5), scale=0.03, zero=-121),
    sample(Gelu(numerics=Numerics.REAL), int8(3, 5), scale=0.03, zero=-121),
    sample(Gelu(), int8(3, 5), scale=0.1, zero=-121),
    sample(LeakyRelu(float32(0.1)), _IMAGE, scale=0.03),
    sample(LeakyRelu(-0.5), int8(3, 5)),
    sample(LeakyRelu(0.1, Numerics.REAL), int8(9, scale=0.4)),
    sample(HardSwish(), _IMAGE, scale=0.03, zero=-112),
    sample(HardSwish(), int8(11, scale=0.2), scale=0.2, zero=-110),
    sample(HardSwish(Numerics.REAL), int8(11, scale=0.2), scale=0.002, zero=-110),
    sample(Relu(), _IMAGE, scale=0.03, zero=-128),
    sample(Relu(Activation.RELU6), int8(7)),
    sample(Relu(Activation.RELU_N1_TO_1), int8(3, 5), scale=0.01, zero=0),
)
