"""Fixed-point arithmetic of TFLite's reference kernels, bit-exact, on int64 arrays of int32 values.

A real multiplier M is represented as (multiplier, shift) with M = multiplier * 2**(shift - 31) and
2**30 <= multiplier < 2**31. A multiplication rounds twice ("double rounding"): in a saturating
doubling high multiply, and in a rounding right shift.

Source: TensorFlow Lite Micro, `kernels/internal/common.cc` and `quantization_util.cc`; gemmlowp,
`fixedpoint/fixedpoint.h`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.choices import Rounding
from penstock.errors import UnsupportedError

Int64s = NDArray[np.int64]
INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


def quantise_multiplier(real: float) -> tuple[int, int]:
    """Return (multiplier, shift) of a non-negative real multiplier, (0, 0) if it is below 2**-32.

    >>> quantise_multiplier(0.75)
    (1610612736, 0)

    Raises UnsupportedError if it is 2**31 or more, because the shift would exceed 31 bits.
    """
    if not 0.0 <= real < 2.0**31:
        raise UnsupportedError(
            "model-024",
            f"the multiplier computed from the scales is {real:.4g}, must be below 2**31",
            why="multipliers have 32 bits",
            help="check the scales of the node's inputs and output",
        )
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier //= 2
        shift += 1
    return (multiplier, shift) if shift >= -31 else (0, 0)


def wrap_int32(x: Int64s) -> Int64s:
    """Return x modulo 2**32, as int32 values."""
    return ((x - INT32_MIN) & 0xFFFFFFFF) + INT32_MIN


def doubling_high_multiply(a: Int64s, b: Int64s | int) -> Int64s:
    """Return round(a * b / 2**31), saturated (gemmlowp, SaturatingRoundingDoublingHighMul)."""
    # gemmlowp adds 1 - 2**30 to negative products and truncates. The result is the same, because
    # truncating a negative n / d yields floor((n + d - 1) / d).
    return np.minimum((a * b + (1 << 30)) >> 31, INT32_MAX)


def rounding_shift(x: Int64s, exponent: Int64s | int) -> Int64s:
    """Return round(x / 2**exponent), ties away from zero (RoundingDivideByPOT)."""
    exponent = np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    remainder = x & mask
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + (remainder > threshold)


def multiply(
    x: Int64s,
    multiplier: Int64s | int,
    shift: Int64s | int,
    rounding: Rounding = Rounding.DOUBLE,
    addend: Int64s | int = 0,
) -> Int64s:
    """Return x times a real multiplier, rounded (MultiplyByQuantizedMultiplier).

    addend: added to the product before it is rounded, in units of 2**(shift - 31); only with single
        rounding."""
    shift = np.asarray(shift, np.int64)
    if rounding is Rounding.SINGLE:
        total = 31 - shift
        return (x * multiplier + addend + (np.int64(1) << (total - 1))) >> total
    left = np.maximum(shift, 0)
    right = np.maximum(-shift, 0)
    return rounding_shift(doubling_high_multiply(wrap_int32(x << left), multiplier), right)


def requantise(
    accumulators: NDArray[Any],
    multiplier: NDArray[Any] | int,
    shift: NDArray[Any] | int,
    zero_point: int,
    bounds: tuple[int, int],
    rounding: Rounding = Rounding.DOUBLE,
    addend: NDArray[Any] | int = 0,
) -> NDArray[np.int8]:
    """Return accumulators as output elements: scaled, offset, and clamped to `bounds` (inclusive).

    Multiplier, shift and addend are scalars, or arrays indexed by the last axis.

    >>> requantise(np.array([100, -8, 900]), 2**30, 0, zero_point=-3, bounds=(-128, 127))
    array([ 47,  -7, 127], dtype=int8)
    """
    sums = np.asarray(accumulators, np.int64)
    scaled = multiply(sums, multiplier, shift, rounding, addend) + zero_point
    return np.clip(scaled, *bounds).astype(np.int8)


def round_half_away(x: float) -> int:
    """Return the nearest integer, ties away from zero (std::round)."""
    below = math.floor(abs(x))
    nearest = below + (abs(x) - below >= 0.5)  # abs(x) + 0.5 would round before truncation
    return nearest if x >= 0 else -nearest


def float32(x: float) -> float:
    """Return x rounded to single precision; infinite if it overflows."""
    with np.errstate(over="ignore"):
        return float(np.float32(x))
