"""Element-wise operators on plain numbers, int32 or float32; inputs are broadcast.

    Ceil, Floor, Round, Square                     float32
    Neg                                            int32 or float32
    Power                                          float32
    FloorDiv                                       int32 or float32
    FloorMod                                       int32
    PlainAdd, PlainSub, PlainMul, PlainMaximum,
    PlainMinimum, PlainSquaredDifference           int32 (modulo 2^32) or float32
    other operators whose names begin with Plain   float32

They compute on tensors without quantisation what the operators without "Plain" in their names
compute on int8 (`ops/binary.py`, `ops/unary.py`); importers choose by the element type.

Sources: TFLite, `reference/ceil.h`, `floor.h`, `round.h`, `neg.h`, `kernels/floor_div.cc`,
`kernels/floor_mod.cc`, `micro/kernels/elementwise.cc`; ONNX operator specification, Pow; for the
error function, Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28, in integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, row_kernel
from penstock.ir.operator_facts import FUNCTION, PLAIN, REALS, RelayName, onnx, relay
from penstock.ir.tensor import Array, DType, Region
from penstock.opkit import float_functions
from penstock.opkit.activation import POSITIVE, Limits, is_positive
from penstock.opkit.broadcast import Arithmetic, Clamped, Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import Floats
from penstock.opkit.real_nodes import RealNodes, real_elementwise
from penstock.ops.conversions import Cast


@frozen
class Ceil(Plain):
    """Smallest integer that is not below x."""

    TFLITE = ("CEIL",)
    RELAY = relay("ceil")
    ARITHMETIC = arithmetic("ceil", float32=np.ceil)


@frozen
class Floor(Plain):
    """Largest integer that is not above x."""

    TFLITE = ("FLOOR",)
    RELAY = relay("floor")
    ARITHMETIC = arithmetic("floor", float32=np.floor)


def _rounded(x: Array) -> Array:
    """As the reference, numbers in (-0.5, 0) yield +0."""
    floor = np.floor(x)
    remainder = x - floor
    up = (remainder > 0.5) | ((remainder == 0.5) & (np.fmod(floor, 2) != 0))
    return np.where(up, floor + np.float32(1), floor)


def rounded_away(x: Array) -> Array:
    """The nearest integer; that of two which is further from zero."""
    magnitude = np.abs(x)
    floor = np.floor(magnitude)
    return np.copysign(np.where(magnitude - floor >= 0.5, floor + 1, floor), x)


@frozen
class Round(Plain):
    """Nearest integer; the even one of two, or that which is further from zero (`away`)."""

    away: bool = False

    TFLITE = ("ROUND",)
    ONNX = onnx(FUNCTION, "Round")
    RELAY = (RelayName("round", (("away", False),)),)
    ARITHMETIC = arithmetic("round", float32=_rounded)

    def arithmetic(self, site: Site) -> Arithmetic:
        return Arithmetic(rounded_away if self.away else _rounded, "round_f32")

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("round_f32", Plain.kernel(self, site).params, away=self.away)


@frozen
class Neg(Plain):
    """Negation."""

    TFLITE = ("NEG",)
    RELAY = relay("negative")
    ARITHMETIC = arithmetic("neg", int32=np.negative, float32=np.negative)


@frozen
class Square(Plain):
    """Square."""

    TFLITE = ("SQUARE",)
    ARITHMETIC = arithmetic("square", float32=np.square)


@frozen
class PlainAbs(Plain):
    """The absolute value of real numbers."""

    RELAY = relay("abs")
    ARITHMETIC = arithmetic("abs", float32=np.abs)


@frozen
class PlainExp(Plain):
    """The exponential of real numbers."""

    RELAY = relay("exp")
    REFERENCE_ULPS = 2
    ARITHMETIC = arithmetic("exp", float32=float_functions.exp)


@frozen
class PlainLog(Plain):
    """Natural logarithm of real numbers; -infinity for 0, NaN for x < 0."""

    RELAY = relay("log")
    REFERENCE_ULPS = 2
    ARITHMETIC = arithmetic("log", float32=float_functions.log)


@frozen
class PlainSqrt(Plain):
    """Square root of real numbers, correctly rounded; NaN for x < 0."""

    RELAY = relay("sqrt")
    ARITHMETIC = arithmetic("sqrt", float32=float_functions.square_root)


@frozen
class PlainRsqrt(Plain):
    """The reciprocal square root of real numbers."""

    RELAY = relay("rsqrt")
    ARITHMETIC = arithmetic("rsqrt", float32=float_functions.inverse_square_root)


@frozen
class PlainElu(Plain):
    """The exponential linear unit of real numbers."""

    REFERENCE_ULPS = 2
    ARITHMETIC = arithmetic("elu", float32=float_functions.elu)


def _hard_swish(x: Floats) -> Floats:
    raised = np.maximum(x + np.float32(3), np.float32(0))
    return x * np.minimum(raised, np.float32(6)) / np.float32(6)


@frozen
class PlainHardSwish(Plain):
    """x * clip(x + 3, 0, 6) / 6, each operation rounded.

    Source: TFLite HARD_SWISH; `reference/hard_swish.h`."""

    ARITHMETIC = arithmetic("hard_swish", float32=_hard_swish)


@frozen
class PlainLogistic(Plain):
    """The logistic function of real numbers."""

    RELAY = relay("sigmoid")
    REFERENCE_ULPS = 4
    ARITHMETIC = arithmetic("logistic", float32=float_functions.logistic)


@frozen
class PlainTanh(Plain):
    """The hyperbolic tangent of real numbers."""

    RELAY = relay("tanh")
    REFERENCE_ULPS = 3
    ARITHMETIC = arithmetic("tanh", float32=float_functions.tanh)


ERF_COEFFICIENTS = (46239, 296962, 163224, 9954153, 45399965, 75723579)
"""Of x^6 to x, in Q30."""
ONE = 1 << 30


def erf(x: Floats) -> Floats:
    """erf(x) with an error below 4e-7, as the C kernel `erf_f32` computes it."""
    size = np.where(np.abs(x) < 4, np.abs(x), np.float32(4))
    position = (size * np.float32(2**28)).astype(np.int64)
    total = np.zeros_like(position)
    for coefficient in ERF_COEFFICIENTS:
        total = ((total + coefficient) * position) >> 28
    power = (1 << 60) // (ONE + total)
    for _ in range(4):
        power = (power * power) >> 30
    found = (ONE - power).astype(np.float32) * np.float32(2**-30)
    return np.where(np.isnan(x), x, np.where(x < 0, -found, found))


@frozen
class PlainErf(Plain):
    """The error function; created from ONNX's Erf and Gelu on real numbers."""

    RELAY = relay("erf")
    ARITHMETIC = arithmetic("erf", float32=erf)


