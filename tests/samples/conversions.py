"""Samples of the operators of `penstock.ops.conversions`."""

from __future__ import annotations

from benchmarks.small_tensors import int8, integers, reals, sample
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.ops.conversions import (
    Cast,
    Dequantize,
    Quantize,
    QuantizeReal,
    QuantizeWide,
    ShiftZero,
)

_BYTES = TensorType((1, 4, 3, 5), DType.UINT8, Quantisation((0.1,), (128,)))

SAMPLES = (
    sample(Cast(DType.FLOAT32), integers(1, 4, 3, 5)),
    sample(Cast(DType.FLOAT32), _BYTES),
    sample(Cast(DType.INT32), reals(2, 4, 3, 5)),
    sample(Cast(DType.FLOAT32), TensorType((7,), DType.BOOL)),
    sample(Cast(DType.FLOAT32), reals(7)),
    sample(Cast(DType.INT64), reals(1, 4, 3, 5)),
    sample(Cast(DType.FLOAT16), reals(2, 4, 3, 5)),
    sample(Cast(DType.FLOAT32), TensorType((1, 4, 3, 5), DType.FLOAT16)),
    sample(Cast(DType.INT16), integers(1, 4, 3, 5)),
    sample(Cast(DType.BOOL), TensorType((9,), DType.BOOL)),
    sample(Cast(DType.INT32), TensorType((9,), DType.INT64)),
    sample(Quantize(), int8(1, 4, 3, 5)),
    sample(ShiftZero(DType.INT8), _BYTES, scale=0.1, zero=0),
    sample(ShiftZero(DType.UINT8), int8(2, 9), scale=0.05, zero=125),
    sample(QuantizeReal(), TensorType((1, 4, 3, 5), DType.FLOAT32), scale=0.011, zero=-128),
    sample(QuantizeReal(to_even=True), TensorType((3, 7), DType.FLOAT32), scale=0.0003),
    sample(Quantize(), int8(2, 3, 1, 4, 5), scale=0.011, zero=-128),
    sample(Quantize(DType.UINT8), int8(1, 4, 3, 5), zero=125),
    sample(Quantize(), TensorType((2, 9), DType.UINT8, Quantisation((0.1,), (128,))), scale=0.07),
    sample(QuantizeWide(), TensorType((2, 9), DType.INT16, Quantisation((0.001,), (0,)))),
    sample(QuantizeWide(DType.INT16), int8(1, 4, 3, 5), scale=0.002, zero=0),
    sample(QuantizeWide(DType.INT32), TensorType((1, 7), DType.INT16, Quantisation((0.1,), (-9,)))),
    sample(Dequantize(), int8(1, 4, 3, 5)),
    sample(Dequantize(), int8(9, scale=0.0039, zero=-128)),
)
