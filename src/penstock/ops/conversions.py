"""Conversions of elements: between types (Cast), and to and from a quantisation.

Sources: TFLite CAST; `micro/kernels/cast.cc`.  QUANTIZE; `reference/requantize.h`,
`reference/quantize.h`.  DEQUANTIZE; `reference/dequantize.h`.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, members, row_kernel
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.broadcast import Elementwise, unary_node, width
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_quantised,
)
from penstock.opkit.lookup import ELEMENTS, LARGEST_STEPS, Lookup, saturated
from penstock.opkit.requantise import fitting_multiplier


@frozen
class Cast(Elementwise):
    """Conversion between element types.

        x  any shape  int8, uint8, int16, int32, int64, bool or float32
        y  as x       `dtype`, one of these

    float32 becomes float16, rounded to nearest, ties to even, and float16 becomes float32.
    Otherwise, real numbers are rounded towards 0.  Those outside of int32, or int64 where the
    output is int64, saturate, and NaN becomes 0; in TFLite both are undefined.  Integers that
    leave the range of the output keep their lowest bits.  Quantisation is ignored.

    Source: TFLite CAST; `micro/kernels/cast.cc`."""

    dtype: DType

    TFLITE = ("CAST",)
    RELAY = relay("cast")

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "Cast")
        if self.dtype is DType.FLOAT16:
            require_dtype(x, "input", DType.FLOAT32)
        require(
            x.dtype is not DType.FLOAT16 or self.dtype is DType.FLOAT32,
            f"float16 is converted to {self.dtype.value}, must be converted to float32",
        )
        return TensorType(x.shape, self.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, reals = inputs[0][out.slices], (DType.FLOAT16, DType.FLOAT32)
        if site.x.dtype is DType.FLOAT32 and self.dtype not in (*reals, DType.BOOL):
            bits = 64 if self.dtype is DType.INT64 else 32
            x = _truncated(x, bits)
        with np.errstate(over="ignore"):
            return x.astype(self.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        x, y = site.x, site.output
        if DType.FLOAT16 in (x.dtype, y.dtype):
            return row_kernel("cast_halves", width(site), narrows=y.dtype is DType.FLOAT16)
        source = members(in_bytes=x.dtype.size_bytes, in_signed=x.dtype.is_signed)
        target = members(out_bytes=y.dtype.size_bytes, out_bool=y.dtype is DType.BOOL)
        match x.dtype is DType.FLOAT32, y.dtype is DType.FLOAT32:
            case True, False:
                return row_kernel("cast_f32_integers", width(site), target)
            case False, True:
                return row_kernel("cast_integers_f32", width(site), source)
            case _:
                return row_kernel("cast_integers", width(site), source, target)


def _truncated(x: Array, bits: int) -> Array:
    """Integers of `bits` bits, as int64."""
    limit = 2.0 ** (bits - 1)
    inside = (x < limit) & (x >= -limit)
    ends = np.where(x > 0, 2 ** (bits - 1) - 1, np.where(x < 0, -(2 ** (bits - 1)), 0))
    return np.where(inside, np.where(inside, x, 0).astype(np.int64), ends)


EIGHT_BITS = (DType.INT8, DType.UINT8)
WIDE = (
    (DType.INT8, DType.INT16),
    (DType.INT8, DType.INT32),
    (DType.INT16, DType.INT8),
    (DType.INT16, DType.INT16),
    (DType.INT16, DType.INT32),
)
"""Element types of input and output of QuantizeWide, as in TensorFlow Lite Micro
(`micro/kernels/quantize_common.cc`)."""


@frozen
class Quantize(Lookup):
    """Conversion of integers, or of real numbers, to a quantisation.

        x  any shape  int8 or uint8 (Quantize), int8 or int16 (QuantizeWide), float32 (QuantizeReal)
        y  as x       int8; or uint8 (Quantize), int16 or int32 (QuantizeWide)

        Quantize, QuantizeWide
                      y = clamp(zero_y + M * (x - zero_x))
        QuantizeReal  y = clamp(zero_y + round(x / scale_y)), in single precision; half away from
                      zero, or to even as ONNX's QuantizeLinear

    Source: TFLite QUANTIZE; `reference/requantize.h`, `reference/quantize.h`.  ONNX operator
    specification."""

    dtype: DType = DType.INT8

    TFLITE = ("QUANTIZE",)
    RELAY = relay("qnn.requantize")

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "Quantize")
        require_dtype(inputs[0], "input", *EIGHT_BITS)
        require_quantised(inputs[0], "input")
        return TensorType(inputs[0].shape, self.dtype)

    def table(self, x: TensorType, y: TensorType) -> Array:
        elements = ELEMENTS.astype(np.int8).view(x.dtype.value).astype(np.int64)
        multiplier = quantise_multiplier(x.scale / y.scale)
        found = multiply(elements - x.zero_point, *multiplier) + y.zero_point
        return np.clip(found, y.dtype.lower, y.dtype.upper - 1).astype(y.dtype.value).view(np.int8)


@frozen
class ShiftZero(Elementwise):
    """The same real numbers in the other 8-bit type: elements and zero point differ by 128.

    x  any shape  int8 or uint8
    y  as x       `dtype`, the other one"""

    dtype: DType

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "ShiftZero")
        require_dtype(inputs[0], "input", *(t for t in EIGHT_BITS if t is not self.dtype))
        require_quantised(inputs[0], "input")
        return TensorType(inputs[0].shape, self.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return (inputs[0][out.slices].view(np.uint8) ^ np.uint8(128)).view(self.dtype.value)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return (0,)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("shift_zero", width(site))


@frozen
class QuantizeReal(Elementwise):
    """Quantisation of real numbers; `to_even`: half to even, otherwise half away from zero.

    Quotients that overflow int32 saturate, and NaN counts as the smallest one; in TFLite, which
    converts quotients to int32 first, both are undefined."""

    to_even: bool = False

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "QuantizeReal")
        require_dtype(inputs[0], "input", DType.FLOAT32)
        return TensorType(inputs[0].shape, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = inputs[0][out.slices] / np.float32(site.output.scale)
        bounded = np.fmin(np.fmax(quotients, -LARGEST_STEPS), LARGEST_STEPS).astype(np.float64)
        away = np.trunc(bounded + np.copysign(0.5, bounded))
        steps = np.rint(bounded) if self.to_even else away
        return saturated(steps.astype(np.int64) + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        return row_kernel(
            "quantize_f32_s8",
            width(site),
            zero_point=y.zero_point,
            to_even=self.to_even,
            scale=Table.reals([y.scale]),
        )


@frozen
class QuantizeWide(Elementwise):
    """Requantisation to elements of type `dtype`, where input or output are wider than a byte."""

    dtype: DType = DType.INT8

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "QuantizeWide")
        require_dtype(inputs[0], "input", DType.INT8, DType.INT16)
        require_quantised(inputs[0], "input")
        y = TensorType(inputs[0].shape, self.dtype)
        require_dtype(y, "output", DType.INT8, DType.INT16, DType.INT32)
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, y = site.x, site.output
        centred = inputs[0][out.slices].astype(np.int64) - x.zero_point
        found = multiply(centred, *_wide_multiplier(x, y)) + y.zero_point
        return np.clip(found, y.dtype.lower, y.dtype.upper - 1).astype(y.dtype.value)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return (0,) if site.x.dtype is self.dtype else ()

    def kernel(self, site: Site) -> Kernel:
        x, y = site.x, site.output
        multiplier, shift = _wide_multiplier(x, y)
        return row_kernel(
            "quantize_wide",
            width(site),
            in_bytes=x.dtype.size_bytes,
            out_bytes=y.dtype.size_bytes,
            in_zero=x.zero_point,
            out_zero=y.zero_point,
            multiplier=multiplier,
            shift=shift,
        )


def _wide_multiplier(x: TensorType, y: TensorType) -> tuple[int, int]:
    """Raises UnsupportedError if a product may exceed 32 bits, also with the zero point."""
    largest = max(x.dtype.upper - x.zero_point, x.zero_point - x.dtype.lower)
    real = x.scale / y.scale
    # The zero point is added in 32 bits, too: it counts as steps of the input.
    spare = abs(y.zero_point) / real if y.zero_point and real else 0.0
    return fitting_multiplier(real, largest + math.ceil(min(spare, 2.0**31)))


@frozen
class Dequantize(Elementwise):
    """The real numbers that int8 elements represent.

        x  any shape  int8
        y  as x       float32     y = scale_x * (x - zero_x), in single precision

    Source: TFLite DEQUANTIZE; `reference/dequantize.h`."""

    TFLITE = ("DEQUANTIZE",)
    RELAY = relay("qnn.dequantize")

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "Dequantize")
        require_int8(inputs[0], "input")
        return TensorType(inputs[0].shape, DType.FLOAT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = site.x
        return x.real_numbers(inputs[0][out.slices])

    def kernel(self, site: Site) -> Kernel:
        x = site.x
        return row_kernel(
            "dequantize_s8_f32", width(site), zero_point=x.zero_point, scale=Table.reals([x.scale])
        )


def from_foreign(node: ForeignNode) -> Nodes:
    x, y = node.x, node.y
    match node.name:
        case "CAST":
            yield Made(Cast(y.dtype), (x,), y)
        case "DEQUANTIZE":
            yield unary_node(Dequantize(), node, DType.FLOAT32)
        case _ if x.dtype is DType.FLOAT32:
            yield unary_node(QuantizeReal(), node)
        case _:
            op = QuantizeWide if (x.dtype, y.dtype) in WIDE else Quantize
            if op is Quantize:
                require_dtype(y.type, "output", *EIGHT_BITS)
            require_quantised(y.type, "output")
            yield unary_node(op(y.dtype), node, y.dtype)
