"""Trigonometric and hyperbolic functions of real numbers.

    x  float32, any shape
    y  as x

sin, cos and atan are computed in integers and do not depend on a mathematical library; errors are
below 4 units in the last place, and 2^-29 where sin and cos are nearly 0.  The other functions are
made of them, of exp and of log.

Source: ONNX operator specification; Payne and Hanek, "Radian reduction for trigonometric
functions", SIGNUM Newsletter 18 (1983), for angles of any size; Taylor series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Params, Site, row_kernel
from penstock.ir.operator_facts import FUNCTION, onnx
from penstock.opkit.broadcast import Arithmetic, Plain, arithmetic
from penstock.opkit.float_functions import Floats
from penstock.opkit.nodes import in_shape_of_output, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.formulas import Term
from penstock.ops.plain import (
    PlainElu,
    PlainExp,
    PlainLog,
    PlainMaximum,
    PlainMinimum,
    PlainSqrt,
    Square,
)

ONE = 1 << 30
HALF_PI_Q30 = 1686629713
TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041
"""192 bits of 2 / pi behind the binary point."""
SINE = tuple(round((-1) ** k * ONE / math.factorial(2 * k + 1)) for k in range(5))
COSINE = tuple(round((-1) ** k * ONE / math.factorial(2 * k)) for k in range(6))
ARCTANGENT = tuple(round((-1) ** k * ONE / (2 * k + 1)) for k in range(9))
SMALL = 2.0**-12
"""Angles below have a sine of the same size."""


@cache
def _windows() -> NDArray[np.uint64]:
    """By the exponent field of a float, the 64 bits of 2 / pi that matter modulo 4."""
    shifts = (192 - (field - 151) - 63 for field in range(255))
    return np.array([(TWO_OVER_PI << 64 >> (64 + s)) & (2**64 - 1) for s in shifts], np.uint64)


def _alternating(z: Int64s, coefficients: tuple[int, ...]) -> Int64s:
    total = np.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = coefficient + ((total * z) >> 30)
    return total


def _in_quadrants(function: int) -> Callable[[Floats], Floats]:
    def found(a: Floats) -> Floats:
        inside = np.isfinite(a) & (np.abs(a) >= np.float32(SMALL))
        bits = np.where(inside, a, np.float32(1)).view(np.uint32)
        significand = ((bits & 0x7FFFFF) | 0x800000).astype(np.uint64)
        size = significand * _windows()[(bits >> 23) & 255]
        turned = np.where(bits >> 31 != 0, np.uint64(0) - size, size)
        quadrant = (turned + np.uint64(1 << 61)) >> np.uint64(62)
        rest = (turned - (quadrant << np.uint64(62))).view(np.int64)
        angle = ((rest >> 32) * HALF_PI_Q30) >> 30
        square = (angle * angle) >> 30
        cosine = _alternating(square, COSINE).astype(np.float32) * np.float32(2**-30)
        factor = _alternating(square, SINE).astype(np.float32) * np.float32(2**-30)
        sine = rest.astype(np.float32) * np.float32(math.pi / 2**63) * factor
        shape = quadrant + np.uint64(function)
        result = np.where(shape & np.uint64(1) != 0, cosine, sine)
        result = np.where(shape & np.uint64(2) != 0, -result, result)
        small = np.ones_like(a) if function else a
        return np.where(inside, result, np.where(np.isfinite(a), small, np.float32(np.nan)))

    return found


def _arctangent(a: Floats) -> Floats:
    size = np.where(np.isnan(a), np.float32(0), np.abs(a))
    is_large = size > 1
    inside = np.where(is_large, np.float32(1) / size, size)
    is_high = inside > np.float32(0.41421356)
    t = np.where(is_high, (inside - np.float32(1)) / (inside + np.float32(1)), inside)
    fixed = (t * np.float32(ONE)).astype(np.int64)
    factor = _alternating((fixed * fixed) >> 30, ARCTANGENT)
    near = t * (factor.astype(np.float32) * np.float32(2**-30))
    angle = ((fixed * factor) >> 30) + np.where(is_high, HALF_PI_Q30 >> 1, 0) + is_high
    far = np.where(is_large, HALF_PI_Q30 - angle, angle).astype(np.float32) * np.float32(2**-30)
    found = np.where(is_large | is_high, far, near)
    return np.where(np.isnan(a), a, np.where(a < 0, -found, found))


class AngleFunction(Enum):
    """A function between angles and ratios; the value is its number in the kernel."""

    SIN = 0
    COS = 1
    ATAN = 2


_FUNCTIONS: Mapping[AngleFunction, Callable[[Floats], Floats]] = {
    AngleFunction.SIN: _in_quadrants(0),
    AngleFunction.COS: _in_quadrants(1),
    AngleFunction.ATAN: _arctangent,
}


@frozen
class Trigonometric(Plain):
    """sin, cos or atan of real numbers."""

    function: AngleFunction

    REFERENCE_ULPS = 4
    TFLITE = ("SIN", "COS")
    ONNX = onnx(
        FUNCTION,
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sign", "Sin"),
        *("Sinh", "Tan"),
    )
    ARITHMETIC = arithmetic("trigonometric", float32=np.sin)

    def arithmetic(self, site: Site) -> Arithmetic:
        return Arithmetic(_FUNCTIONS[self.function], "trigonometric_f32")

    def kernel(self, site: Site) -> Kernel:
        found = Plain.kernel(self, site)
        params: Params = (*found.params, ("function", self.function.value))
        return row_kernel(found.name, params)


@frozen
class Sign(Plain):
    """1, 0 or -1 by the sign of a real number; NaN stays."""

    TFLITE = ("SIGN",)
    ARITHMETIC = arithmetic("sign", float32=np.sign)


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite SIN, COS and SIGN of real numbers."""
    return in_shape_of_output(node, from_onnx(onnx_form(node, node.name.capitalize())))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX's trigonometric and hyperbolic functions, and Sign."""
    new = RealNodes(node)
    x = Term(new, new.input(0))
    plain = {f.name.capitalize(): Trigonometric(f) for f in AngleFunction} | {"Sign": Sign()}
    found = x.to(plain[node.name]) if node.name in plain else _COMPOSED[node.name](x)
    return new.result(found.value)


