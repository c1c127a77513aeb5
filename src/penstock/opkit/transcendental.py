"""exp, log, reciprocals, logistic and tanh in the fixed-point arithmetic of the reference.

Arrays are int64 and hold int32 values.  "Qm.n" has m bits before the binary point and n after it.

Sources: gemmlowp, `fixedpoint/fixedpoint.h`; for the tables of Softmax and LogSoftmax, TFLite,
`PreprocessSoftmaxScaling` and `CalculateInputRadius` (quantization_util.cc).
"""

from __future__ import annotations

import numpy as np

from penstock.fixedpoint import (
    INT32_MAX,
    INT32_MIN,
    Int64s,
    doubling_high_multiply,
    multiply,
    quantise_multiplier,
    rounding_shift,
)


def exp_on_negative_values(x: Int64s, integer_bits: int) -> Int64s:
    """exp of x <= 0, as Q0.31; x has `integer_bits` (at most 5) before the binary point."""
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    in_quarter = (x & (quarter - 1)) - quarter
    result = _exp_near_minus_one_eighth(in_quarter << integer_bits)
    remainder = in_quarter - x
    # exp(-2**k) in Q0.31, for k = -2 .. 4.
    factors = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for k, factor in enumerate(factors[: integer_bits + 2], start=-2):
        bit = (remainder >> (fraction_bits + k)) & 1
        result = np.where(bit == 1, doubling_high_multiply(result, factor), result)
    return np.where(x == 0, INT32_MAX, result)


def _exp_near_minus_one_eighth(a: Int64s) -> Int64s:
    """exp of a in [-1/4, 0) in Q0.31: Taylor series around -1/8."""
    constant, third = 1895147668, 715827883  # exp(-1/8) and 1/3 in Q0.31
    x = a + (1 << 28)
    x2 = doubling_high_multiply(x, x)
    x3 = doubling_high_multiply(x2, x)
    quarter_x4 = rounding_shift(doubling_high_multiply(x2, x2), 2)
    tail = rounding_shift(doubling_high_multiply(quarter_x4 + x3, third) + x2, 1)
    return constant + doubling_high_multiply(np.asarray(constant, np.int64), x + tail)


def one_over_one_plus(a: Int64s) -> Int64s:
    """1 / (1 + a) for a in [0, 1], both in Q0.31."""
    return saturating_double(_half_reciprocal(a), 1)


def one_minus_over_one_plus(a: Int64s) -> Int64s:
    """(1 - a) / (1 + a) for a in [0, 1], both in Q0.31."""
    return saturating_double(_half_reciprocal(a) - (1 << 29), 2)


def _half_reciprocal(a: Int64s) -> Int64s:
    """2 / (1 + a) for a in [0, 1] in Q0.31, as Q2.29: Newton's method."""
    # (a + 1) / 2 in Q0.31; the sum itself would need 33 bits.
    half_denominator = (a + INT32_MAX + 1) >> 1
    x = 1515870810 + doubling_high_multiply(half_denominator, -1010580540)  # 48/17, -32/17
    for _ in range(3):
        remainder = (1 << 29) - doubling_high_multiply(half_denominator, x)
        x = x + saturating_double(doubling_high_multiply(x, remainder), 2)
    return x


def saturating_double(x: Int64s, times: int) -> Int64s:
    """x doubled `times` times, clamped to int32."""
    return np.clip(x << times, INT32_MIN, INT32_MAX)


def logistic(x: Int64s, integer_bits: int) -> Int64s:
    """1 / (1 + exp(-x)) as Q0.31."""
    on_positive = one_over_one_plus(exp_on_negative_values(-np.abs(x), integer_bits))
    result = np.where(x > 0, on_positive, INT32_MAX - on_positive)
    return np.where(x == 0, 1 << 30, result)


def tanh(x: Int64s, integer_bits: int) -> Int64s:
    """tanh(x) as Q0.31."""
    # exp(-2 |x|): the same bits, read with one more before the point.
    on_positive = one_minus_over_one_plus(exp_on_negative_values(-np.abs(x), integer_bits + 1))
    return np.where(x == 0, 0, np.sign(x) * on_positive)


