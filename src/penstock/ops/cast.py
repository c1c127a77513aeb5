"""Cast: conversion between element types.

    x  any shape  int8, uint8, int16, int32, int64, bool or float32
    y  as x       `dtype`, one of these

Real numbers are rounded towards 0.  Those outside of int32, or int64 where the output is int64,
saturate, and NaN becomes 0; in TFLite both are undefined.  Integers that leave the range of the
output keep their lowest bits.  Quantisation is ignored.

Source: TFLite CAST; `micro/kernels/cast.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site, row_count
from penstock.ir.operator_facts import relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.checks import require
from penstock.opkit.samples import integers, reals, sample


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """Conversion to element type `dtype`."""

    dtype: DType

    TFLITE = ("CAST",)
    RELAY = relay("cast")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"Cast has {len(inputs)} inputs, must have 1")
        return TensorType(inputs[0].shape, self.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][out.slices]
        if site.inputs[0].dtype is DType.FLOAT32 and self.dtype not in (DType.FLOAT32, DType.BOOL):
            bits = 64 if self.dtype is DType.INT64 else 32
            x = _truncated(x, bits)
        return x.astype(self.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        x, y = site.inputs[0], site.output
        width = ("width", y.elements // row_count(y.shape))
        source = (
            ("in_bytes", x.dtype.size_bytes),
            ("in_signed", int(x.dtype not in (DType.UINT8, DType.BOOL))),
        )
        target = (("out_bytes", y.dtype.size_bytes), ("out_bool", int(y.dtype is DType.BOOL)))
        if x.dtype is DType.FLOAT32:
            if y.dtype is DType.FLOAT32:
                return Kernel("cast_integers", (width, *source, *target), by_rows=True)
            return Kernel("cast_f32_integers", (width, *target), by_rows=True)
        if y.dtype is DType.FLOAT32:
            return Kernel("cast_integers_f32", (width, *source), by_rows=True)
        return Kernel("cast_integers", (width, *source, *target), by_rows=True)


def _truncated(x: Array, bits: int) -> Array:
    """Integers of `bits` bits, as int64."""
    limit = 2.0 ** (bits - 1)
    inside = (x < limit) & (x >= -limit)
    ends = np.where(x > 0, 2 ** (bits - 1) - 1, np.where(x < 0, -(2 ** (bits - 1)), 0))
    return np.where(inside, np.where(inside, x, 0).astype(np.int64), ends)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite CAST."""
    yield Made(Cast(node.output().type.dtype), (node.input(0),), node.output())


_BYTES = TensorType((1, 4, 3, 5), DType.UINT8, Quantisation((0.1,), (128,)))

SAMPLES = (
    sample(Cast(DType.FLOAT32), integers(1, 4, 3, 5)),
    sample(Cast(DType.FLOAT32), _BYTES),
    sample(Cast(DType.INT32), reals(2, 4, 3, 5)),
    sample(Cast(DType.FLOAT32), TensorType((7,), DType.BOOL)),
    sample(Cast(DType.FLOAT32), reals(7)),
    sample(Cast(DType.INT64), reals(1, 4, 3, 5)),
    sample(Cast(DType.INT16), integers(1, 4, 3, 5)),
    sample(Cast(DType.BOOL), TensorType((9,), DType.BOOL)),
    sample(Cast(DType.INT32), TensorType((9,), DType.INT64)),
)
