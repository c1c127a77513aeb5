"""Lookup: base of operators of one int8 variable, computed by a 256-entry table.

    x  any shape  int8
    y  as x       int8     y = table[x + 128]

Tables are computed with the arithmetic of the reference: as TFLite computes them, or in real
arithmetic, as ONNX defines quantised networks.

Source of the tables of sigmoids: TFLite Micro, `micro/kernels/logistic_common.cc` and `tanh.cc`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from functools import lru_cache

import numpy as np

from penstock.fixedpoint import (
    Int64s,
    float32,
    multiply,
    quantise_multiplier,
    round_half_away,
    rounding_shift,
)
from penstock.frozen import frozen
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, row_kernel
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType
from penstock.opkit.broadcast import Elementwise, width
from penstock.opkit.checks import require, require_count, require_int8


class Numerics(Enum):
    """Definition of an operator's results, where TFLite and ONNX round differently.

    An accelerator that implements only one of them restricts its pattern:
    `is_op("sigmoid").has_attr({"numerics": "TFLITE"})`.
    """

    TFLITE = "tflite"
    """The arithmetic of TFLite's kernel: fixed point or single precision, as the operator's file
    states."""
    REAL = "real"
    """ONNX: real arithmetic, here in double precision, between DequantizeLinear and QuantizeLinear;
    rounded once, half to even (`real_table`)."""


ELEMENTS: Int64s = np.arange(-128, 128, dtype=np.int64)
"""Every int8 element, in the table's order."""
LARGEST_STEPS = 512.0
"""Largest magnitude of a quotient of a real number and a scale, before it is rounded; larger ones
are clamped to it.  It saturates every 8-bit element, whatever the zero point."""


@frozen
class Lookup(Elementwise, ABC):
    """A function of one int8 variable."""

    @abstractmethod
    def table(self, x: TensorType, y: TensorType) -> Array:
        """Output elements for the input elements -128 .. 127: int8, shape (256,)."""

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, type(self).__name__)
        require_int8(inputs[0], "input")
        return TensorType(inputs[0].shape, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        table = _table(self, site.x, site.output)
        elements = inputs[0][out.slices].view(np.int8).astype(np.int64)
        return table[elements + 128].view(site.output.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        x, y = site.x, site.output
        return row_kernel("lookup_s8", width(site), table=Table.of(self.table(x, y)))


@lru_cache(maxsize=512)
def _table(op: Lookup, x: TensorType, y: TensorType) -> Array:
    """The table, memoised because a tensor is evaluated region by region."""
    return op.table(x, y)


def saturated(y: Int64s) -> Array:
    """Elements clamped to int8."""
    return np.clip(y, -128, 127).astype(np.int8)


def scale_ratio(x: TensorType, y: TensorType) -> float:
    """Scale of x over scale of y, in double precision.

    TensorFlow, and TensorFlow Lite Micro before 2026, divide in single precision, which changes
    elements whose exact value is close to a tie (tensorflow/tflite-micro, issue 3271)."""
    return x.scale / y.scale


def sampled(function: Callable[[float], float], x: TensorType, y: TensorType) -> Array:
    """Table of a function evaluated in single precision, as TFLite computes it.

    The input is dequantised, and the result multiplied by the reciprocal of the output's scale, in
    single precision.

    Source: TFLite, `LUTPopulate` (kernels/internal/common.h)."""
    inverse = float32(1.0 / y.scale)
    found: list[int] = []
    for element in ELEMENTS:
        scaled = float32(function(float32(x.scale * (int(element) - x.zero_point))) * inverse)
        bounded = min(max(scaled, -LARGEST_STEPS), LARGEST_STEPS)
        found.append(round_half_away(bounded) + y.zero_point)
    return saturated(np.array(found, np.int64))


UNIT_INTERVAL = Quantisation((1 / 256,), (-128,))
"""int8 quantisation of real numbers in [0, 1)."""
SIGNED_UNIT_INTERVAL = Quantisation((1 / 128,), (0,))
"""int8 quantisation of real numbers in [-1, 1)."""


def real_table(function: Callable[[float], float], x: TensorType, y: TensorType) -> Array:
    """Table of y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even.

    Product, result of f and quotient are rounded to single precision, as ONNX computes them.
    Returns int8 elements of shape (256,) for the inputs -128 .. 127.  Inputs at which the function
    is undefined yield -128, as in onnxruntime on x86-64; a result that overflows, or a pole,
    saturates to 127.

    Source: ONNX operator specification, DequantizeLinear and QuantizeLinear, which do not define
    the element of NaN.
    """
    inputs = (ELEMENTS - x.zero_point).astype(np.float32) * np.float32(x.scale)
    with np.errstate(over="ignore"):
        reals = np.array([_evaluated(function, float(r)) for r in inputs]).astype(np.float32)
        quotients = reals / np.float32(y.scale)
    steps = np.clip(np.rint(quotients), -LARGEST_STEPS, LARGEST_STEPS)
    return saturated(steps.astype(np.int64) + y.zero_point)


def _evaluated(function: Callable[[float], float], x: float) -> float:
    """f(x); minus infinity if it is undefined, infinity if it overflows."""
    try:
        found = function(x)
    except ValueError:
        return -math.inf
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return -math.inf if math.isnan(found) else found


def real_sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def finite_parameter(node: OnnxNode, name: str, default: float) -> float:
    """A real attribute of an ONNX node.  Raises ModelError unless it is finite."""
    found = node.real(name, default)
    require(math.isfinite(found), f"{name} is {found}, must be a finite number")
    return found


INTEGER_BITS = 4
INT8_MIN, INT8_MAX = -128, 127


def sigmoid_table(
    function: Callable[[Int64s, int], Int64s], x: TensorType, fraction_bits: int, zero: int
) -> Array:
    """Table of a function from Q4.27 to Q0.31, rounded to `fraction_bits`.

    The output saturates where the reference considers the input too large for Q4.27."""
    real = x.scale * 2.0 ** (31 - INTEGER_BITS)
    largest = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS)
    radius = math.floor(math.ldexp(largest, -math.frexp(real)[1]))
    centred = ELEMENTS - x.zero_point
    below, above = centred <= -radius, centred >= radius
    if radius == 0:  # the scale is 8 or more: a step, low at the zero point itself
        return np.where(below, INT8_MIN, INT8_MAX).astype(np.int8)
    q4 = multiply(np.where(below | above, 0, centred), *quantise_multiplier(real))
    rounded = rounding_shift(function(q4, INTEGER_BITS), 31 - fraction_bits) + zero
    return saturated(np.select([below, above], [INT8_MIN, INT8_MAX], rounded))