@frozen
class PlainErfc(Plain):
    """The complementary error function; created from TFLite's GELU on real numbers."""

    REFERENCE_ULPS = 24
    ARITHMETIC = arithmetic("erfc", float32=float_functions.erfc)


@frozen
class PlainRelu(Plain):
    """Clamp of real numbers; NaN stays."""

    limits: Limits = POSITIVE

    RELAY = (*relay("clip"), RelayName("nn.relu", (("limits", is_positive),)))
    ARITHMETIC = arithmetic("relu", float32=np.positive)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return self.limits.applied(Plain.evaluate(self, site, inputs, out))

    def kernel(self, site: Site) -> Kernel:
        bounds = Table.of(self.limits.array(DType.FLOAT32))
        return row_kernel(
            "relu_f32",
            Plain.kernel(self, site).params,
            bounded=self.limits.most < math.inf,
            bounds=bounds,
        )


@frozen
class PlainAdd(Clamped):
    """Sum of two tensors of plain numbers."""

    RELAY = relay("add")
    ARITHMETIC = arithmetic("add", int32=np.add, float32=np.add)


@frozen
class PlainSub(Clamped):
    """Difference of two tensors of plain numbers."""

    RELAY = relay("subtract")
    ARITHMETIC = arithmetic("sub", int32=np.subtract, float32=np.subtract)


@frozen
class PlainMul(Clamped):
    """Product of two tensors of plain numbers."""

    RELAY = relay("multiply")
    ARITHMETIC = arithmetic("mul", int32=np.multiply, float32=np.multiply)


@frozen
class PlainDiv(Clamped):
    """Quotient of two tensors of real numbers.

    One that overflows, or whose divisor is 0, is clamped; 0 / 0 is NaN."""

    ONNX = onnx(REALS, "Div")
    RELAY = relay("divide")
    ARITHMETIC = arithmetic("div", float32=np.divide)