def log(x: Int64s, integer_bits: int) -> Int64s:
    """Logarithm of x >= 1, which has `integer_bits` before the binary point, as Q5.26.

    x is 2**k * r with r near 2**-1/4; log r is a quotient of polynomials.
    Source: TFLite, `log_x_for_x_greater_than_or_equal_to_1` (kernels/internal/common.h)."""
    sqrt_half, quarter = 1518500250, 1 << 23  # Q0.31, Q6.25
    headroom = _headroom(x)
    near = saturating_double(doubling_high_multiply(x << headroom, sqrt_half), 1)
    power = ((integer_bits - 1 - headroom) << 25) + quarter
    other_headroom = _headroom(doubling_high_multiply(x, sqrt_half))
    other = np.clip(x << other_headroom, INT32_MIN, INT32_MAX)
    other_power = ((integer_bits - other_headroom) << 25) - quarter
    numerator, reciprocal = _log_quotient(np.minimum(near, other))
    fraction = doubling_high_multiply(rounding_shift(numerator, 6), reciprocal)
    whole = doubling_high_multiply(np.maximum(power, other_power), 1488522236)  # log(2)
    return saturating_double(whole + fraction, 1)


def _log_quotient(r: Int64s) -> tuple[Int64s, Int64s]:
    """log(r) - log(2**-1/4) for r near 2**-1/4, as (numerator, reciprocal of the denominator)."""
    center = 1805811301  # 2**-1/4
    p = (r + center + 1) >> 1
    q = 2 * (r - center)
    square = doubling_high_multiply(q, q)
    cubic = doubling_high_multiply(doubling_high_multiply(q, square), 117049297)
    numerator = doubling_high_multiply(q, r) + cubic
    inner = 1057819769 + q + doubling_high_multiply(square, 127690142)
    denominator = doubling_high_multiply(p, inner) + doubling_high_multiply(q, 638450708)
    return numerator, one_over_one_plus(denominator)


def _headroom(x: Int64s) -> Int64s:
    """Number of leading zeros of positive int32 values, without the sign bit."""
    lengths = [31 - int(value).bit_length() for value in x.ravel()]
    return np.array(lengths, np.int64).reshape(x.shape)


def inverse_sqrt(x: Int64s) -> tuple[Int64s, Int64s]:
    """1 / sqrt(x) of integers x >= 1, as (multiplier, shift) for `fixedpoint.multiply`.

    Newton's method in Q3.28, on x scaled into [2**27, 2**29) by a power of four.
    Source: TFLite, `GetInvSqrtQuantizedMultiplierExp` (kernels/internal/common.h)."""
    excess = np.maximum(0, 3 - _headroom(x)) // 2
    pairs = _headroom(x >> 2 * excess) // 2 - 1
    right_shift = 11 + excess - pairs
    half = rounding_shift(x >> 2 * excess << 2 * pairs >> 1, 1)
    root = np.full_like(x, 1 << 28)
    for _ in range(5):
        square = doubling_high_multiply(root, root)  # Q6.25
        cube = saturating_double(doubling_high_multiply(square, root), 6)  # Q9.22 to Q3.28
        grown = doubling_high_multiply(root, (1 << 28) + (1 << 27))  # 3/2 root, Q6.25
        root = saturating_double(grown - doubling_high_multiply(half, cube), 3)
    root = doubling_high_multiply(root, 1518500250)  # sqrt(1/2)
    multiplier = np.where(x > 1, root << np.maximum(0, -right_shift), INT32_MAX)
    return multiplier, np.where(x > 1, -np.maximum(0, right_shift), 0)


DIFFERENCE_BITS = 5
"""Integer bits of the scaled difference: Q5.26."""
SUM_BITS = 12
"""Integer bits of the sum of exponentials: Q12.19."""
MOST_ELEMENTS = 4095
"""Exponentials, each at most 1, whose sum fits Q12.19."""

_COUNTLESS = -(1 << 31)


def scaled_differences(scale: float) -> Int64s:
    """-d * scale in Q5.26 for d = 0 .. 255; -2**31 where d exceeds the input radius."""
    real = min(scale * 2 ** (31 - DIFFERENCE_BITS), 2**31 - 1.0)
    multiplier, shift = quantise_multiplier(real)
    largest = ((1 << DIFFERENCE_BITS) - 1) * 2.0 ** (31 - DIFFERENCE_BITS) / 2.0**shift
    differences = -np.arange(256, dtype=np.int64)
    counted = differences >= -int(largest)
    scaled = multiply(np.where(counted, differences, 0), multiplier, shift)
    return np.where(counted, scaled, _COUNTLESS)


def exp_table(scale: float) -> Int64s:
    """exp(-d * scale) in Q0.31 for d = 0 .. 255; 0 where d exceeds the input radius."""
    scaled = scaled_differences(scale)
    counted = scaled > _COUNTLESS
    return np.where(
        counted, exp_on_negative_values(np.where(counted, scaled, 0), DIFFERENCE_BITS), 0
    )
