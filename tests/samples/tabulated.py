"""Samples of the operators of `penstock.ops.tabulated`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, sample
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.opkit.activation import Limits
from penstock.ops.conversions import Cast, Dequantize, QuantizeReal
from penstock.ops.plain import PlainMul, PlainSub, PlainTanh
from penstock.ops.tabulated import ElementTable, Step, Tabulated

_CURVE = ElementTable(tuple(k * k // 128 - 64 for k in range(-128, 128)))

_STEPS = ElementTable(tuple(-k & ~7 for k in range(-127, 129)))

_UNSIGNED = TensorType((2, 9), DType.UINT8, Quantisation((0.1,), (128,)))

SAMPLES = (
    sample(_CURVE, int8(1, 4, 3, 5)),
    sample(_STEPS, int8(7), scale=0.2, zero=-9),
    sample(
        Tabulated((Step(Dequantize()), Step(PlainTanh()), Step(QuantizeReal()))),
        int8(1, 4, 3, 5),
        scale=0.01,
        zero=0,
    ),
    sample(
        Tabulated(
            (
                Step(Cast(DType.FLOAT32)),
                Step(PlainSub(), 127.5, number_first=True),
                Step(PlainMul(Limits(0.0, 6.0)), 0.0078125),
                Step(QuantizeReal()),
            )
        ),
        _UNSIGNED,
        scale=0.0078125,
        zero=-1,
    ),
)