_SIN, _COS, _ATAN = (Trigonometric(function) for function in AngleFunction)


def _acos(x: Term) -> Term:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    return ((1.0 - x) / (x + 1.0)).to(PlainSqrt()).to(_ATAN) * 2.0


def _sinh(x: Term) -> Term:
    """-m (exp(|x|) + 1) / 2 with the sign of x, where m = exp(-|x|) - 1."""
    size = abs(x)
    less, more = (0.0 - size).to(PlainElu()), size.to(PlainExp()) + 1.0
    return x.to(Sign()) * -0.5 * less * more


def _cosh(x: Term) -> Term:
    power = abs(x).to(PlainExp())
    return (power + 1.0 / power) * 0.5


def _asinh(x: Term) -> Term:
    """log(1 + a + (a / b) a / (1 / b + sqrt(1 / b^2 + (a / b)^2))) with the sign of x, where
    a = |x| and b = max(a, 1), so that no square overflows."""
    size = abs(x)
    bound = size.to(PlainMaximum(), 1.0)
    share, inverse = size / bound, 1.0 / bound
    root = (share.to(Square()) + inverse.to(Square())).to(PlainSqrt())
    return _log_of_one_plus(size + share * size / (inverse + root)) * x.to(Sign())


def _acosh(x: Term) -> Term:
    """log(1 + (x - 1) + sqrt(x - 1) sqrt(x + 1))."""
    above = x - 1.0
    below = x + 1.0
    return _log_of_one_plus(above + above.to(PlainSqrt()) * below.to(PlainSqrt()))


def _atanh(x: Term) -> Term:
    """log(1 + 2 a / (1 - a)) / 2 with the sign of x, where a = |x|."""
    size = abs(x)
    return _log_of_one_plus((size + size) / (1.0 - size)) * (x.to(Sign()) * 0.5)


def _log_of_one_plus(u: Term) -> Term:
    """log(w) u / (w - 1), where w = 1 + u as it is rounded; 0 for u that vanish in it.

    The quotient is at most 2: it only makes up for the rounding."""
    w = u + 1.0
    step = (w - 1.0).to(PlainMaximum(), 2.0**-24)
    share = (u / step).to(PlainMinimum(), 2.0)
    return w.to(PlainLog()) * share


_COMPOSED: Mapping[str, Callable[[Term], Term]] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": lambda x: (x / ((1.0 - x) * (x + 1.0)).to(PlainSqrt())).to(_ATAN),
    "Asinh": _asinh,
    "Atanh": _atanh,
    "Cosh": _cosh,
    "Sinh": _sinh,
    "Tan": lambda x: x.to(_SIN) / x.to(_COS),
}
