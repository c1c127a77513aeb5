"""exp, erfc, log, sqrt, logistic and tanh of float32 arrays, as the C kernels compute them.

They use single-precision operations, which IEEE 754 defines to the last bit.

Source: the C headers `complementary_error.h`, `exponential.h`, `logarithm.h`, `square_root.h` and
`sigmoid_f32.h`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.fixedpoint import Int64s

Floats = NDArray[np.float32]

LOG2_E = np.float32(1.442695)
LOG_2_HIGH, LOG_2_LOW = np.float32(0.69314575), np.float32(1.4286068e-6)
"""log(2) in two parts, of which the first has 15 bits: its products by an exponent are exact."""
EXP_COEFFICIENTS = tuple(
    np.float32(c) for c in (0.0013814172, 0.008368922, 0.041668408, 0.1666652, 0.49999994)
)
"""Of (exp(r) - 1 - r) / r^2, the highest power first, fitted for |r| below 0.348."""
EXP_OVERFLOWS, EXP_VANISHES = 89.0, -104.0


def square_root(x: Floats) -> Floats:
    """sqrt(x), correctly rounded; NaN for negative numbers."""
    return np.where(x < 0, np.float32(np.nan), np.sqrt(np.abs(x)) * np.copysign(np.float32(1), x))


def inverse_square_root(x: Floats) -> Floats:
    """1 / sqrt(x); both operations are correctly rounded."""
    return np.float32(1) / square_root(x)


def exp(x: Floats) -> Floats:
    """exp(x), with an error below 1 ulp; infinity, 0 or a subnormal number at the ends."""
    inside = (x <= EXP_OVERFLOWS) & (x >= EXP_VANISHES)
    bounded = np.where(inside, x, np.float32(0))
    half = np.copysign(np.float32(0.5), bounded)
    exponent = (bounded * LOG2_E + half).astype(np.int64)
    n = exponent.astype(np.float32)
    rest = bounded - np.multiply(n, LOG_2_HIGH) - np.multiply(n, LOG_2_LOW)
    with np.errstate(over="ignore", under="ignore"):
        found = _scaled(np.float32(1) + _exp_near_zero(rest), exponent)
    ends = np.where(x > 0, np.float32(np.inf), np.float32(0))
    return np.where(inside, found, np.where(np.isnan(x), x, ends))


def _exp_near_zero(r: Floats) -> Floats:
    """exp(r) - 1 for r in [-0.35, 0.35]."""
    first, *others = EXP_COEFFICIENTS
    total = np.full_like(r, first)
    for coefficient in others:
        total = np.add(total * r, coefficient)
    return np.add(r, r * r * total)


ERFC_COEFFICIENTS = (
    *(-1.26542294, 0.998133421, 0.390863478, 0.0146937938, 0.0590993389),
    *(-0.187967986, -0.567295074, 1.0606724, -0.640320122, 0.137543783),
)
"""Of log(erfc(x) / t) + x^2 as a polynomial of t = 1 / (1 + x / 2), fitted for x below 9."""


def erfc(x: Floats) -> Floats:
    """1 - erf(x), with an error below 24 ulp for x < 4; below 7 for x < 2."""
    size = np.abs(x)
    t = np.float32(1) / (np.float32(1) + np.float32(0.5) * size)
    *others, last = (np.float32(c) for c in ERFC_COEFFICIENTS)
    total = np.full_like(size, last)
    for coefficient in reversed(others):
        total = total * t + coefficient
    with np.errstate(over="ignore"):
        found = t * exp(total - size * size)
    return np.where(x < 0, np.float32(2) - found, found)


def elu(x: Floats) -> Floats:
    """x, or exp(x) - 1 where x is negative, with an error below 2 ulp."""
    near = np.where((x < 0) & (x >= -0.34375), x, np.float32(0))
    below = np.where(x < -0.34375, exp(x) - np.float32(1), _exp_near_zero(near))
    return np.where(x < 0, below, x)


def _truncated_quotient(a: Int64s, b: Int64s) -> Int64s:
    """a / b, rounded towards 0, as in C; b is positive."""
    return np.sign(a) * (np.abs(a) // b)


def _scaled(x: Floats, n: Int64s) -> Floats:
    """x * 2**n in two steps, which may round subnormal numbers twice."""
    half = _truncated_quotient(n, np.array(2))
    return x * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(n: Int64s) -> Floats:
    return ((n + 127) << 23).astype(np.uint32).view(np.float32)


LOG_COEFFICIENTS = tuple(np.float32(c) for c in (0.29581103, 0.39988747, 0.66666687))
"""Of (log((1 + s) / (1 - s)) - 2 s) / s as a polynomial of s^2, the highest power first, fitted for
|s| below 0.172."""
ROOT_HALF_BITS, ONE_BITS = 0x3F3504F3, 0x3F800000


def log(x: Floats) -> Floats:
    """Natural logarithm, with an error below 1 ulp; -infinity for 0, NaN for x < 0."""
    inside = (x > 0) & np.isfinite(x)
    found = _log_of_positive(np.where(inside, x, np.float32(1)))
    ends = np.where(x == 0, np.float32(-np.inf), np.where(x < 0, np.float32(np.nan), x))
    return np.where(inside, found, ends)


def _log_of_positive(x: Floats) -> Floats:
    subnormal = x < np.float32(2.0**-126)
    normal = x * np.where(subnormal, np.float32(2**24), np.float32(1))
    bits = normal.view(np.uint32).astype(np.int64) + ONE_BITS - ROOT_HALF_BITS
    n = ((bits >> 23) - 127 - 24 * subnormal).astype(np.float32)
    f = ((bits & 0x7FFFFF) + ROOT_HALF_BITS).astype(np.uint32).view(np.float32) - np.float32(1)
    s = f / (np.float32(2) + f)
    square, r = s * s, np.zeros_like(s)
    for coefficient in LOG_COEFFICIENTS:
        r = r * square + coefficient
    high = n * LOG_2_HIGH
    total = high + f
    lost = f - (total - high)
    return np.add(total, lost + (n * LOG_2_LOW - s * (f - r * square)))


def logistic(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), with an error below 3 ulp; below -9, exp(x) as in the reference.

    Source: TFLite, `reference/logistic.h`."""
    power = exp(-np.abs(x))
    found = np.where(x < 0, power, np.float32(1)) / (np.float32(1) + power)
    inside = (x >= -9) & (x <= 20)
    return np.where(inside, found, np.where(x > 0, np.float32(1), exp(x)))


def tanh(x: Floats) -> Floats:
    """tanh(x), with an error below 2 ulp."""
    size = np.abs(x)
    distance = np.float32(2) / (np.float32(1) + exp(np.float32(2) * size))
    far = np.where(x < 0, distance - np.float32(1), np.float32(1) - distance)
    square = x * x
    denominator = np.full_like(x, 13)
    for n in range(11, 0, -2):
        denominator = np.float32(n) + square / denominator
    return np.where(size > 1, far, x / denominator)