# Not np.maximum, which yields NaN where either operand is NaN.
def _larger(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


@frozen
class PlainMaximum(Plain):
    """Element-wise maximum of two tensors of plain numbers; b where one is NaN."""

    INPUTS = 2
    RELAY = relay("maximum")
    ARITHMETIC = arithmetic("maximum", int32=_larger, float32=_larger)


@frozen
class PlainMinimum(Plain):
    """Element-wise minimum of two tensors of plain numbers; b where one is NaN."""

    INPUTS = 2
    RELAY = relay("minimum")
    ARITHMETIC = arithmetic("minimum", int32=_smaller, float32=_smaller)


def _sloped(a: Floats, b: Floats) -> Floats:
    return np.where(a < 0, a * b, a)


@frozen
class PlainPRelu(Plain):
    """a, or a * b where a is below zero; NaN stays.

    Source: TFLite PRELU and LEAKY_RELU; ONNX PRelu and LeakyRelu."""

    INPUTS = 2
    RELAY = relay("nn.prelu")
    ARITHMETIC = arithmetic("prelu", float32=_sloped)


def _squared(a: Array, b: Array) -> Array:
    return np.square(np.subtract(a, b))


@frozen
class PlainSquaredDifference(Plain):
    """The square of the difference of two tensors of plain numbers."""

    INPUTS = 2
    ARITHMETIC = arithmetic("squared_difference", int32=_squared, float32=_squared)


def _power(a: Floats, b: Floats) -> Floats:
    """exp(b * log(a)), with a relative error below 2**-22 times the larger of 1 and |b * log(a)|.
    Negative a have powers for integers b, and else NaN."""
    negative = (a < 0) & (np.floor(b) == b)
    size = float_functions.exp(b * float_functions.log(np.where(negative, -a, a)))
    half = b * np.float32(0.5)
    signed = np.where(negative & (np.floor(half) != half), -size, size)
    return np.where(b == 0, np.float32(1), signed)


@frozen
class Power(Plain):
    """Element-wise power of real numbers; inputs may be broadcast."""

    TFLITE = ("POW",)
    ONNX = onnx(PLAIN, "Pow")
    INPUTS = 2
    RELAY = relay("power")
    REFERENCE_ULPS = 16  # where |b * log(a)| is at most 4, see `_power`
    ARITHMETIC = arithmetic("power", float32=_power)


def _floor_divided(a: Array, b: Array) -> Array:
    """The reference fails if a divisor is 0, for which this yields 0."""
    wide = a.astype(np.int64) // np.where(b == 0, 1, b)
    return np.where(b == 0, 0, wide).astype(np.int32)


def _quotient_floor(a: Array, b: Array) -> Array:
    """Rounded once, after the floor."""
    return np.floor(a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)


@frozen
class FloorDiv(Plain):
    """Element-wise quotient, rounded towards minus infinity; inputs may be broadcast."""

    TFLITE = ("FLOOR_DIV",)
    RELAY = relay("floor_divide")
    INPUTS = 2
    ARITHMETIC = arithmetic("floor_div", int32=_floor_divided, float32=_quotient_floor)


def _remainder(a: Array, b: Array) -> Array:
    """a - b * floor(a / b).  The reference fails if a divisor is 0, for which this yields a."""
    wide = a.astype(np.int64) % np.where(b == 0, 1, b)
    return np.where(b == 0, a, wide).astype(np.int32)


@frozen
class FloorMod(Plain):
    """Element-wise remainder with the sign of the divisor; inputs may be broadcast."""

    TFLITE = ("FLOOR_MOD",)
    RELAY = relay("floor_mod")
    INPUTS = 2
    ARITHMETIC = arithmetic("floor_mod", int32=_remainder)


def _real_remainder(a: Floats, b: Floats) -> Floats:
    return np.where(b == 0, np.float32(np.nan), np.fmod(a, b))


def _floored_remainder(a: Floats, b: Floats) -> Floats:
    found = _real_remainder(a, b)
    return np.where((found != 0) & ((a < 0) != (b < 0)), found + b, found)


@frozen
class PlainMod(Plain):
    """The remainder of real numbers, with the sign of the dividend, or of the divisor if `floored`;
    NaN for the divisor 0."""

    floored: bool = True

    ONNX = onnx(PLAIN, "Mod")
    INPUTS = 2
    RELAY = relay("mod")
    ARITHMETIC = arithmetic("mod", float32=_floored_remainder)

    def arithmetic(self, site: Site) -> Arithmetic:
        return Arithmetic(_floored_remainder if self.floored else _real_remainder, "mod_f32")

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("mod_f32", Plain.kernel(self, site).params, floored=self.floored)


_ONLY_PLAIN: Mapping[str, Plain] = {
    name: op
    for op in (Ceil(), Floor(), Round(), Neg(), Square(), FloorDiv(), FloorMod(), Power())
    for name in op.TFLITE
}
"""Operators that have no kernel for int8, by their TFLite names."""


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite's functions of plain numbers."""
    if node.name == "FLOOR_MOD" and node.x.dtype is DType.FLOAT32:
        return typed_nodes(node, PlainMod(), None)
    return typed_nodes(node, _ONLY_PLAIN[node.name], None)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Div, Mod, Pow, Round of real numbers; powers of integers are rounded towards 0."""
    ops: Mapping[str, Plain] = {"Div": PlainDiv(), "Pow": Power(), "Round": Round()}
    op = ops.get(node.name) or PlainMod(not node.integer("fmod", 0))
    dtype = node.x.dtype
    if node.name != "Pow" or dtype in (DType.FLOAT32, DType.INT8):
        return real_elementwise(node, op)
    new = RealNodes(node)
    power = new.apply(op, new.input(0), new.input(1))
    # The error of a power must not round a whole number down.
    raised = new.apply(PlainMul(), power, new.constant(1 + 2.0**-20, "above"))
    return new.result(new.apply(Cast(dtype), raised))
